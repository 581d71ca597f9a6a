"""Software pipelines and warp specialisation by a constraint solver, and their checkers.

`schedule` is the pass; `check_schedule` shares no code with it.
"""
