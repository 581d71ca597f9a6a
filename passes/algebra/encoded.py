"""A program as terms, with what its leaves stand for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tensorc.ir.dtypes import DType
from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import Equation, Expr, Program, Read, free_indices
from tensorc.passes.algebra.exponentials import arguments
from tensorc.passes.algebra.facts import Facts
from tensorc.passes.algebra.terms import Gather, Leaf, Term

LOG2E = Leaf("log2(e)")


@dataclass
class Encoded:
    """A program's equations as terms, with what the leaves are. `kept`: equations that stand as
    they are; `extents`: those of indices, gathered ones included; `reads`: forms that reads took;
    `gathers`: the reads that a gathered row stands for, by index name; `permuted`: those of which
    every row is picked once; `names`: of terms that the program names; `parts`: what leaves are
    parts of; `joins`: the equations of tensors that leaves may be parts of, by leaf; `copied`:
    those that each call has to make."""

    program: Program
    dtype: DType
    roots: list[tuple[Equation, Term]] = field(default_factory=list[tuple[Equation, Term]])
    leaves: dict[str, Expr] = field(default_factory=dict[str, Expr])
    constants: set[str] = field(default_factory=set[str])
    permutations: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    permuted: set[str] = field(default_factory=set[str])
    extents: dict[str, Polynomial] = field(default_factory=dict[str, Polynomial])
    reads: dict[Read, set[Read]] = field(default_factory=dict[Read, set[Read]])
    gathers: dict[str, list[tuple[Read, int]]] = field(
        default_factory=dict[str, list[tuple[Read, int]]]
    )
    names: dict[Term, str] = field(default_factory=dict[Term, str])
    parts: list[tuple[str, Term]] = field(default_factory=list[tuple[str, Term]])
    joins: dict[str, Equation] = field(default_factory=dict[str, Equation])
    copied: set[str] = field(default_factory=set[str])

    def view(self, term: Term, other: str) -> bool:
        """Whether a term picks a row by positions, none of them of the index `other`."""
        if not isinstance(term, Gather) or not isinstance(term.at, Leaf):
            return False
        at = self.leaves[term.at.name]
        reads = any(isinstance(item, Read) for item in postorder([at]))
        return not reads and other not in free_indices(at)

    def free(self) -> dict[str, frozenset[str]]:
        """The free indices of all leaves, extents that rules bring in among them."""
        extents = {f"|{name}|": frozenset[str]() for name in self.extents}
        return {**extents, **self.facts().free}

    def facts(self) -> Facts:
        """What the e-graph is told of the leaves."""
        free = {name: free_indices(expr) for name, expr in self.leaves.items()}
        terms = [term for _, term in self.roots]
        known = frozenset(self.constants), frozenset(self.permutations)
        about = arguments(terms), tuple(self.parts), frozenset(self.copied)
        return Facts({LOG2E.name: frozenset(), **free}, *known, *about)

    def facts_of_all(self) -> Facts:
        """The same for terms that rules have made: also of extents, which rules bring in."""
        return replace(
            self.facts(),
            free=self.free(),
            constants=frozenset(self.constants) | {f"|{name}|" for name in self.extents},
        )
