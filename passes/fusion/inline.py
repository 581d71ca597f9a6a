"""Inline equations into the outputs that use them, under one normal form of bound names.

True afterwards: an expression reads parameters, tables and kept tensors only, and two reductions
that are equal up to the names they bind are one node. A bound index is named after the extent it
has and the height of its reduction over inner ones of that extent, so no binder captures another.

    p[m, n] = exp(s[m, n]);  o[m] = sum[n](p[m, n])
    o[m] = sum[n](exp(s[m, n]))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorc.ir.dtypes import DType, value_of
from tensorc.ir.node import Node, postorder, rebuild, written_out
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import (
    Cast,
    Check,
    Equation,
    Expr,
    Extent,
    Position,
    Program,
    Read,
    Reduce,
    Round,
    free_indices,
    value_type,
)

_MARK = "@"  # in names of the normal form until they get names of the program


LARGEST = 200_000  # nodes of an expression with all names replaced by what they stand for


class Unfused(Exception):
    """A program, or a part of it, that these passes leave to the plain lowering; says why."""


class Inliner:
    """Expressions of one program in normal form. `kept`: names of equations that stay in memory.
    `checked`: the reads that are compared, with the axes on which they are; `careful`: further
    ones that a user keeps track of, under new names too."""

    def __init__(
        self, program: Program, kept: Iterable[str], checks: Iterable[Check] | None = None
    ) -> None:
        self.extents = dict(program.extents)
        self.equations = {item.tensor.name: item for item in program.equations}
        self.kept = frozenset(kept)
        self.checked: dict[Read, frozenset[int]] = {}
        self.careful: set[Read] = set()
        for check in checks if checks is not None else program.checks:
            self._mark(check.read, check.axis)
        self._first: dict[Polynomial, str] = {}
        for name, size in program.extents:
            self._first.setdefault(size, name)
        self._names: dict[tuple[Polynomial, int], str] = {}
        self._memo: dict[Expr, Expr] = {}
        self._moved: dict[tuple[Expr, tuple[tuple[str, Expr], ...]], Expr] = {}

    def _mark(self, read: Read, axis: int) -> None:
        self.checked[read] = self.checked.get(read, frozenset()) | {axis}

    def forget(self) -> None:
        """Start a kernel: what is kept has changed, and names of bound indices are free again."""
        self._memo.clear()
        self._names.clear()

    def whole(self, item: Expr) -> Expr:
        """An expression in normal form."""
        if item not in self._memo:
            made = self._inlined(item)
            if written_out(made) > LARGEST:
                raise Unfused(f"written out, a kernel would have more than {LARGEST:,} parts")
            self._memo[item] = made
        return self._memo[item]

    def _inside(self, item: Node) -> Node:
        return self.whole(item) if isinstance(item, Expr) else item

    def _inlined(self, item: Expr) -> Expr:
        made = rebuild(item, self._inside)
        match made:
            case Extent(index):
                return Extent(self._first[self.extents[index]])
            case Reduce():
                return self.bound(made)
            case Read():
                assert isinstance(item, Read)
                for axis in self.checked.get(item, ()):
                    self._mark(made, axis)
                equation = self.equations.get(made.tensor.name)
                if equation is None or made.tensor.name in self.kept:
                    return made
                return self._body(equation, made)
            case _:
                return made

    def bound(self, item: Reduce) -> Reduce:
        """The reduction with its indices named after extent and height."""
        heights: dict[Polynomial, int] = {}
        for inner in postorder([item.body, *([item.where] if item.where is not None else [])]):
            for index in inner.indices if isinstance(inner, Reduce) else ():
                size = self.extents[index]
                heights[size] = max(heights.get(size, 0), int(index.rpartition(_MARK)[2]) + 1)
        names: dict[str, Expr] = {}
        chosen: list[str] = []
        free = free_indices(item)
        for index in item.indices:
            size = self.extents[index]
            name = self._name(size, heights.get(size, 0), index)
            while name in free:  # a condition that was taken in may use it
                heights[size] = heights.get(size, 0) + 1
                name = self._name(size, heights[size], index)
            heights[size] = heights.get(size, 0) + 1
            names[index] = Position(name)
            chosen.append(name)
        where = None if item.where is None else self.moved(item.where, names)
        body = self.moved(item.body, names)
        return Reduce(item.reducer, tuple(chosen), body, where, item.dtype)

    def _name(self, size: Polynomial, height: int, index: str) -> str:
        name = self._names.setdefault((size, height), f"{index}{_MARK}{height}")
        self.extents[name] = size
        return name

    def _body(self, equation: Equation, read: Read) -> Expr:
        """The body of an equation at the subscripts of a read."""
        if any(isinstance(node, Reduce) for node in postorder(read.subscripts)):
            raise Unfused(f"{equation.tensor.name} is read at reduced positions")
        body = _typed(self.whole(equation.body), equation.tensor.dtype)
        names = dict(zip(equation.indices, read.subscripts, strict=True))
        for axis in self.checked.get(read, ()):
            self._inherit(body, equation.indices[axis], names)
        return self.moved(body, names)

    def _inherit(self, body: Expr, index: str, names: Mapping[str, Expr]) -> None:
        """Reads at `index` are compared in place of the read that is inlined."""
        reads = [node for node in postorder([body]) if isinstance(node, Read)]
        users = [read for read in reads if index in free_indices(read)]
        if not users:
            raise Unfused("a compared subscript is used as a value only")
        for read in users:
            if Position(index) not in read.subscripts:
                raise Unfused(f"a compared subscript of {read.tensor.name} moves")
            made = self.moved(read, names)
            assert isinstance(made, Read)
            for axis, item in enumerate(read.subscripts):
                if item is Position(index):
                    self._mark(made, axis)

    def moved(self, expr: Expr, names: Mapping[str, Expr]) -> Expr:
        """`expr` with free positions replaced; its own binders have names that no replacement
        has."""
        relevant = {k: v for k, v in names.items() if v is not Position(k)}
        return self._move(expr, tuple(sorted(relevant.items())), relevant)

    def _move(
        self, expr: Expr, key: tuple[tuple[str, Expr], ...], names: Mapping[str, Expr]
    ) -> Expr:
        if not (free_indices(expr) & names.keys()):
            return expr
        if isinstance(expr, Reduce) and names.keys() & set(expr.indices):
            names = {name: item for name, item in names.items() if name not in expr.indices}
            key = tuple(sorted(names.items()))
        if (expr, key) not in self._moved:
            self._moved[expr, key] = self._moved_anew(expr, key, names)
        return self._moved[expr, key]

    def _moved_anew(
        self, expr: Expr, key: tuple[tuple[str, Expr], ...], names: Mapping[str, Expr]
    ) -> Expr:
        if isinstance(expr, Position):
            return names.get(expr.index, expr)
        made = rebuild(expr, lambda n: self._move(n, key, names) if isinstance(n, Expr) else n)
        if isinstance(expr, Read) and isinstance(made, Read):
            self._follow(expr, made)
        return made

    def _follow(self, old: Read, new: Read) -> None:
        for axis in self.checked.get(old, ()):
            self._mark(new, axis)
        if old in self.careful:
            self.careful.add(new)

    def named(self, exprs: list[Expr], taken: Iterable[str]) -> list[Expr]:
        """The expressions with names of the program, none of them in `taken`, for what they
        bind; `extents` has the new ones."""
        used = {*taken, *self.equations}
        bound = {i for node in postorder(exprs) if isinstance(node, Reduce) for i in node.indices}
        chosen: dict[str, Expr] = {}
        for (size, _), marked in sorted(self._names.items(), key=lambda item: -item[0][1]):
            if marked not in bound:
                continue
            stem = self._first[size]
            name, number = stem, 1
            while (
                name in used
                or self.extents.get(name, self.extents[marked]) is not (self.extents[marked])
            ):
                number += 1
                name = f"{stem}_{number}"
            used.add(name)
            self.extents[name] = self.extents[marked]
            chosen[marked] = Position(name)
        return [self._renamed(item, chosen) for item in exprs]

    def _renamed(self, expr: Expr, names: Mapping[str, Expr]) -> Expr:
        memo: dict[Node, Node] = {}

        def renamed(item: Node) -> Node:
            if item not in memo:
                made = rebuild(item, renamed)
                if isinstance(made, Extent):
                    made = Extent(self._first[self.extents[made.index]])
                elif isinstance(made, Position):
                    made = names.get(made.index, made)
                elif isinstance(made, Reduce):
                    indices = tuple(_index(names.get(i, Position(i))) for i in made.indices)
                    made = Reduce(made.reducer, indices, made.body, made.where, made.dtype)
                elif isinstance(made, Read) and isinstance(item, Read):
                    self._follow(item, made)
                memo[item] = made
            return memo[item]

        found = renamed(expr)
        assert isinstance(found, Expr)
        return found

    def checks(self, exprs: Iterable[Expr]) -> tuple[Check, ...]:
        """The comparisons that these expressions need."""
        reads = [node for node in postorder(exprs) if isinstance(node, Read)]
        return tuple(
            Check(read, axis) for read in reads for axis in sorted(self.checked.get(read, ()))
        )


def _typed(body: Expr, dtype: DType) -> Expr:
    """A body with the type that its name has, where it has another or that of its surroundings."""
    kind = value_type(body)
    if kind.weak and dtype.floating:
        return Round(dtype, body)
    return body if kind is value_of(dtype) else Cast(dtype, body)


def _index(item: Expr) -> str:
    assert isinstance(item, Position)
    return item.index
