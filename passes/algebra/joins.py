"""Parameters that meet the same factor, as parts of one tensor: what merging products needs.

Where x is multiplied by several weights and summed over the same indices, a tensor of all weights
may be formed, of which each is the part from some position on. These are definitions, stated as
facts: the rules of gathers then take the part out of the sum, and extraction decides whether one
sum over all weights, and the copy that joins them, cost less than the sums one by one.

Parts lie one after the other along a new index, which stands for the own indices in which they
differ, in row-major order. Where a factor is read under another name (as keys are), it is a fact
that both are one tensor, at other rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Polynomial, polynomial
from tensorc.ir.print_tensor import show
from tensorc.ir.tensor import (
    Equation,
    Expr,
    Position,
    Read,
    Round,
    Select,
    Tensor,
    value_type,
)
from tensorc.passes.algebra.encoded import Encoded
from tensorc.passes.algebra.terms import YES, Fold, Gather, Leaf, Mul, Term, free
from tensorc.passes.canonicalise import call, integer
from tensorc.passes.polynomial_expressions import expression

LONGEST = 64  # characters of a name
_NONE, _ONE = polynomial(0), polynomial(1)


@dataclass(frozen=True)
class _Use:
    """A sum over `indices` of `weight` times `factor`; `shared`: the weight's indices that are
    summed or the factor's too; `own`: its others, in the tensor's order."""

    indices: tuple[str, ...]
    weight: Leaf
    factor: Leaf
    shared: frozenset[str]
    own: tuple[str, ...]


def with_joins(encoded: Encoded, static: Iterable[str] = ()) -> Encoded:
    """The program with the tensors that its weights could be parts of. `static`: parameters that
    are the same at every call, so that joining them costs nothing at one."""
    groups: dict[object, dict[str, _Use]] = {}
    for use in _uses(encoded):
        groups.setdefault(_kind(encoded, use), {}).setdefault(use.weight.name, use)
    given = [item.tensor.name for item in encoded.program.parameters]
    order = {use: given.index(use.partition("[")[0]) for group in groups.values() for use in group}
    joins = _Joins(encoded, frozenset(static))
    for group in groups.values():
        if len(group) > 1:
            joins.add(sorted(group.values(), key=lambda use: order[use.weight.name]))
    return joins.made


def _uses(encoded: Encoded) -> Iterator[_Use]:
    """Every sum of a parameter times one other tensor."""
    given = {item.tensor for item in encoded.program.parameters}
    names = encoded.free()
    for item in postorder(term for _, term in encoded.roots):
        if not isinstance(item, Fold) or item.kind != "Sum" or item.where is not YES:
            continue
        if not isinstance(item.body, Mul):
            continue
        factors = [arg for arg in item.body.args if free(arg, names)]
        for weight, factor in (factors, factors[::-1]) if len(factors) == 2 else ():
            read = _whole(encoded, weight)
            if read is None or read.tensor not in given or not isinstance(factor, Leaf):
                continue
            assert isinstance(weight, Leaf)
            shared = names[weight.name] & (names[factor.name] | set(item.indices))
            own = tuple(name for name in _positions(read) if name not in shared)
            if not set(own) & names[factor.name] and set(item.indices) <= shared:
                yield _Use(item.indices, weight, factor, shared, own)


def _whole(encoded: Encoded, term: Term) -> Read | None:
    """The read of a tensor under distinct bare indices that a leaf is."""
    read = encoded.leaves.get(term.name) if isinstance(term, Leaf) else None
    if not isinstance(read, Read):
        return None
    names = _positions(read)
    return read if len(set(names)) == len(read.subscripts) else None


def _positions(read: Read) -> list[str]:
    return [sub.index for sub in read.subscripts if isinstance(sub, Position)]


def _kind(encoded: Encoded, use: _Use) -> object:
    """What uses have in common whose weights may be joined: the factor but for the names of rows
    that the weights lack, what is summed, and the weights' type."""
    read, weight = _whole(encoded, use.factor), encoded.leaves[use.weight.name]
    assert isinstance(weight, Read)
    about: object = use.factor
    if read is not None:
        rows = [None if i not in use.shared else i for i in _positions(read)]
        about = (read.tensor, tuple(rows))
    return about, use.indices, use.shared, weight.tensor.dtype


