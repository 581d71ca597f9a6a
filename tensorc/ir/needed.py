"""The part of a program that its outputs need: the only part that has to be computed.

An equation that no output needs has no meaning of its own: what would be out of range in it, or
would take a maximum of nothing, is neither computed nor reported.
"""

from __future__ import annotations

from dataclasses import replace

from tensorc.ir.node import postorder
from tensorc.ir.tensor import Equation, Program, Read


def needed(program: Program) -> Program:
    """The program without equations that no output needs, and without the checks in them."""
    names = {item.tensor.name for item in program.outputs}
    kept: list[Equation] = []
    for item in reversed(program.equations):
        if item.tensor.name in names:
            kept.append(item)
            reads = (node for node in postorder([item.body]) if isinstance(node, Read))
            names |= {read.tensor.name for read in reads}
    if len(kept) == len(program.equations):
        return program
    nodes = set(postorder([item.body for item in kept]))
    checks = tuple(check for check in program.checks if check.read in nodes)
    return replace(program, equations=tuple(reversed(kept)), checks=checks)
