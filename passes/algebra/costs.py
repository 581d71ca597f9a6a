"""What a form costs: operations and bytes at the sizes of this compile.

Weights are relative to one multiply-add on the CPU: enough to rank forms that are algebraically
equal, no prediction of seconds. A reduction is charged for reading its factors once, for writing
its result once and for being a loop of its own, so fewer and smaller tensors win where operations
tie. A part of a tensor is read where it lies, and costs as much as a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorc.passes.algebra.contraction_order import Names, order, points

FUNCTION = {
    "recip": 4, "exp": 13, "exp2": 12, "log": 14, "log2": 14, "tanh": 20, "sigmoid": 18, "erf": 20,
    "sin": 16, "cos": 16, "sqrt": 6, "rsqrt": 6, "pow": 40, "shift": 1, "max": 1, "min": 1,
}  # fmt: skip
OTHER = 8  # a function that the table lacks
STORED = 2  # an element of a reduction's result, written and read again
LOOP = 64  # a reduction, whatever its size
MASKED = 1  # a step of a sum under a condition on data, which no tile and no instruction skips
READ = 1  # an element of a tensor that a contraction reads
COPIED = 4  # an element of a tensor that is joined from others at every call, and its kernel
UNSTABLE = 40  # an exponential whose argument is not known to be at most 0


def elementwise(names: Names, operations: int, sizes: Mapping[str, int]) -> int:
    """`operations` at every point of the indices."""
    return operations * points(names, sizes)


def contraction(
    factors: Sequence[Names],
    kept: Names,
    indices: Names,
    where: Names,
    sizes: Mapping[str, int],
) -> int:
    """The sum of a product over `indices` into `kept`, contracted in the best order. What a
    condition depends on, `where`, stays until the last step."""
    if not factors:
        return points(kept | indices, sizes) + reduced(kept, sizes)
    in_order = sorted(factors, key=sorted)  # the greedy order of many depends on theirs
    found = order(in_order, kept | where, sizes)
    read = READ * sum(points(names, sizes) for names in factors)
    return found.work + STORED * found.elements + read + reduced(kept, sizes)


def copied(names: Names, sizes: Mapping[str, int]) -> int:
    """What joining tensors into one with these indices costs."""
    return LOOP + COPIED * points(names, sizes)


def reduced(kept: Names, sizes: Mapping[str, int]) -> int:
    """What a reduction costs beside its loop's operations."""
    return LOOP + STORED * points(kept, sizes)
