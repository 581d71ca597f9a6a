"""Which reductions share a loop and where kernels end: level 1 to a plan.

`fuse` is the pass.
"""
