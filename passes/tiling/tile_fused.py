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

from collections.abc import Mapping, Sequence

from tensorc.ir.node import Node, postorder
from tensorc.ir.plan import Plan, PlannedKernel
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import (
    Apply,
    Check,
    Equation,
    Expr,
    Position,
    Program,
    Read,
    Reduce,
    Round,
    Select,
    free_indices,
)
from tensorc.ir.tile import Block, Kernel, Store, TileProgram
from tensorc.passes.fusion.guards import Reads
from tensorc.passes.fusion.inline import Inliner
from tensorc.passes.fusion.price import in_tile, sizes_of
from tensorc.passes.fusion.reach import below, needed
from tensorc.passes.tiling.contiguity import Units, lanes_of, rows_of
from tensorc.passes.tiling.exists import without_searches
from tensorc.passes.tiling.side_by_side import FEWEST, SideBySide, block_of
from tensorc.passes.tiling.tile_pass import LONG, Walks, power
from tensorc.passes.tiling.tile_scopes import ROWS, VECTOR, Scopes
from tensorc.passes.tiling.whole_rows import WholeRows, row_index

WHOLE = 4096  # lanes of a grid index that lies whole in a tile, at most


def tile_fused(
    program: Program, plan: Plan, lanes: int, units: Units, machine: str,
    sizes: Mapping[str, int] | None = None,
) -> TileProgram:  # fmt: skip
    """Level 2 of a planned canonical program.

    `lanes`: elements along a vectorised index where a statement has one axis. `units`: the
    unit-stride axis of tensors that are not row-major. `sizes`: extents that are fixed: only an
    index of such an extent lies whole in a tile.
    Raises Unfused where a kernel has what this pass does not do.
    """
    extents = dict(plan.extents)
    hints = sizes_of(program, sizes or {})
    known = {extents[name]: size for name, size in hints.items()}
    every = {name: known[size] for name, size in extents.items() if size in known}
    given = {extents[name] for name in sizes or {} if name in extents}
    fixed = frozenset(
        name for name, size in extents.items() if size in given or size.constant is not None
    )
    inliner = Inliner(program, (), plan.checks)
    changed: dict[Read, set[Read]] = {}
    kernels = tuple(
        _Emission(program, inliner, extents, every, fixed, lanes, units, changed).kernel(item)
        for item in (without_searches(kernel, extents) for kernel in plan.kernels)
    )
    stored = {item.tensor.name: item.tensor for k in plan.kernels for item in k.outputs}
    workspaces = tuple(stored[name] for name in plan.stored)
    return TileProgram(
        program.name, machine, program.parameters, program.outputs, workspaces,
        plan.extents, kernels, program.tables, _checks(inliner, changed),
    )  # fmt: skip


