"""Planned kernels as level-2 text for a CPU: a grid of points, and loops that carry states.

    kernel 1 -> o: grid m, e
      pass 0 over n: r1, s1, s2      s1 from exp(h1 - h1') * s1, ...

    grid m by 1; whole e by 64
    loop n by 64  carry r1 = -inf, s1 = 0, s2[e] = 0
      t = sum[d](...) by a loop over d
      r1' = max(r1, max[n](select(n < |n|, t, -inf)))
      x = exp(h1 - h1');  y[n] = exp(t - h1')
      s1' = x * s1 + sum[n](select(n < |n|, y, 0))
      u[e] = x * s2;  s2'[e] = u + sum[n](select(n < |n|, y * v[n, e], 0))
    store o[m, e] = s2 / s1

True afterwards: every output is stored by the kernel that the plan gives it; a reduction is
computed at the outermost scope that binds its free indices, together with its pass; one index of
the grid may lie whole in a tile. Partial sums of a block are added up before they meet a scalar
state, so that long sums lose little. Statements have at most two axes with many lanes. What is
longer than vectors of the register file lies in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tensorc.ir.affine import is_whole
from tensorc.ir.dtypes import REAL, DType, settled, value_of
from tensorc.ir.functions import ANY, FUNCTIONS, MAX, PROD, SUM, accumulator
from tensorc.ir.node import Node, postorder, rebuild
from tensorc.ir.plan import Pass, Plan, PlannedKernel, State
from tensorc.ir.polynomial import Polynomial, polynomial
from tensorc.ir.ranges import Ranges, Verdict
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Equation,
    Expr,
    Extent,
    Literal,
    Position,
    Program,
    Read,
    Reduce,
    Round,
    Seen,
    Select,
    Tensor,
    Value,
    free_indices,
    value_type,
)
from tensorc.ir.tile import (
    Block,
    Carry,
    Kernel,
    Let,
    Loop,
    Statement,
    Store,
    Strided,
    Tile,
    TileProgram,
    Use,
)
from tensorc.passes.bounds import bounds
from tensorc.passes.canonicalise import call, integer
from tensorc.passes.contiguity import Along, Units, lanes_of, stride_class
from tensorc.passes.fuse import Moved, in_tile, passes, sizes_of
from tensorc.passes.inline import Inliner, Unfused
from tensorc.passes.lower import identity
from tensorc.passes.reach import below, needed

VECTOR = Use("vector")
LONG, WIDE = 256, 64  # lanes of a pass with short rows, and of one whose tiles have two axes
WHOLE = 4096  # lanes of a grid index that lies whole in a tile, at most
REGISTERS = 512  # elements of a tile that may lie in registers
_COSTLY = frozenset(
    "exp exp2 log log2 div tanh sigmoid sqrt rsqrt erf sin cos pow expm1 log1p".split()
)
_JOIN = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}


def tile_fused(
    program: Program, plan: Plan, lanes: int, units: Units, machine: str,
    sizes: Mapping[str, int] | None = None,
) -> TileProgram:  # fmt: skip
    """Level 2 of a planned canonical program.

    `lanes`: elements along a vectorised index where a statement has one axis. `units`: the
    unit-stride axis of tensors that are not row-major. `sizes`: extents that are known; a kernel
    with an index whole in a tile is right for extents up to that tile's lanes only.
    Raises Unfused where a kernel has what this pass does not do.
    """
    extents = dict(plan.extents)
    hints = sizes_of(program, sizes or {})
    known = {extents[name]: size for name, size in hints.items()}
    every = {name: known[size] for name, size in extents.items() if size in known}
    kernels = tuple(
        Emission(program, extents, every, lanes, units).kernel(item) for item in plan.kernels
    )
    stored = {item.tensor.name: item.tensor for k in plan.kernels for item in k.outputs}
    workspaces = tuple(stored[name] for name in plan.stored)
    return TileProgram(
        program.name, machine, program.parameters, program.outputs, workspaces,
        plan.extents, kernels, program.tables, plan.checks,
    )  # fmt: skip


@dataclass
class _Scope:
    """An open loop's body, or the kernel's: statements, and the tiles that hold expressions."""

    statements: list[Statement] = field(default_factory=list[Statement])
    known: dict[Node, Expr] = field(default_factory=dict[Node, Expr])


class Emission:
    """One kernel being emitted: open scopes, lanes of indices in tiles, names in use."""

    def __init__(
        self, program: Program, extents: Mapping[str, Polynomial], sizes: Mapping[str, int],
        lanes: int, units: Units,
    ) -> None:  # fmt: skip
        self.program, self.extents, self.sizes = program, extents, sizes
        self.vector, self.units = lanes, units
        named = (*program.parameters, *program.outputs, *program.equations, *program.tables)
        self.taken = {*extents, *(item.tensor.name for item in named)}
        self.scopes = [_Scope()]
        self.bound: dict[str, int] = {}  # index to lanes, outermost first
        self.grid: tuple[str, ...] = ()
        self.moved: Moved = Inliner(program, ()).moved

    # --- the kernel -----------------------------------------------------------------------------

    def kernel(self, item: PlannedKernel) -> Kernel:
        roots = [output.body for output in item.outputs]
        self._reads_stay_inside(roots, item.grid)
        grid, whole, late = self._grid(item)
        self.grid = tuple(block.index for block in grid)
        self.bound = {block.index: block.size for block in grid} | whole
        self.level(roots)
        for output in item.outputs:
            self._output(output, late)
        reads = {n.tensor: None for n in postorder(roots) if isinstance(n, Read)}
        writes = tuple(output.tensor for output in item.outputs)
        (scope,) = self.scopes
        return Kernel(writes[0].name, tuple(reads), writes, grid, tuple(scope.statements))

    def _grid(self, item: PlannedKernel) -> tuple[tuple[Block, ...], dict[str, int], str | None]:
        """Blocks of the grid, the index whole in a tile, and the index walked by a loop around
        the stores."""
        group = list(item.outputs)
        inner = in_tile(group, self.sizes)
        top = [n for n in needed([e.body for e in group], _nothing)
               if free_indices(n) <= set(item.grid)]  # fmt: skip
        if inner is None:
            lane = self._lane(item, top)
            return tuple(Block(i, self.vector if i == lane else 1) for i in item.grid), {}, None
        others = tuple(Block(index, 1) for index in item.grid if index != inner)
        if not any(inner in free_indices(n) for n in top):
            return others, {}, inner
        lanes = max(self.vector, _power(self.sizes[inner]))
        if lanes <= WHOLE:
            return others, {inner: lanes}, None
        return (*others, Block(inner, LONG)), {}, None

    def _lane(self, item: PlannedKernel, top: Sequence[Reduce]) -> str | None:
        """The grid index along vectors, where no reduction should be."""
        first = max(item.outputs, key=lambda output: len(output.indices))
        written = Read(first.tensor, tuple(Position(index) for index in first.indices))
        inner = [i for n in top for i in n.indices]
        return lanes_of(first.indices, inner, first.body, written, self.units)

    def _output(self, output: Equation, late: str | None) -> None:
        """Store an output, in a loop over the index that no state has."""
        body = output.body.arg if isinstance(output.body, Round) else output.body
        subscripts = tuple(Position(index) for index in output.indices)
        if late is None or late not in output.indices:
            self._store(output, body, subscripts)
            return
        for part in _free_of(body, late):
            self.flat(part)
        block = min(LONG, max(self.vector, _power(self.sizes[late])))
        self.open({late: block})
        self.level([body])
        self._store(output, body, subscripts)
        self.close(late, block, ())

    def _store(self, output: Equation, body: Expr, subscripts: tuple[Expr, ...]) -> None:
        value = self.flat(body)
        once = tuple(index for index in self.grid if index not in output.indices)
        self.emit(Store(output.tensor, subscripts, value, None, once, VECTOR, ()))

    def _reads_stay_inside(self, roots: Sequence[Expr], grid: Iterable[str]) -> None:
        """Values are computed ahead of the conditions that select them, so every read must stay
        inside its tensor without them."""
        checked = {check.read for check in self.program.checks}
        guarded = {
            read
            for node in postorder(roots)
            for part in _guarded(node)
            for read in postorder([part])
            if isinstance(read, Read)
        }
        for read in guarded:
            if read in checked or not self._inside(read):
                raise Unfused(f"a read of {read.tensor.name} needs its condition")

    def _inside(self, read: Read) -> bool:
        if is_whole(read, self.extents):
            return True
        judge = Ranges(self.extents, free_indices(read))
        return all(
            judge.judge(item, size).verdict is Verdict.PROVED
            or self._decided(judge.integers.polynomial(item), size)
            for item, size in zip(read.subscripts, read.tensor.shape, strict=True)
        )

    def _decided(self, value: Polynomial, limit: Polynomial) -> bool:
        """Whether a condition that holds at every point, or else no call runs, says so."""
        return any(
            item.value is value and item.limit is limit and not item.guards
            for item in self.program.conditions
        )

    # --- scopes ---------------------------------------------------------------------------------

    def emit(self, statement: Statement) -> None:
        self.scopes[-1].statements.append(statement)

    def open(self, indices: Mapping[str, int]) -> None:
        self.scopes.append(_Scope())
        self.bound.update(indices)

    def close(
        self, index: str, block: int, carries: tuple[Carry, ...],
        limits: tuple[Polynomial, Polynomial] | None = None,
    ) -> None:  # fmt: skip
        scope = self.scopes.pop()
        del self.bound[index]
        size = self.extents[index]
        lower, upper = limits or (polynomial(0), size)
        full = (polynomial(0), size // block * block)
        self.emit(Loop(index, block, lower, upper, full, carries, tuple(scope.statements)))

    def known(self, item: Node) -> Expr | None:
        for scope in reversed(self.scopes):
            if item in scope.known:
                return scope.known[item]
        return None

    def level(self, roots: Sequence[Expr]) -> None:
        """Every reduction in `roots` that this scope can compute and that is not there yet."""
        bound = frozenset(self.bound)
        made = passes(roots, bound, self.extents, self.moved, lambda n: self.known(n) is not None)
        for item in made:
            self.run(item)

    # --- a pass ---------------------------------------------------------------------------------

    def run(self, item: Pass) -> None:
        """The loops of a pass; afterwards its reductions are known."""
        *outer, last = item.indices
        block = self._block(item, last)
        limits = bounds(item, block, self.bound, self.extents)
        tiles = [self._carried(state, item) for state in item.states]
        starts: list[Expr | Tile] = [self._start(state) for state in item.states]
        self._nest(item, list(outer), last, block, tiles, starts, limits)
        for state, tile in zip(item.states, tiles, strict=True):
            self.scopes[-1].known[state.reduce] = self._final(state, tile)

    def _nest(
        self, item: Pass, outer: list[str], last: str, block: int, tiles: list[Tile],
        starts: list[Expr | Tile], limits: tuple[Polynomial, Polynomial],
    ) -> None:  # fmt: skip
        """Loops over the outer indices of a pass one by one, then the innermost."""
        carries = tuple(Carry(tile, start) for tile, start in zip(tiles, starts, strict=True))
        if not outer:
            self.open({last: block})
            self._block_body(item, last, block, tiles)
            self.close(last, block, carries, limits)
            return
        self.open({outer[0]: 1})
        inner = [self.fresh(tile.name, tile.axes, tile.dtype, tile.space) for tile in tiles]
        self._nest(item, outer[1:], last, block, inner, list(tiles), limits)
        for tile, inside in zip(tiles, inner, strict=True):
            into = inside if tile.space != "register" else None
            self.emit(Let(_next(tile), None, (), _value(inside), None, into, VECTOR, ()))
        self.close(outer[0], 1, carries)

    def _carried(self, state: State, item: Pass) -> Tile:
        axes = self.axes(free_indices(state.reduce))
        dtype = _dtype(state)
        big = _count(axes, self.bound) > REGISTERS and not self._old_is_read(state, item)
        return self.fresh(state.name, axes, dtype, "memory" if big else "register")

    def _old_is_read(self, state: State, item: Pass) -> bool:
        """Whether another state's rule reads this one's value before the block."""
        others = [other.moved for other in item.states if other is not state and other.moved]
        return any(isinstance(n, Value) and n.tile == state.name for n in postorder(others)) or any(
            state.reduce in set(postorder([shift.value])) for shift in item.shifts
        )

    def _start(self, state: State) -> Expr:
        return identity(state.reduce.reducer, _dtype(state))

    def _final(self, state: State, tile: Tile) -> Expr:
        """The state after its pass; not a number where a maximum that it is relative to is no
        number's."""
        value: Expr = _value(tile)
        for top in state.poison:
            reached = self.known(top)
            assert reached is not None
            nothing = call("eq", reached, identity(top.reducer, _storage(value_type(top))))
            value = self.let(Select(nothing, Literal("nan", REAL), value))
        return value

    def _block(self, item: Pass, index: str) -> int:
        """Lanes of the innermost index of a pass: many, unless another index runs along vectors."""
        axes = [self.axes(free_indices(state.reduce)) for state in item.states]
        most = max(map(len, axes), default=0)
        if most >= 2:
            return 1
        size = self.sizes.get(index, LONG)
        long = min(WIDE if most else LONG, max(self.vector, _power(size)))
        if most and min(map(len, axes)) > 0:
            inner = any(
                index in free_indices(n)
                for state in item.states
                for n in postorder([state.body])
                if isinstance(n, Reduce)
            )
            (lane,) = {axis for group in axes for axis in group} if len(
                {axis for group in axes for axis in group}) == 1 else ("",)  # fmt: skip
            far = lambda i: self._far(item, i)  # noqa: E731
            if not inner and lane and far(lane) <= far(index):
                return 1
        return long

    def _far(self, item: Pass, index: str) -> int:
        reads = [n for s in item.states for n in postorder([s.body]) if isinstance(n, Read)]
        return sum(stride_class(read, index, self.units) is Along.FAR for read in reads)

    def _block_body(self, item: Pass, index: str, block: int, tiles: list[Tile]) -> None:
        scope = self.scopes[-1]
        old = {s.name: _value(t) for s, t in zip(item.states, tiles, strict=True)}
        new = {s.name: _value(_next(t)) for s, t in zip(item.states, tiles, strict=True)}
        for state in item.states:
            scope.known[state.reduce] = old[state.name]
        before = self._shifts(item, index, False)
        empty = {state.name: self._empty(state, index) for state in item.states}
        for state in item.states:
            scope.known[state.reduce] = new[state.name]
        after: dict[str, Expr] = {}
        wheres = [state.where for state in item.states if state.where is not None]
        self.level([*(state.body for state in item.states), *wheres])
        for state, tile in zip(item.states, tiles, strict=True):
            self._shifted(item, state, index, after)
            names = {**old, **before, **{f"{k}'": v for k, v in after.items()}}
            names.update({f"{name}'": value for name, value in new.items()})
            self._advance(state, tile, index, block, names, empty[state.name], item)

    def _shifts(self, item: Pass, index: str, after: bool) -> dict[str, Expr]:
        """The shifts before the block, from the states before it."""
        found: dict[str, Expr] = {}
        used = {n.tile for s in item.states if s.moved for n in postorder([s.moved]) if (
            isinstance(n, Value))}  # fmt: skip
        for shift in item.shifts:
            if shift.name in used:
                found[shift.name] = self._shift_value(item, shift.value, index, after)
        return found

    def _shift_value(self, item: Pass, value: Expr, index: str, after: bool) -> Expr:
        """A shift's value: |i| counts what was seen, and unbounded maxima are kept finite."""
        floors = {top for state in item.states for top in state.poison}
        memo: dict[Node, Node] = {}

        def seen(node: Node) -> Node:
            match node:
                case Extent(name) if self.extents[name] is self.extents[index]:
                    return Seen(index, after)
                case Reduce():
                    found = self.known(node)
                    assert found is not None
                    return _finite(node, found) if node in floors else found
                case _:
                    if node not in memo:
                        memo[node] = rebuild(node, seen) if isinstance(node, Expr) else node
                    return memo[node]

        made = seen(value)
        assert isinstance(made, Expr)
        return self.let(self.flat(made))

    def _shifted(self, item: Pass, state: State, index: str, after: dict[str, Expr]) -> None:
        """Shifts that the state's body reads, after the block, as soon as all they need is."""
        nodes = set(postorder([state.body]))
        for shift in item.shifts:
            if shift.value in nodes and shift.name not in after:
                after[shift.name] = self._shift_value(item, shift.value, index, True)
                self.scopes[-1].known[shift.value] = after[shift.name]

    def _empty(self, state: State, index: str) -> Expr | None:
        """Whether nothing was added to the state before this block."""
        found: Expr | None = None
        for item in state.empty:
            plain = item
            while isinstance(plain, Cast):
                plain = plain.arg
            count = Seen(index, False) if isinstance(plain, Extent) else self.flat(plain)
            none = call("eq", count, integer(0))
            found = none if found is None else call("or", found, none)
        return None if found is None else self.let(found)

    def _advance(
        self, state: State, tile: Tile, index: str, block: int, names: Mapping[str, Expr],
        empty: Expr | None, item: Pass,
    ) -> None:  # fmt: skip
        """The next value of a state: the old one moved, and this block added."""
        moved: Expr | None = None
        if state.moved is not None:
            moved = self.flat(_named(state.moved, names))
            if empty is not None:
                moved = Select(empty, _value(tile), moved)
        element = self._element(state, index, block, tile.dtype)
        following, reducer = _next(tile), state.reduce.reducer
        keep = None if self._old_is_read(state, item) else tile
        if block == 1:
            start = moved if moved is not None else _value(tile)
            joined = Apply(FUNCTIONS[_JOIN[reducer.name]], (start, element))
            self.emit(Let(following, None, (), joined, None, keep, VECTOR, ()))
            return
        edge = (index,)
        if not tile.axes and reducer in (SUM, PROD):
            part = self.fresh("p", (), tile.dtype)
            self.emit(Let(part, reducer, (index,), element, None, None, VECTOR, edge))
            start = moved if moved is not None else _value(tile)
            joined = Apply(FUNCTIONS[_JOIN[reducer.name]], (start, _value(part)))
            self.emit(Let(following, None, (), joined, None, None, VECTOR, ()))
            return
        onto = tile
        if moved is not None:
            onto = self.fresh("u", tile.axes, tile.dtype, tile.space)
            self.emit(Let(onto, None, (), moved, None, keep, VECTOR, ()))
            keep = onto
        self.emit(Let(following, reducer, (index,), element, onto, keep, VECTOR, edge))

    def _element(self, state: State, index: str, block: int, dtype: DType) -> Expr:
        """What the block adds: the reduction's operand, neutral where it is not selected."""
        item = state.reduce
        body = state.body
        if item.dtype is not None and value_type(body) is not item.dtype:
            body = Cast(item.dtype, body)
        flat = self.flat(body)
        kind = dtype if item.reducer in (SUM, PROD) else settled(value_type(flat))
        neutral = identity(item.reducer, kind)
        if state.where is not None:
            flat = Select(self.flat(state.where), flat, neutral)
        if block > 1:
            flat = Select(call("lt", Position(index), Extent(index)), flat, neutral)
        return flat

    # --- expressions ----------------------------------------------------------------------------

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
        self.scopes[-1].known[expr] = made
        return made

    def _flattened(self, expr: Expr) -> Expr:
        match expr:
            case Reduce():
                raise Unfused(f"a {expr.reducer} is not where it can be computed")
            case Round(dtype, arg):
                return self.let(self.flat(arg), dtype)
            case _:
                made = rebuild(expr, lambda n: self.flat(n) if isinstance(n, Expr) else n)
                costly = isinstance(made, Apply) and made.function.name in _COSTLY
                moving = any(isinstance(n, Read | Value) for n in postorder([made]))
                return self.let(made) if costly and moving else made

    def let(self, expr: Expr, dtype: DType | None = None) -> Expr:
        """The value of an expression in a tile of its own."""
        if isinstance(expr, Value | Literal) and dtype is None:
            return expr
        kind = dtype or _storage(value_type(expr))
        known = self.known(Cast(kind, expr))
        if known is not None:
            return known
        axes = self.axes(free_indices(expr))
        big = _count(axes, self.bound) > REGISTERS
        tile = self.fresh("x", axes, kind, "memory" if big else "register")
        self.emit(Let(tile, None, (), expr, None, None, VECTOR, ()))
        self.scopes[-1].known[Cast(kind, expr)] = _value(tile)
        return _value(tile)

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
        return Tile(name, axes, sizes, dtype, space, Strided())


