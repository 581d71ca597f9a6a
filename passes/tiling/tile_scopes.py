"""Open scopes of a level-2 kernel being emitted: statements, lanes, and which tile holds what.

Expressions of level 1 become bodies here: reductions are looked up among the tiles, roundings and
costly functions get a tile of their own, once in a scope. Which loops are opened, and what they
carry, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tensorc.ir.dtypes import DType, settled, value_of
from tensorc.ir.functions import Reducer
from tensorc.ir.node import postorder, rebuild
from tensorc.ir.polynomial import Polynomial, polynomial
from tensorc.ir.tensor import (
    Apply,
    Bitcast,
    Cast,
    Expr,
    Literal,
    Read,
    Reduce,
    Round,
    Value,
    free_indices,
    value_type,
)
from tensorc.ir.tile import Carry, Layout, Let, Loop, Statement, Strided, Tile, Use
from tensorc.passes.fusion.bounds import Range
from tensorc.passes.fusion.guards import Reads
from tensorc.passes.fusion.inline import Unfused

VECTOR = Use("vector")
REGISTERS = 512  # elements of a tile that may lie in registers
COSTLY = frozenset(
    "exp exp2 log log2 div tanh sigmoid sqrt rsqrt erf sin cos pow expm1 log1p".split()
)


@dataclass(frozen=True)
class Ground:
    """Where values lie on a machine: what does any statement, how many elements of a tile may be
    in registers (None: all), and how those lie there, by their axes."""

    plain: Use
    registers: int | None
    layout: Callable[[tuple[str, ...]], Layout]


def _in_order(axes: tuple[str, ...]) -> Layout:
    return Strided()


CPU = Ground(VECTOR, REGISTERS, _in_order)
ROWS = Ground(VECTOR, 1, _in_order)  # whatever has axes lies in memory


@dataclass(eq=False)
class _Scope:
    """An open loop's body, or the kernel's: statements, and the values that are known in it."""

    index: str | None = None
    statements: list[Statement] = field(default_factory=list[Statement])
    known: dict[Expr, Expr] = field(default_factory=dict[Expr, Expr])
    tiles: dict[tuple[Expr, DType], Value] = field(default_factory=dict[tuple[Expr, DType], Value])


class Scopes:
    """The scopes of one kernel. `bound`: indices that have a block here, outermost first, and how
    many lanes that has."""

    def __init__(
        self, extents: Mapping[str, Polynomial], taken: Iterable[str], judge: Reads,
        ground: Ground = CPU,
    ) -> None:  # fmt: skip
        self.extents, self.judge, self.ground = extents, judge, ground
        self.taken = {*taken}
        self.open_scopes = [_Scope()]
        self.bound: dict[str, int] = {}
        self.changed: dict[Read, set[Read]] = {}  # reads as they stand in the kernel
        self.careful: set[Read] = set()  # reads that keep their conditions around them
        self.kept: frozenset[Expr] | None = None  # what gets tiles; None: costly functions

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Those of the innermost scope so far."""
        return tuple(self.open_scopes[-1].statements)

    def emit(self, statement: Statement) -> None:
        """Add a statement to the innermost scope."""
        self.open_scopes[-1].statements.append(statement)

    def define(
        self, tile: Tile, body: Expr, into: Tile | None = None, *, op: Reducer | None = None,
        over: tuple[str, ...] = (), onto: Tile | None = None, edge: tuple[str, ...] = (),
        by: Use | None = None,
    ) -> None:  # fmt: skip
        """Add the statement that gives a tile its value, by what does any unless told."""
        self.emit(Let(tile, op, over, body, onto, into, by or self.ground.plain, edge))

    def emit_outside(self, statement: Statement, indices: frozenset[str]) -> object:
        """Add a statement to the outermost scope in which all loops over `indices` are open, and
        give that scope."""
        needed = (n for n, scope in enumerate(self.open_scopes) if scope.index in indices)
        scope = self.open_scopes[max(needed, default=0)]
        scope.statements.append(statement)
        return scope

    def open(self, index: str, block: int) -> None:
        """Start the body of a loop."""
        self.open_scopes.append(_Scope(index))
        self.bound[index] = block

    def close(
        self, index: str, carries: tuple[Carry, ...] = (),
        limits: Range | None = None,
    ) -> None:  # fmt: skip
        """End the body of the innermost loop, which walks all of its index or within `limits`."""
        body = tuple(self.open_scopes.pop().statements)
        block, size = self.bound.pop(index), self.extents[index]
        limits = limits or Range(polynomial(0), size, None, None)
        whole = size // block * block
        full = limits.first or polynomial(0), limits.last or whole
        self.emit(Loop(index, block, limits.lower, limits.upper, full, carries, body))

    def know(self, item: Expr, value: Expr) -> None:
        """An expression has this value in the innermost scope."""
        self.open_scopes[-1].known[item] = value

    def known(self, item: Expr) -> Expr | None:
        """The value of an expression, if it is there already."""
        for scope in reversed(self.open_scopes):
            if item in scope.known:
                return scope.known[item]
        return None

    def knows(self, item: Expr) -> bool:
        """Whether the value of an expression is there."""
        return self.known(item) is not None

    def axes(self, indices: Iterable[str]) -> tuple[str, ...]:
        """Those of the indices that have many lanes here, in the order of their binding."""
        free = set(indices)
        return tuple(i for i, lanes in self.bound.items() if lanes > 1 and i in free)

    def flat(self, expr: Expr) -> Expr:
        """`expr` with reductions, roundings and costly functions replaced by tiles."""
        found = self.known(expr)
        if found is not None:
            return found
        made = self._flattened(expr)
        self.know(expr, made)
        return made

    def _flattened(self, expr: Expr) -> Expr:
        match expr:
            case Reduce():
                raise Unfused(f"a {expr.reducer} is not where it can be computed")
            case Round(dtype, arg):
                made = self.flat(arg)
                return _unrounded(dtype, made) if self._bare(arg) else self.let(made, dtype)
            case Bitcast(dtype, Round(narrow, arg)):
                return Bitcast(dtype, Cast(narrow, self.flat(arg)))
            case _:
                made = rebuild(expr, lambda n: self.flat(n) if isinstance(n, Expr) else n)
                if isinstance(expr, Read) and isinstance(made, Read):
                    self.changed.setdefault(expr, set()).add(made)
                return self.let(made) if self._keeps(expr, made) else made

    def _keeps(self, expr: Expr, made: Expr) -> bool:
        """Whether a value gets a tile of its own."""
        if self.kept is not None:
            return expr in self.kept
        costly = isinstance(made, Apply) and made.function.name in COSTLY
        data = any(isinstance(node, Read | Value) for node in postorder([made]))
        return costly and data and not self._bare(expr)

    def _bare(self, expr: Expr) -> bool:
        """Whether an expression may not be computed ahead of the conditions around it."""
        return bool(self.careful) and self.judge.exposed(expr, self.careful)

    def let(self, expr: Expr, dtype: DType | None = None) -> Expr:
        """The value of an expression in a tile of its own."""
        if isinstance(expr, Value | Literal) and dtype is None:
            return expr
        kind = dtype or storage(value_type(expr))
        for scope in reversed(self.open_scopes):
            if (expr, kind) in scope.tiles:
                return scope.tiles[expr, kind]
        axes = self.axes(free_indices(expr))
        tile = self.fresh("x", axes, kind, "memory" if self.is_long(axes) else "register")
        self.define(tile, expr)
        self.open_scopes[-1].tiles[expr, kind] = value(tile)
        return value(tile)

    def is_long(self, axes: Iterable[str]) -> bool:
        """Whether a tile with these axes is too much for registers."""
        total = 1
        for axis in axes:
            total *= self.bound[axis]
        return self.ground.registers is not None and total > self.ground.registers

    def fresh(
        self, stem: str, axes: tuple[str, ...], dtype: DType, space: str = "register"
    ) -> Tile:
        """A tile with a name of its own."""
        name, number = stem, 1
        while name in self.taken or f"{name}'" in self.taken:
            number += 1
            name = f"{stem}_{number}" if stem[-1].isdigit() else f"{stem}{number}"
        self.taken.add(name)
        sizes = tuple(self.bound[axis] for axis in axes)
        layout = self.ground.layout(axes) if space == "register" else Strided()
        return Tile(name, axes, sizes, dtype, space, layout)


def _unrounded(dtype: DType, expr: Expr) -> Expr:
    """What a movable rounding leaves where no tile can hold its result: floats keep their value, at
    least in the type that they would have had."""
    own = value_type(expr)
    keeps = dtype.floating and own.floating and own.bits >= value_of(dtype).bits
    return expr if keeps else Cast(dtype, expr)


def storage(dtype: DType) -> DType:
    """The type of a tile that holds values of a type as they are."""
    return value_of(settled(dtype))


def following(tile: Tile) -> Tile:
    """The next value of a carried tile."""
    return Tile(f"{tile.name}'", tile.axes, tile.sizes, tile.dtype, tile.space, tile.layout)


def value(tile: Tile) -> Value:
    """A tile as an operand."""
    return Value(tile.name, tile.axes, tile.dtype)