class _Joins:
    """Joined tensors as they are added to a program."""

    def __init__(self, encoded: Encoded, static: frozenset[str]) -> None:
        self.made = replace(
            encoded,
            leaves=dict(encoded.leaves),
            extents=dict(encoded.extents),
            parts=list(encoded.parts),
            joins=dict(encoded.joins),
            copied=set(encoded.copied),
        )
        self.static = static
        program = encoded.program
        named = (*program.parameters, *program.outputs, *program.equations, *program.tables)
        self.taken = {item.tensor.name for item in named} | set(self.made.extents)

    def add(self, uses: Sequence[_Use]) -> None:
        """One tensor of all weights of `uses`."""
        common = frozenset(uses[0].own).intersection(*(use.own for use in uses))
        along = [tuple(name for name in use.own if name not in common) for use in uses]
        extents = self.made.extents
        starts = [polynomial(0)]
        for names in along:
            starts.append(starts[-1] + math.prod((extents[n] for n in names), start=_ONE))
        index = self.fresh("z")
        extents[index] = starts[-1]
        joined = self.joined(uses, along, index, starts)
        for use, names, start in zip(uses, along, starts, strict=False):
            at = self.place(self.after(names, start))
            self.made.parts.append((use.weight.name, Gather(index, at, joined)))
            self.renamed(use.factor, uses[0].factor)

    def joined(
        self, uses: Sequence[_Use], along: Sequence[Sequence[str]], index: str,
        starts: Sequence[Polynomial],
    ) -> Leaf:  # fmt: skip
        """The tensor of all weights, as a leaf that reads it."""
        reads = [_whole(self.made, use.weight) for use in uses]
        found = [read for read in reads if read is not None]
        names = [index if name in along[0][:1] else name for name in _positions(found[0])]
        names = [name for name in names if name not in along[0][1:]]
        indices = tuple(names if along[0] else [index, *names])
        shape = tuple(self.made.extents[name] for name in indices)
        tensors = [read.tensor for read in found]
        tensor = Tensor(self.name(tensors), tensors[0].dtype, shape)
        parts = zip(found, along, starts, strict=False)
        body = self.chosen([self.part(*part, index) for part in parts], index, starts[1:-1])
        if tensor.dtype is not value_type(body):
            body = Round(tensor.dtype, body)
        leaf = self.leaf(Read(tensor, tuple(map(Position, indices))))
        self.made.joins[leaf.name] = Equation(tensor, indices, body, None)
        if not {tensor.name for tensor in tensors} <= self.static:
            self.made.copied.add(leaf.name)
        return leaf

    def chosen(self, parts: Sequence[Expr], index: str, ends: Sequence[Polynomial]) -> Expr:
        """The part in which `index` lies."""
        body = parts[-1]
        for part, end in zip(parts[-2::-1], ends[::-1], strict=True):
            body = Select(call("lt", Position(index), expression(end)), part, body)
        return body

    def part(self, read: Read, along: Sequence[str], start: Polynomial, index: str) -> Read:
        """A weight where the joined tensor holds it; several own indices in row-major order."""
        beyond = call("sub", Position(index), expression(start))
        place: Expr = beyond if start is not _NONE else call("add", Position(index), integer(0))
        moved: dict[str, Expr] = {}
        for number in range(len(along) - 1, -1, -1):
            size = expression(self.made.extents[along[number]])
            moved[along[number]] = call("mod", place, size) if number else place
            place = call("floordiv", place, size)
        subscripts = (
            moved.get(sub.index, sub) if isinstance(sub, Position) else sub
            for sub in read.subscripts
        )
        return Read(read.tensor, tuple(subscripts))

    def after(self, along: Sequence[str], start: Polynomial) -> Expr:
        """Where the joined tensor holds a weight's element."""
        terms: list[Expr] = [expression(start)] if start is not _NONE or not along else []
        for number, name in enumerate(along):
            inner = math.prod((self.made.extents[n] for n in along[number + 1 :]), start=_ONE)
            stride = expression(inner)
            terms.append(Position(name) if inner is _ONE else call("mul", Position(name), stride))
        if len(terms) == 1 and along:
            terms.append(integer(0))  # a bare index would walk the whole dimension
        return call("add", *terms) if len(terms) > 1 else terms[0]

    def renamed(self, factor: Leaf, first: Leaf) -> None:
        """State that a factor under another name is the first one at other rows."""
        here, there = (_whole(self.made, leaf) for leaf in (factor, first))
        if factor is first or here is None or there is None:
            return
        pairs = zip(_positions(there), _positions(here), strict=True)
        moved = [(old, new) for old, new in pairs if old != new]
        if set(_positions(there)) & {new for _, new in moved}:
            return  # names change places
        term: Term = first
        for old, new in moved:
            term = Gather(old, self.place(Position(new)), term)
        if (factor.name, term) not in self.made.parts:
            self.made.parts.append((factor.name, term))

    def place(self, expr: Expr) -> Leaf:
        """A leaf for a subscript, which is no extent and no constant."""
        self.made.leaves[f"@{show(expr)}"] = expr
        return Leaf(f"@{show(expr)}")

    def leaf(self, expr: Expr) -> Leaf:
        """A leaf for an expression."""
        name = show(expr)
        assert self.made.leaves.setdefault(name, expr) is expr
        return Leaf(name)

    def name(self, tensors: Sequence[Tensor]) -> str:
        """A free name that says what was joined."""
        return self.fresh("_".join(tensor.name for tensor in tensors)[: LONGEST - 4])

    def fresh(self, stem: str) -> str:
        name, number = stem, 2
        while name in self.taken:
            name, number = f"{stem}{number}", number + 1
        self.taken.add(name)
        return name
