"""Random programs of level 2: every statement, bound, layout and type, right by construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeVar

from hypothesis import strategies as st

from tensorc.ir.dtypes import BF16, F16, F32, I32, INTEGER, REAL, DType
from tensorc.ir.functions import FUNCTIONS, MAX, MIN, PROD, SUM
from tensorc.ir.polynomial import (
    Opaque,
    Polynomial,
    Symbol,
    bound,
    extent,
    of_atom,
    polynomial,
)
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Declaration,
    Expr,
    Extent,
    Literal,
    Position,
    Read,
    Seen,
    Select,
    Table,
    Tensor,
    Value,
    free_indices,
)
from tensorc.ir.tile import (
    Block,
    Blocked,
    Carry,
    Each,
    Frame,
    Kernel,
    Layout,
    Let,
    Linear,
    Loop,
    Operand,
    Panel,
    Statement,
    Store,
    Strided,
    Tile,
    TileProgram,
    Use,
)

T = TypeVar("T")

INDICES = ("i", "j", "k", "l")
X = Tensor("x", F16, (extent("i"), extent("j")))
P = Tensor("p", I32, ())
Y = Tensor("y", F32, (extent("i") * 2 - 1, polynomial(7)))
W = Tensor("w", F32, ((extent("k") + 63) // 64, polynomial(64)))
C = Tensor("c", F32, (polynomial(2),))
ONE = Literal(Fraction(1), INTEGER)
EXTENTS: tuple[tuple[str, Polynomial], ...] = (
    ("i", extent("i")), ("j", extent("j")), ("k", polynomial(48)), ("l", extent("i") // 2),
)  # fmt: skip


def call(name: str, *args: Expr) -> Apply:
    return Apply(FUNCTIONS[name], args)


@dataclass
class Maker:
    """Draws one kernel: what is bound, and the tiles that may be read."""

    draw: Callable[[st.SearchStrategy[int]], int]
    lanes: dict[str, int] = field(default_factory=dict[str, int])
    bound: dict[str, int] = field(default_factory=dict[str, int])
    loops: tuple[str, ...] = ()
    tiles: list[Tile] = field(default_factory=list[Tile])
    count: int = 0

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def one(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def some(self, options: Sequence[str]) -> tuple[str, ...]:
        return tuple(item for item in options if self.number(0, 1))

    def chance(self, percent: int) -> bool:
        return self.number(1, 100) <= percent

    def name(self) -> str:
        self.count += 1
        return f"{self.one(('t', 'acc', 'K', '_'))}{self.count}"

    def size(self, index: str) -> int | None:
        """The lanes of an index here; None outside its loops."""
        if index in self.bound:
            return self.bound[index]
        return None if index in self.blocked else self.lanes[index]

    @property
    def blocked(self) -> frozenset[str]:
        return frozenset(index for index in INDICES if index not in self.lanes)

    def usable(self) -> tuple[str, ...]:
        return tuple(index for index in INDICES if self.size(index) is not None)

    # expressions whose free indices are `axes`, or have one lane

    def expr(self, axes: tuple[str, ...], depth: int = 2) -> Expr:
        if depth and self.chance(60):
            a, b = self.expr(axes, depth - 1), self.expr(axes, depth - 1)
            name = self.one(("add", "sub", "mul", "div", "max", "neg", "exp2", "select", "cast"))
            match name:
                case "neg" | "exp2":
                    return call(name, a)
                case "select":
                    return Select(self.condition(axes), a, b)
                case "cast":
                    return Cast(self.one((F16, F32, BF16)), a)
                case "add" | "mul" if self.chance(30):
                    return call(name, a, b, self.leaf(axes))
                case _:
                    return call(name, a, b)
        return self.leaf(axes)

    def leaf(self, axes: tuple[str, ...]) -> Expr:
        known = [tile for tile in self.tiles if set(tile.axes) <= set(axes)]
        if known and self.chance(60):
            tile = self.one(known)
            return Value(tile.name, tile.axes, tile.dtype)
        points = tuple(index for index in INDICES if self.bound.get(index) == 1)
        match self.number(0, 4):
            case 0:
                return Literal(Fraction(self.number(-9, 9), self.one((1, 2, 8))), REAL)
            case 1 if axes or points:
                return Position(self.one((*axes, *points)))
            case 2:
                return Extent(self.one(INDICES))
            case 3 if self.loops:
                return Seen(self.one(self.loops), bool(self.number(0, 1)))
            case _:
                return Read(X, (self.subscript(axes), self.subscript(axes)))

    def subscript(self, axes: tuple[str, ...]) -> Expr:
        if not axes:
            return Literal(Fraction(self.number(0, 5)), INTEGER)
        place = Position(self.one(axes))
        return self.one((place, call("add", place, ONE), call("floordiv", place, Extent("j"))))

    def condition(self, axes: tuple[str, ...]) -> Expr:
        first = call("lt", self.subscript(axes), Extent(self.one(INDICES)))
        return self.one((first, call("and", call("le", ONE, self.subscript(axes)), first)))

    # tiles

    def tile(self, axes: tuple[str, ...], dtype: DType, name: str = "") -> Tile:
        sizes = tuple(self.size(axis) or 0 for axis in axes)
        space = self.one(("register", "shared", "memory", "global"))
        return Tile(name or self.name(), axes, sizes, dtype, space, self.layout(space, axes))

    def layout(self, space: str, axes: tuple[str, ...]) -> Layout:
        cut = self.number(0, len(axes))
        linear = Linear(axes[cut:] + axes[:cut], self.one((0, 32, 128)))
        match space:
            case "register":
                frame = Frame("wgmma", axes[:cut], axes[cut:])
                first = Operand("m16n8", self.one(("A", "B")), axes[:cut], axes[cut:])
                return self.one(
                    (frame, first, Blocked(1, 1, self.one(axes or ("i",))), Strided(), linear)
                )
            case "shared":
                return linear
            case _ if axes and self.chance(50):
                return Panel(axes[0], 64)
            case _:
                return Strided()

    def use(self, axes: tuple[str, ...], reduced: tuple[str, ...] = ()) -> Use:
        roles = tuple((role, (axis,)) for role, axis in zip("mnk", axes, strict=False))
        counts = tuple((role, self.number(2, 9)) for role, _ in roles if self.chance(50))
        exact = self.some(reduced)
        name = self.one(("simt", "fma.6x64", "wgmma.m64n128k16.rs"))
        return Use(name, *((roles, counts) if self.chance(50) else ((), ())), exact)

    # statements

    def body(self, depth: int, part: str = "") -> tuple[Statement, ...]:
        made: list[Statement] = []
        for _ in range(self.number(1, 3)):
            free = [i for i in self.blocked if i not in self.bound]
            match self.number(0, 5):
                case 0 if depth and free and not part:
                    made.append(self.loop(self.one(sorted(free)), depth))
                case 1 if depth and not part:
                    wide = [i for i in self.usable() if (self.size(i) or 0) % 2 == 0]
                    if wide:
                        inner = (self.let(wide[0]), *self.body(0, wide[0]))
                        made.append(Each(wide[0], 2, inner))
                case 2:
                    made.append(self.store())
                case _:
                    made.append(self.let(part))
        return tuple(made)

    def let(self, part: str, name: str = "", like: Tile | None = None) -> Let:
        axes = self.some(self.usable())
        axes = axes if part in ("", *axes) else (part, *axes)
        if like is not None:
            axes = like.axes
        others = [i for i in self.usable() if i not in axes and i != part]
        reduced = tuple(others[:1]) if self.chance(30) else ()
        body, edge = self.expr((*axes, *reduced)), ()
        if reduced:
            body = call("mul", body, Position(reduced[0]))
        elif axes and self.chance(30):
            guard = call("lt", Position(axes[0]), Extent(axes[0]))
            body, edge = Select(guard, body, ONE), (axes[0],)
        tile = self.tile(axes, F32, name)
        if like is not None:
            tile = Tile(name, like.axes, like.sizes, F32, like.space, like.layout)
        op = self.one((SUM, MAX, MIN, PROD)) if reduced else None
        same = [t for t in self.tiles if (t.axes, t.sizes, t.dtype) == (axes, tile.sizes, F32)]
        onto = self.one(same) if same and reduced and self.chance(50) else None
        into = like if like is not None and like.space != "register" else None
        if into is not None and reduced:  # a reduction does not read what it replaces
            body = call("mul", Position(reduced[0]), ONE)
        if into is not None:
            self.tiles = [item for item in self.tiles if item is not into]
        by = self.use((*axes, *reduced), reduced)
        self.tiles.append(tile)
        return Let(tile, op, reduced, body, onto, into, by, edge)

    def loop(self, index: str, depth: int) -> Loop:
        block = self.one((1, 4, 16))
        outside = list(self.tiles)
        full = self.limit(), self.limit()
        limits = (polynomial(0), extent(index)) if self.chance(50) else (self.limit(), self.limit())
        self.bound[index], self.loops = block, (*self.loops, index)
        carries: list[Carry] = []
        for _ in range(self.number(0, 2)):
            tile = self.tile(self.some(self.usable()), F32)
            same = [
                t for t in outside if (t.axes, t.sizes, t.dtype) == (tile.axes, tile.sizes, F32)
            ]
            start: Expr | str | Tile = self.one((ONE, "lowest", call("neg", Literal("inf", REAL))))
            start = self.one(same) if same and tile.space == "register" else start
            carries.append(Carry(tile, start))
        self.tiles += [carry.tile for carry in carries]
        body = self.body(depth - 1)
        ends = tuple(self.let("", f"{carry.tile.name}'", carry.tile) for carry in carries)
        del self.bound[index]
        self.loops = self.loops[:-1]
        self.tiles = outside  # lanes of `index` are not read again; neither are the others
        whole = (polynomial(0), extent(index) // block * block)
        full = whole if self.chance(50) else full
        return Loop(index, block, *limits, full, tuple(carries), (*body, *ends), self.chance(30))

    def limit(self) -> Polynomial:
        bases = [of_atom(Symbol(index, "base")) * 2 for index in self.bound]
        points = [index for index in self.bound if self.bound[index] == 1]
        reads = [of_atom(Opaque(Read(X, (Position(i), ONE)))) for i in points]
        some = [extent("i"), polynomial(-3), of_atom(Symbol("p", "parameter")), *bases, *reads]
        a, b = self.one(some), self.one(some)
        return self.one((a, a - b, a * 16 + b, (a + 5) // 4, bound("min", (a, b + 1))))

    def store(self) -> Store:
        axes = self.some(self.usable())
        named = tuple(self.subscript(axes) for _ in Y.shape)
        combine = self.one((SUM, MAX))
        edge: tuple[str, ...] = ()
        value = self.expr(axes)
        if axes and self.chance(20):
            value = Select(call("ge", Position(axes[0]), ONE), value, ONE)
            edge = axes[:1]
        used = frozenset[str]().union(*map(free_indices, (value, *named)))
        by = self.use(tuple(axis for axis in axes if axis in used))
        return Store(Y, named, value, combine, (), by, edge)


@st.composite
def programs(draw: st.DrawFn) -> TileProgram:
    """A program of one or two kernels over fixed tensors, right in scopes, axes and types."""
    kernels: list[Kernel] = []
    for number in range(draw(st.integers(1, 2))):
        maker = Maker(draw)
        grid = [Block(i, maker.one((1, 4, 8))) for i in maker.some(INDICES[:2])]
        maker.bound = {block.index: block.size for block in grid}
        looped = maker.some([i for i in INDICES if i not in maker.bound])
        free = [i for i in INDICES if i not in maker.bound and i not in looped]
        maker.lanes = {index: 48 for index in free}
        body = (*maker.body(2), maker.store())
        raster = maker.one(("", "groups of 8"))
        kernels.append(Kernel(f"f{number}", (X, P, C), (Y, W), tuple(grid), body, raster))
    inputs = (Declaration(X, ("i", "j")), Declaration(P, (), const=True))
    table = Table(C, (ONE, call("neg", Literal(Fraction(1, 3), REAL))))
    return TileProgram(
        "generated", "avx512", inputs, (Declaration(Y, (None, "l")),), (W,), EXTENTS,
        tuple(kernels), (table,),
    )  # fmt: skip
