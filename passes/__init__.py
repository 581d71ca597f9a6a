"""Passes: functions IR -> IR, in the folder of their subject.

algebra     equality saturation (level 1 -> level 1)
fusion      which reductions share a loop, where kernels end (level 1 -> plan)
tiling      grids, tiles and instructions (level 1 or plan -> level 2)
scheduling  software pipelines by a constraint solver (problem -> schedule)
pipelining  roles, rings and barriers (schedule -> level 3)

Beside them: `canonicalise` and `complex_parts` (level 1 -> level 1), and `jobs`, the passes that
run in the worker.
"""