class _Emission:
    """One kernel being emitted."""

    def __init__(
        self, program: Program, inliner: Inliner, extents: Mapping[str, Polynomial],
        sizes: Mapping[str, int], fixed: frozenset[str], lanes: int, units: Units,
        changed: dict[Read, set[Read]],
    ) -> None:  # fmt: skip
        self.extents, self.sizes, self.inliner, self.fixed = extents, sizes, inliner, fixed
        self.judge = Reads(program, extents, inliner.checked)
        self.vector, self.units = lanes, units
        named = (*program.parameters, *program.outputs, *program.equations, *program.tables)
        taken = {*extents, *(item.tensor.name for item in named)}
        self.scopes = Scopes(extents, taken, self.judge)
        self.walks = Walks(self.scopes, sizes, lanes, units, inliner.moved)
        self.scopes.changed, self.scopes.careful = changed, inliner.careful
        self.grid: tuple[str, ...] = ()

    def kernel(self, item: PlannedKernel) -> Kernel:
        roots = [output.body for output in item.outputs]
        self.inliner.careful |= self._careful(roots)
        row = self._row(item)
        if row is not None:
            return self._by_rows(item, row)
        grid, whole, late = self._grid(item)
        rows = self._rows(item, grid, whole)
        if rows is not None:
            size = block_of(self.sizes[rows])
            grid = tuple(Block(b.index, size) if b.index == rows else b for b in grid)
            self.walks.side = SideBySide(self.scopes, rows, self.units)
        self.grid = tuple(block.index for block in grid)
        self.scopes.bound = {block.index: block.size for block in grid} | whole
        for walk in item.passes:
            self.walks.run(walk)
        for output in item.outputs:
            self._output(output, late)
        return self._kernel(item, grid)

    def _kernel(self, item: PlannedKernel, grid: tuple[Block, ...]) -> Kernel:
        roots = [output.body for output in item.outputs]
        reads = {n.tensor: None for n in postorder(roots) if isinstance(n, Read)}
        writes = tuple(output.tensor for output in item.outputs)
        return Kernel(writes[0].name, tuple(reads), writes, grid, self.scopes.statements)

    def _row(self, item: PlannedKernel) -> WholeRows | None:
        """What does the reductions of a kernel whose rows lie whole in tiles."""
        if self.inliner.careful or self.inliner.checked:
            return None
        fixed = {name: size for name, size in self.sizes.items() if name in self.fixed}
        index = row_index(item, self.extents, fixed, self.units)
        if index is None:
            return None
        roots = [output.body for output in item.outputs]
        found = WholeRows(self.scopes, index, self.inliner, roots)
        return found if found.pays else None

    def _by_rows(self, item: PlannedKernel, row: WholeRows) -> Kernel:
        """The kernel with a row in tiles, every reduction on its own."""
        grid = tuple(Block(index, 1) for index in item.grid if index != row.index)
        lanes = -(-self.sizes[row.index] // self.vector) * self.vector
        self.scopes.ground = ROWS
        self.scopes.bound = {block.index: 1 for block in grid} | {row.index: lanes}
        row.define()
        for output in item.outputs:
            self._output(output, None)
        return self._kernel(item, grid)

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
        lanes = max(self.vector, power(self.sizes[inner]))
        if lanes <= WHOLE and inner in self.fixed:
            return others, {inner: lanes}, None
        return (*others, Block(inner, LONG)), {}, None

    def _rows(
        self, item: PlannedKernel, grid: Sequence[Block], whole: Mapping[str, int]
    ) -> str | None:
        """The grid index whose points share most of what is read, if it has enough of them."""
        free = [block.index for block in grid if block.size == 1]
        able = [index for index in free if self.sizes.get(index, 0) >= FEWEST]
        found = [rows_of(able, next(iter(whole), None), output.body) for output in item.outputs]
        return found[0] if len(set(found)) == 1 else None

    def _lane(self, item: PlannedKernel, top: Sequence[Reduce]) -> str | None:
        """The grid index along vectors, where no reduction should be."""
        first = max(item.outputs, key=lambda output: len(output.indices))
        written = Read(first.tensor, tuple(Position(index) for index in first.indices))
        inner = [i for n in top for i in n.indices]
        return lanes_of(first.indices, inner, first.body, written, self.units)

    def _output(self, output: Equation, late: str | None) -> None:
        """Store an output, in a loop over the index that no state has."""
        body = output.body
        if isinstance(body, Round) and body.dtype is output.tensor.dtype:
            body = body.arg  # the store rounds
        subscripts = tuple(Position(index) for index in output.indices)
        if late is None or late not in output.indices:
            self._store(output, body, subscripts)
            return
        for part in free_of(body, late):
            self.scopes.flat(part)
        block = min(LONG, max(self.vector, power(self.sizes[late])))
        self.scopes.open(late, block)
        self.walks.level([body])
        self._store(output, body, subscripts)
        self.scopes.close(late)

    def _store(self, output: Equation, body: Expr, subscripts: tuple[Expr, ...]) -> None:
        value = self.scopes.flat(body)
        once = tuple(index for index in self.grid if index not in output.indices)
        self.scopes.emit(Store(output.tensor, subscripts, value, None, once, VECTOR, ()))

    def _careful(self, roots: Sequence[Expr]) -> set[Read]:
        """Reads that may leave their tensor where the condition around them fails, so that they
        are not computed ahead of it. A reduction, which has the conditions that it needs, is."""
        parts = [part for node in postorder(roots) for part in guarded_parts(node)]
        guarded = {n for part in parts for n in postorder([part]) if isinstance(n, Read)}
        return {read for read in guarded if not self.judge.inside(read)}


def _checks(inliner: Inliner, changed: Mapping[Read, set[Read]]) -> tuple[Check, ...]:
    """The comparisons of reads as they stand in kernels."""
    found = {
        Check(made, axis)
        for read, forms in changed.items()
        for axis in inliner.checked.get(read, ())
        for made in forms
    }
    return tuple(sorted(found, key=repr))


def _nothing(item: Expr) -> bool:
    """Nothing is computed yet."""
    return False


def guarded_parts(node: Node) -> tuple[Expr, ...]:
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


def free_of(expr: Expr, index: str) -> list[Expr]:
    """The largest parts of an expression that do not depend on an index."""
    if index not in free_indices(expr):
        return [expr]
    return [part for item in below(expr) for part in free_of(item, index)]
