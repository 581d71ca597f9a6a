"""Where exponentials stand: a rewritten program may take no exponential of a larger argument."""

from __future__ import annotations

from collections.abc import Iterable

from tensorc.ir.node import postorder
from tensorc.passes.algebra.terms import Call, Term

EXPONENTIALS = ("exp", "exp2")


def arguments(terms: Iterable[Term]) -> tuple[Term, ...]:
    """The arguments of all exponentials in `terms`, each once, in order of appearance."""
    found = (
        item.args[0]
        for item in postorder(terms)
        if isinstance(item, Call) and item.name in EXPONENTIALS
    )
    return tuple(dict.fromkeys(found))
