"""Values that are compared with values computed again, as an argmax compares with a maximum.

In memory both are one number. In a fused kernel each may be computed in its own order and differ in
the last bit; then no element equals the maximum. Such a comparison keeps its values in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorc.ir.node import fact, postorder
from tensorc.ir.tensor import Apply, Expr, Reduce, value_type

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_EXACT = ("neg", "abs", "max", "min", "floor", "ceil", "round", "trunc")  # no rounding takes place
_ORDERED = ("max", "min")  # reductions that round nothing


def compares_again(exprs: Sequence[Expr]) -> bool:
    """Whether anything compares two floats that are both computed with roundings."""
    return any(
        isinstance(node, Apply)
        and node.function.name in _COMPARISONS
        and all(_rounds(arg) for arg in node.args)
        for node in postorder(exprs)
    )


@fact
def _rounds(expr: Expr) -> bool:
    """Whether a float, or one that it is made of, is rounded on the way."""
    return any(_rounded(node) for node in postorder([expr]))


def _rounded(node: object) -> bool:
    match node:
        case Reduce():
            return value_type(node).floating and node.reducer.name not in _ORDERED
        case Apply(function, _):
            return value_type(node).floating and function.name not in _EXACT
        case _:
            return False
