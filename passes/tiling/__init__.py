"""From equations, planned or not, to level 2.

`lower` makes one kernel per equation; `tile_fused` follows a plan; `audit` counts
what a text costs.
"""
