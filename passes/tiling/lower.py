"""Lower level 1 to level 2, one kernel per equation: right for every program, shape and stride.

True afterwards: every equation is a kernel whose grid or loops walk the left side's indices, every
reduction a loop that carries its running value, and at most one index runs along vector lanes in
any statement: an index of the left side if that reads and writes neighbours, else an index of the
reduction, with one running value per lane.

    y[m] = sum[k](a[m, k] * x[k])

    kernel y: grid m by 1
      loop k by 16 carry s[k] = 0
        t[k] = select(k < |k|, a[m, k] * x[k], 0)      edge k
        s'[k] = s + t
      r = sum[k](s)
      store y[m] = r

Reductions are placed at the outermost scope that binds their free indices. A reduction that was
guarded and whose reads might leave their tensor without the guard takes the guard into its
condition. Fusion and tiling proper are other passes; this one is their fallback.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from tensorc.ir.dtypes import BOOL, DType, settled
from tensorc.ir.functions import ANY, FUNCTIONS, PROD, SUM, accumulator
from tensorc.ir.node import Node, fact, postorder, rebuild, replaced
from tensorc.ir.polynomial import known_extents
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Equation,
    Expr,
    Extent,
    Position,
    Program,
    Read,
    Reduce,
    Round,
    Select,
    Tensor,
    Value,
    free_indices,
    value_type,
)
from tensorc.ir.tile import (
    Carry,
    Kernel,
    Let,
    Statement,
    Store,
    Strided,
    Tile,
    TileProgram,
    Use,
)
from tensorc.machine.instruction import Machine
from tensorc.machine.machines import MACHINES
from tensorc.passes.canonicalise import call, variants
from tensorc.passes.tiling.block_sizes import BlockSizes, Widths, widest
from tensorc.passes.tiling.contiguity import (
    Units,
    lanes_of,
    reads_in,
    reduction_lanes,
    rows_of,
    turned,
)
from tensorc.passes.tiling.early_reads import conjunction, entered, may_leave, optional
from tensorc.passes.tiling.long_reductions import split_long
from tensorc.passes.tiling.name_shared import shared_parts
from tensorc.passes.tiling.neutral import COMBINE, identity
from tensorc.passes.tiling.panels import panels, product_of
from tensorc.passes.tiling.thread_lanes import MOST, known
from tensorc.passes.tiling.turn_operands import turn_operands
from tensorc.passes.tiling.whole_loops import peel, whole_loop

SQUARE = 64  # elements along both sides of a block that a CPU turns


def lower(
    program: Program, widths: Widths, units: Units, machine: str, static: Mapping[str, int],
    ordered: bool = False,
) -> TileProgram:  # fmt: skip
    """Lower a canonical program. `units`: the unit-stride axis of tensors that are not row-major;
    `machine`: the machine file; `static`: extents known now, so that blocks are not too large;
    `ordered`: float sums and products run in ascending order, the last index fastest."""
    if MACHINES[machine].plain != "simt":
        program = turn_operands(program, units, static)
    elif not ordered:
        program = split_long(program, units, static, widths.lanes)
    outputs = {item.tensor.name for item in program.outputs}
    changed: dict[Read, set[Read]] = {}
    kernels = tuple(
        _Lowering(program, widths, units, changed, static, MACHINES[machine], ordered).kernel(item)
        for item in program.equations
    )
    workspaces = tuple(item.tensor for item in program.equations if item.tensor.name not in outputs)
    return TileProgram(
        program.name, machine, program.parameters, program.outputs, workspaces,
        program.extents, kernels, program.tables, variants(program.checks, changed),
    )  # fmt: skip


@dataclass
class _Scope:
    """One open loop (`index` None: the kernel itself) and the statements in it so far."""

    index: str | None
    lanes: int
    statements: list[Statement] = field(default_factory=list[Statement])
    values: dict[tuple[Reduce, Expr | None], Value] = field(
        default_factory=dict[tuple[Reduce, Expr | None], Value]
    )
    flat: dict[tuple[Expr, tuple[Expr, ...]], Expr] = field(
        default_factory=dict[tuple[Expr, tuple[Expr, ...]], Expr]
    )


class _Lowering:
    """The state of lowering one equation: the open scopes and the names in use."""

    def __init__(
        self, program: Program, widths: Widths, units: Units, changed: dict[Read, set[Read]],
        static: Mapping[str, int], machine: Machine, ordered: bool,
    ) -> None:  # fmt: skip
        self.changed, self.widths = changed, widths
        self.static = known_extents(program.extents, static)
        self.ordered = ordered
        self.row: str | None = None  # the index whose blocks are rows that share what they read
        self.plain, self.threads = Use(machine.plain), machine.plain == "simt"
        self.lanes, self.units, self.extents = widths.lanes, units, program.extent_of
        named = (*program.parameters, *program.outputs, *program.equations, *program.tables)
        self.taken = set(self.extents) | {item.tensor.name for item in named}
        self.sizes = BlockSizes(widths, self.static, units, self.threads)
        self.scopes = [_Scope(None, 1)]

    def kernel(self, equation: Equation) -> Kernel:
        found = product_of(equation, self.units) if self.widths.packed else None
        if found is not None and found.packs(self.static) and not self.ordered:
            lanes = self.lanes * self.widths.vectors * 4 // max(4, widest(equation.body))
            return panels(found, lanes, self.static, self.taken)
        body = equation.body.arg if isinstance(equation.body, Round) else equation.body
        subscripts = tuple(Position(index) for index in equation.indices)
        element = Read(equation.tensor, subscripts)
        reduces = [item for item in postorder([body]) if isinstance(item, Reduce)]
        inner = [i for item in reduces if not self.in_order(item) for i in item.indices]
        lane = lanes_of(equation.indices, inner, body, element, self.units)
        rows = rows_of(equation.indices, lane, body) if self.widths.rows > 1 else None
        rows = None if rows is not None and self.static.get(rows) == 1 else rows
        if lane is not None and self.threads:
            others = known((i for i in equation.indices if i != lane), self.static)
            self.sizes.thread(lane, [*reads_in(body), element], others)
        blocks = self.sizes.blocks(lane, rows, body)
        self.row = rows if rows in blocks else None
        square = None if self.threads else turned(equation.indices, body, element, self.units)
        if square is not None:
            blocks = {index: self.sizes.fitting(index, SQUARE) for index in square}
        order = [index for index in equation.indices if index not in blocks] + list(blocks)

        def store() -> None:
            value = self.named(self.flat(body, ()))
            item = Store(equation.tensor, subscripts, value, None, (), self.plain, ())
            self.scopes[-1].statements.append(item)

        self.nest([(index, blocks.get(index, 1)) for index in order], store)
        most = MOST * self.lanes if self.threads else SQUARE if square is not None else 1
        grid, statements = peel(tuple(self.scopes[0].statements), most)
        return Kernel(
            equation.tensor.name, _tensors_read(body), (equation.tensor,), grid, statements
        )

    def nest(self, loops: list[tuple[str, int]], innermost: Callable[[], None]) -> None:
        """Open `loops` without carries around what `innermost` emits."""
        if not loops:
            innermost()
            return
        (index, block), *rest = loops
        self.scopes.append(_Scope(index, block))
        self.nest(rest, innermost)
        scope = self.scopes.pop()
        self.scopes[-1].statements.append(whole_loop(index, block, (), scope.statements))

    def flat(self, expr: Expr, guards: tuple[Expr, ...]) -> Expr:
        """`expr` with every reduction replaced by the tile that holds its value."""
        if _is_flat(expr):
            return expr
        known = self.scopes[-1].flat
        if (expr, guards) not in known:
            known[expr, guards] = self.flattened(expr, guards)
        return known[expr, guards]

    def flattened(self, expr: Expr, guards: tuple[Expr, ...]) -> Expr:
        match expr:
            case Reduce():
                return self.placed(expr, guards)
            case Round(dtype, arg):
                return Cast(dtype, self.flat(arg, guards))
            case Select(condition, yes, no):
                return Select(
                    self.flat(condition, guards),
                    self.flat(yes, (*guards, condition)),
                    self.flat(no, (*guards, call("not", condition))),
                )
            case Apply(function, args) if function.name in ("and", "or"):
                return Apply(function, self.guarded_args(function.name, args, guards))
            case _:
                made = rebuild(expr, lambda item: self.child(item, guards))
                if isinstance(expr, Read) and isinstance(made, Read):
                    self.changed.setdefault(expr, {expr}).add(made)
                return made

    def child(self, item: Node, guards: tuple[Expr, ...]) -> Node:
        """Children that are expressions are flattened; tensors and functions stay."""
        return self.flat(item, guards) if isinstance(item, Expr) else item

    def guarded_args(
        self, name: str, args: tuple[Expr, ...], guards: tuple[Expr, ...]
    ) -> tuple[Expr, ...]:
        """`and` evaluates an operand only where those before hold, `or` where they do not."""
        done: list[Expr] = []
        for arg in args:
            done.append(self.flat(arg, guards))
            guards = (*guards, arg if name == "and" else call("not", arg))
        return tuple(done)

    def placed(self, item: Reduce, guards: tuple[Expr, ...]) -> Value:
        """The value of a reduction, computed once at the outermost scope that can."""
        outer = guards if may_leave(item, self.extents) else ()
        where = conjunction((*outer, *optional(item.where)))
        free = free_indices(replace(item, where=where))
        level = max((n for n, scope in enumerate(self.scopes) if scope.index in free), default=0)
        left = [scope.index for scope in self.scopes[level + 1 :] if scope.index is not None]
        where = conjunction((*optional(where), *entered(item, left, self.extents, self.static)))
        key = (item, where)
        found = [s.values[key] for s in self.scopes[: level + 1] if key in s.values]
        if found:
            return found[0]
        above, self.scopes = self.scopes[level + 1 :], self.scopes[: level + 1]
        value = self.reduction(item, where, free)
        self.scopes[level].values[key] = value
        self.scopes = self.scopes + above
        return value

    def reduction(self, item: Reduce, where: Expr | None, free: frozenset[str]) -> Value:
        """Emit the loops of a reduction in the innermost open scope."""
        outer = [s for s in self.scopes if s.index in free and s.lanes > 1]
        rows = [s.index for s in outer if s.index and s.index == self.row]
        along = [s.index for s in outer if s.index and s.index != self.row]
        lane = None if along or self.in_order(item) else reduction_lanes(item, self.units)
        if lane is not None and self.threads:
            self.sizes.thread(lane, reads_in(item), [None])
        order = [i for i in item.indices if i != lane] + ([lane] if lane else [])
        axes = (*rows, *along, *optional(lane))
        dtype = accumulator(item.reducer, value_type(item.body), item.dtype)
        dtype = settled(value_type(item)) if item.reducer not in (SUM, PROD) else dtype
        tile = self.tile(str(item.reducer), axes, dtype)
        start = identity(item.reducer, dtype)
        self.carry(item, where, order, lane, tile, start)
        if lane is None:
            return _value(tile)
        total = self.tile(str(item.reducer), tuple(rows), dtype)
        self.emit(Let(total, item.reducer, (lane,), _value(tile), None, None, self.plain, ()))
        return _value(total)

    def in_order(self, item: Reduce) -> bool:
        """Whether this reduction must run element by element."""
        return self.ordered and item.reducer in (SUM, PROD) and value_type(item).floating

    def carry(
        self, item: Reduce, where: Expr | None, order: list[str], lane: str | None, tile: Tile,
        start: Expr | Tile,
    ) -> None:  # fmt: skip
        """Loops over `order` carrying `tile` from `start`, innermost first in the recursion."""
        index, *rest = order
        block = self.inner_lanes(lane) if index == lane else 1
        next_tile = Tile(
            tile.name + "'", tile.axes, tile.sizes, tile.dtype, tile.space, tile.layout
        )
        self.scopes.append(_Scope(index, block))
        if rest:
            inner = self.tile(str(item.reducer), tile.axes, tile.dtype)
            self.carry(item, where, rest, lane, inner, tile)
            self.map(next_tile, _value(inner))
        else:
            element = self.element(item, where, lane, tile.dtype)
            self.map(next_tile, self.combined(item, _value(tile), element))
        scope = self.scopes.pop()
        self.emit(whole_loop(index, block, (Carry(tile, start),), scope.statements))

    def combined(self, item: Reduce, carry: Value, element: Expr) -> Expr:
        """The carried value with one more element. A sum takes two products one after the other,
        `(sum + p) - q` for `sum + (p - q)`: each is then one multiply-add, as in the parts of a
        complex product. What is not selected leaves a sum as it is."""
        match element:
            case Select(condition, yes, no) if item.reducer is SUM and no is identity(
                SUM, carry.dtype
            ):
                return Select(condition, self.combined(item, carry, yes), carry)
            case _:
                pass
        if item.reducer is SUM and not self.ordered and value_type(element) is carry.dtype:
            match element:
                case Apply(function, (Apply(first) as p, Apply(second) as q)) if (
                    function.name in ("add", "sub") and carry.dtype.floating
                    and first.name == second.name == "mul"
                ):  # fmt: skip
                    return Apply(function, (call("add", carry, p), q))
                case _:
                    pass
        return Apply(FUNCTIONS[COMBINE[item.reducer]], (carry, element))

    def element(self, item: Reduce, where: Expr | None, lane: str | None, dtype: DType) -> Expr:
        """The reduction's operand, the identity where it is not selected or past the edge."""
        body: Expr = item.body if item.dtype is None else Cast(item.dtype, item.body)
        neutral = identity(item.reducer, dtype)
        chosen = body if where is None else Select(where, body, neutral)
        flat = self.named(self.flat(chosen, ()))
        if lane is None:
            return flat
        inside = call("lt", Position(lane), Extent(lane))
        guarded = Select(inside, flat, identity(item.reducer, settled(value_type(flat))))
        rows = [s.index for s in self.scopes if s.lanes > 1 and s.index and s.index != lane]
        axes = (*(index for index in rows if index in free_indices(guarded)), lane)
        tile = self.tile("x", axes, settled(value_type(guarded)))
        self.emit(Let(tile, None, (), guarded, None, None, self.plain, (lane,)))
        return _value(tile)

    def named(self, expr: Expr) -> Expr:
        """The expression with names for what a long text would repeat."""
        known: dict[Node, Node] = {}
        for item in shared_parts(expr, self.extents) if self.threads else ():
            dtype = settled(value_type(item.part))
            guard, body = conjunction(item.guards), item.part
            if guard is not None:
                body = Select(guard, body, identity(ANY if dtype is BOOL else SUM, dtype))
            free = free_indices(body)
            axes = [s.index for s in self.scopes if s.index in free and s.lanes > 1]
            tile = self.tile("x", tuple(filter(None, axes)), dtype)
            self.map(tile, cast(Expr, replaced(body, known.get)))
            known[item.part] = _value(tile)
        return cast(Expr, replaced(expr, known.get))

    def inner_lanes(self, index: str | None) -> int:
        """The block of a reduction's own lanes."""
        shared = any(scope.index == self.row for scope in self.scopes if scope.index)
        return self.sizes.of_sum(index, shared)

    def tile(self, stem: str, axes: tuple[str, ...], dtype: DType) -> Tile:
        """A register tile with a fresh name."""
        number = 1
        while f"{stem}{number}" in self.taken:
            number += 1
        self.taken.add(f"{stem}{number}")
        open_blocks = {scope.index: scope.lanes for scope in self.scopes}
        sizes = tuple(open_blocks.get(axis) or self.inner_lanes(axis) for axis in axes)
        return Tile(f"{stem}{number}", axes, sizes, dtype, "register", Strided())

    def map(self, tile: Tile, body: Expr) -> None:
        """A pointwise statement."""
        self.emit(Let(tile, None, (), body, None, None, self.plain, ()))

    def emit(self, statement: Statement) -> None:
        self.scopes[-1].statements.append(statement)


@fact
def _is_flat(expr: Expr) -> bool:
    """No reduction and no movable rounding inside."""
    return not any(isinstance(item, Reduce | Round) for item in postorder([expr]))


def _value(tile: Tile) -> Value:
    return Value(tile.name, tile.axes, tile.dtype)


def _tensors_read(body: Expr) -> tuple[Tensor, ...]:
    found = {item.tensor: None for item in postorder([body]) if isinstance(item, Read)}
    return tuple(found)
