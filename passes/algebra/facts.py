"""What the e-graph is told of leaves, which it cannot look into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorc.passes.algebra.terms import Term


@dataclass(frozen=True)
class Facts:
    """What is known of leaves: free indices, which are positive constants, which are permutations
    of an index; the arguments of exponentials that stand in the source; what leaves are parts of,
    as gathers of other leaves; and which leaves are copies that each call has to make."""

    free: Mapping[str, frozenset[str]]
    constants: frozenset[str] = frozenset()
    permutations: frozenset[tuple[str, str]] = frozenset()
    sanctioned: tuple[Term, ...] = ()
    parts: tuple[tuple[str, Term], ...] = ()
    copied: frozenset[str] = frozenset()
