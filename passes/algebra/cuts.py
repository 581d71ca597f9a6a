"""Which terms become equations of their own.

A rounding does, a reduction that two equations use, and what a loop around it would compute again:
a reduction, or a product's factor with a costly function, that does not depend on every index of
the loops around it and cannot move out of them. What a declared name stood for keeps that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tensorc.ir.dtypes import BY_NAME
from tensorc.ir.node import Node, children, postorder
from tensorc.ir.tensor import Equation, Tensor
from tensorc.passes.algebra import terms as t
from tensorc.passes.algebra.encoded import Encoded
from tensorc.passes.algebra.terms import (
    Call,
    Fold,
    Gather,
    Leaf,
    Mul,
    Rounded,
    Some,
    Term,
    Yes,
)

_COSTLY = frozenset("exp exp2 log log2 tanh sigmoid erf sin cos pow".split())


@dataclass
class Body:
    """One equation in the making: what it defines, and under which indices."""

    tensor: Tensor
    indices: tuple[str, ...]
    term: Term
    source: Equation | None


def cuts(encoded: Encoded, roots: Sequence[Term]) -> dict[Term, Body]:
    """The equations that terms below the roots become, in the order in which they were found."""
    made = _Cuts(encoded, roots)
    made.choose()
    return made.cuts


class _Cuts:
    def __init__(self, encoded: Encoded, roots: Sequence[Term]) -> None:
        self.encoded, self.roots = encoded, roots
        self.cuts: dict[Term, Body] = {}
        self.free_of, self.extents = encoded.free(), encoded.extents
        program = encoded.program
        named = (*program.parameters, *program.outputs, *program.tables)
        kept = [*(equation for equation, _ in encoded.roots), *encoded.joins.values()]
        self.taken = {item.tensor.name for item in (*named, *kept)} | set(self.extents)
        self.named = {item.tensor.name for item in program.equations}
        self.order = list(self.extents)

    def choose(self) -> None:
        """Cut until no rule asks for another cut."""
        waiting = True
        while waiting:
            waiting = False
            users: dict[Term, set[int]] = {}
            bodies = [
                (frozenset(equation.indices), root)
                for (equation, _), root in zip(self.encoded.roots, self.roots, strict=True)
            ] + [(frozenset(body.indices), body.term) for body in self.cuts.values()]
            lefts = [item.indices for item, _ in self.encoded.roots]
            lefts += [body.indices for body in self.cuts.values()]
            for number, (left, root) in enumerate(bodies):
                for term, wanted in self.walk(root, left):
                    users.setdefault(term, set()).add(number)
                    if term not in self.cuts and (wanted or self.shared(term, users[term])):
                        waiting |= self.cut(term, lefts[number])

    def shared(self, term: Term, users: set[int]) -> bool:
        return len(users) > 1 and isinstance(term, Fold)

    def walk(self, root: Term, left: frozenset[str]) -> Iterable[tuple[Term, bool]]:
        """The terms of one equation, each with whether it has to be a name."""
        seen: set[tuple[Term, frozenset[str]]] = set()
        body = root.arg if isinstance(root, Rounded) and root in self.cuts else root
        stack: list[tuple[Term, frozenset[str], bool]] = [(body, frozenset(), True)]
        while stack:
            term, loops, top = stack.pop()
            if (term, loops) in seen or isinstance(term, Leaf | Yes):
                continue
            seen.add((term, loops))
            yield term, not top and self.wanted(term, loops)
            if term in self.cuts and not top:
                continue
            inner = loops | set(term.indices) if isinstance(term, Fold | Some) else loops
            for part in children(term):
                assert isinstance(part, Term)
                stack.append((part, inner, False))
                if isinstance(term, Gather) and part is term.arg and self.apart(term):
                    yield part, True
                if isinstance(term, Mul) and inner and self.repeated(part, left | inner):
                    yield part, True

    def wanted(self, term: Term, loops: frozenset[str]) -> bool:
        """Whether a term has to be a name: a reduction in a loop, and what the program named, if
        it has a reduction in it; whether to write it out where it is read is not decided here."""
        match term:
            case Rounded():
                return True
            case Fold():
                return bool(loops) or term in self.encoded.names
            case _:
                return term in self.encoded.names and self.reduces(term)

    def apart(self, term: Gather) -> bool:
        """Whether what rows are picked of needs a name: unless it is a tensor, or a view of one."""
        return not isinstance(term.arg, Leaf) and not self.encoded.view(term.arg, term.index)

    def reduces(self, term: Term) -> bool:
        return any(isinstance(item, Fold) for item in postorder([term]))

    def repeated(self, term: Term, loops: frozenset[str]) -> bool:
        """Whether loops around a costly factor would compute it again and again."""
        names = self.free(term)
        costly = any(isinstance(item, Call) and item.name in _COSTLY for item in self.inside(term))
        return costly and bool(names) and names < loops

    def inside(self, term: Term) -> Iterable[Node]:
        """The nodes of a term, not those behind names and reductions."""
        stack: list[Node] = [term]
        while stack:
            item = stack.pop()
            yield item
            if item not in self.cuts and not isinstance(item, Fold | Some | Rounded):
                stack.extend(children(item))

    def cut(self, term: Term, user: tuple[str, ...]) -> bool:
        """Give a term a name; False if it may have none. Its indices are in the order of its
        `user`, whose last one stays last, so that both walk neighbours."""
        if term in self.cuts or isinstance(term, Leaf | Yes):
            return False
        order = [*user[:-1], *(name for name in self.order if name not in user[-1:]), *user[-1:]]
        indices = tuple(sorted(self.free(term), key=order.index))
        dtype = BY_NAME[term.dtype] if isinstance(term, Rounded) else self.encoded.dtype
        shape = tuple(self.extents[index] for index in indices)
        self.cuts[term] = Body(Tensor(self.name(term), dtype, shape), indices, term, None)
        return True

    def free(self, term: Term) -> frozenset[str]:
        return t.free(term, self.free_of)

    def name(self, term: Term) -> str:
        """The program's name for a term, if it has one that is free; else a new one."""
        known = self.encoded.names.get(term)
        if known is not None and known not in self.taken:
            self.taken.add(known)
            return known
        number = 1
        while f"t{number}" in self.taken | self.named:
            number += 1
        self.taken.add(f"t{number}")
        return f"t{number}"
