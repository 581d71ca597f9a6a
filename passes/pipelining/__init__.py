"""From a schedule to the programs of the roles (level 3), and the proof that they fit together.

`channels` is the pass; `check_protocol` the proof.
"""