def _nothing(item: Expr) -> bool:
    """Nothing is computed yet."""
    return False


def _guarded(node: Node) -> tuple[Expr, ...]:
    """What a node evaluates only where a condition holds."""
    match node:
        case Select(_, yes, no):
            return (yes, no)
        case Apply(function, args) if function.name in ("and", "or"):
            return args[1:]
        case Reduce(_, _, body, where, _) if where is not None:
            return (body,)
        case _:
            return ()


def _free_of(expr: Expr, index: str) -> list[Expr]:
    """The largest parts of an expression that do not depend on an index."""
    if index not in free_indices(expr):
        return [expr]
    return [part for item in below(expr) for part in _free_of(item, index)]


def _named(expr: Expr, names: Mapping[str, Expr]) -> Expr:
    """A formula of the plan over tiles."""
    if isinstance(expr, Value):
        return names[expr.tile]
    return rebuild(expr, lambda n: _named(n, names) if isinstance(n, Expr) else n)


def _finite(top: Reduce, value: Expr) -> Expr:
    """A running maximum or minimum, no further than the finite numbers go."""
    from tensorc.passes.canonicalise import highest

    largest = Literal(highest(value_type(top)), REAL)
    if top.reducer is MAX:
        return call("max", value, call("neg", largest))
    return call("min", value, largest)


def _dtype(state: State) -> DType:
    item = state.reduce
    if item.reducer in (SUM, PROD):
        return accumulator(item.reducer, value_type(item.body), item.dtype)
    return _storage(value_type(item))


def _storage(dtype: DType) -> DType:
    return value_of(settled(dtype))


def _next(tile: Tile) -> Tile:
    return Tile(f"{tile.name}'", tile.axes, tile.sizes, tile.dtype, tile.space, tile.layout)


def _value(tile: Tile) -> Value:
    return Value(tile.name, tile.axes, tile.dtype)


def _power(size: int) -> int:
    """The least power of two that is at least `size`."""
    return 1 << max(0, size - 1).bit_length()


def _count(axes: Iterable[str], bound: Mapping[str, int]) -> int:
    total = 1
    for axis in axes:
        total *= bound[axis]
    return total


__all__ = ["ANY", "Tensor", "tile_fused"]
