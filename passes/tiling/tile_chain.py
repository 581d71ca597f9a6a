"""A planned kernel with products among dependent reductions as level-2 text for tensor cores.

    kernel 1 -> o: grid b, h, m, e                 grid b, h, m by 128;  whole d by 128, e by 128
      pass 0 over n: r1, s1, s2                    loop n by 128  carry r1, s1, s2
                                                     t = sum[d](Q * K), its mask, the states

True afterwards: what `tile_fused` says, and every product with rows and columns of its own is done
by the machine's instruction. All products have the same rows; sums that a product's columns do not
change are computed once for all of them, as far as these fit one tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tensorc.ir.node import postorder
from tensorc.ir.plan import PlannedKernel
from tensorc.ir.tensor import Equation, Expr, Read, Reduce, Round, free_indices
from tensorc.ir.tile import Block, Each, Kernel, Layout, Let, Loop, Statement, Store, Use
from tensorc.passes.fusion.inline import Inliner, Unfused
from tensorc.passes.tiling.epilogue import Epilogue
from tensorc.passes.tiling.exists import without_searches
from tensorc.passes.tiling.fold_scale import fold_scale
from tensorc.passes.tiling.frames import Frames
from tensorc.passes.tiling.match import Groups, product, unify
from tensorc.passes.tiling.operands import Names
from tensorc.passes.tiling.remember import remember
from tensorc.passes.tiling.reuse import reuse
from tensorc.passes.tiling.shapes import LEAST, SUMS, Shape, power, shared_out
from tensorc.passes.tiling.tile_pass import Walks
from tensorc.passes.tiling.tile_product import Scene, Tiler, Tiling
from tensorc.passes.tiling.tile_scopes import Ground, Scopes

WHOLE = 256  # lanes of a sum's index that lies whole in a tile, at most


class NoProduct(Unfused):
    """A kernel without any product of matrices."""


def tile_chain(item: PlannedKernel, scene: Scene) -> Tiler:
    """Level 2 of a planned kernel, for any shape: lanes of rows, columns and sums in a tile.

    Raises Unfused, saying why, where it holds no product or products with different rows; a shape
    does where other products would be computed again, and making a kernel where a product has no
    instruction.
    """
    item = without_searches(item, scene.extents)
    found = _products(item, scene)
    if not found:
        raise NoProduct("it has no product of matrices")
    rows = _rows(found, item)

    def tiling(shape: Shape) -> Tiling:
        lanes, whole = _lanes(item, scene, shape, rows, found)
        return Tiling(lanes, lambda: _Chain(item, scene, rows, lanes, whole).kernel())

    return tiling


def _products(item: PlannedKernel, scene: Scene) -> list[Groups]:
    """The roles in every product of a kernel, in the order in which they are computed."""
    first = scene.machine.instructions[scene.machine.products[0]]
    found: dict[Reduce, Groups] = {}
    for reduce in _reductions(item):
        result = tuple(i for i in scene.extents if i in free_indices(reduce))
        try:
            made = product(reduce, reduce.indices, reduce.body, None)
            found[reduce] = unify(first, made, result).groups
        except Unfused:
            continue
    return list(found.values())


def _reductions(item: PlannedKernel) -> Iterator[Reduce]:
    """Every reduction of a kernel, as its passes name what they bind; inner ones first."""
    for walk in item.passes:
        for state in walk.states:
            yield from (n for n in postorder([state.body]) if isinstance(n, Reduce))
            yield _named(state.reduce, walk.indices, state.body)


def _named(item: Reduce, indices: tuple[str, ...], body: Expr) -> Reduce:
    """A reduction over other names."""
    return Reduce(item.reducer, indices, body, None, item.dtype)


def _rows(found: list[Groups], item: PlannedKernel) -> tuple[str, ...]:
    """The indices that are rows, or columns, of every product: their sums lie alike."""
    options = [{frozenset(groups["m"]), frozenset(groups["n"])} for groups in found]
    common = set[frozenset[str]].intersection(*options)
    if not common:
        raise Unfused("its products have different rows")
    last = item.grid[-1]
    best = min(common, key=lambda own: (last in own, sorted(own)))
    return next(tuple(g) for groups in found for g in groups.values() if frozenset(g) == best)


def _lanes(
    item: PlannedKernel, scene: Scene, shape: Shape, rows: tuple[str, ...], found: list[Groups]
) -> tuple[dict[str, int], frozenset[str]]:
    """The lanes of every index, and which lie whole in tiles: what is summed inside a loop, and
    the columns of results, if their extents are fixed and not too large."""
    walked = {index for walk in item.passes for index in walk.indices}
    lanes = shared_out(_ranked(rows, walked), shape.m, _atom(scene, "m"), scene.hints)
    whole: set[str] = set()
    for groups in found:
        columns, sums = ([groups["m"], groups["k"]] if set(groups["n"]) == set(rows) else (
            [groups["n"], groups["k"]]))  # fmt: skip
        for group in (columns, sums):
            rest = [index for index in _ranked(group, walked) if index not in lanes]
            if len(rest) < len(group):
                lanes.update(dict.fromkeys(rest, 1))
                continue
            most = WHOLE if group is sums else SUMS // shape.m
            fits = [i for i in rest if scene.static.get(i, SUMS) <= most and not walked & {*rest}]
            if group is columns and not fits and any(own != groups for own in found):
                _not_again(rest, found, item, scene, shape.n)
            whole |= set(fits[:1])
            if fits:
                lanes[fits[0]] = max(LEAST, power(scene.static[fits[0]]))
                lanes.update(dict.fromkeys((i for i in rest if i != fits[0]), 1))
            else:
                most = shape.k if group is sums else shape.n
                atom = _atom(scene, "k" if group is sums else "n")
                ranked = rest[:1] if group is sums else rest
                lanes.update(dict.fromkeys(rest, 1))
                lanes.update(shared_out(ranked, most, atom, scene.hints))
    for index in (*item.grid, *sorted(walked)):
        lanes.setdefault(index, 1)
    return lanes, frozenset(whole)


def _not_again(
    columns: Iterable[str], found: list[Groups], item: PlannedKernel, scene: Scene, lanes: int
) -> None:
    """Unfused where blocks of a result's columns would compute other products again."""
    for index in columns:
        again = [own for own in found if not any(index in group for group in own.values())]
        if again and index in item.grid and scene.hints.get(index, lanes) > lanes:
            raise Unfused(f"for every {lanes} of {index} its other products are computed again")


def _ranked(group: Iterable[str], walked: set[str]) -> list[str]:
    """Indices that loops walk first, then the last of the others."""
    return sorted(reversed(tuple(group)), key=lambda index: index not in walked)


def _atom(scene: Scene, role: str) -> int:
    """The fewest lanes of a role in any instruction for products."""
    known = [r for name in scene.machine.products for r in scene.machine.instructions[name].roles]
    return min(item.atom for item in known if item.name == role)


class _Chain:
    """One kernel being emitted."""

    def __init__(
        self, item: PlannedKernel, scene: Scene, rows: tuple[str, ...], lanes: dict[str, int],
        whole: frozenset[str],
    ) -> None:  # fmt: skip
        self.item, self.scene, self.rows, self.lanes = item, scene, rows, lanes
        ground = Ground(Use(scene.machine.plain), None, self._layout)
        self.scopes = Scopes(scene.extents, scene.taken, scene.reads, ground)
        self.frames = Frames(
            scene.copies, self.scopes, rows, lanes, whole, scene.reads
        )  # fmt: skip
        self.walks = Walks(
            self.scopes, scene.hints, 1, scene.units, Inliner(scene.program, ()).moved, self.frames
        )
        self.grid = tuple(Block(i, lanes[i]) for i in item.grid if i not in whole)
        inner = {index: lanes[index] for index in sorted(whole)}
        self.scopes.bound = {block.index: block.size for block in self.grid} | inner

    def _layout(self, axes: tuple[str, ...]) -> Layout:
        return self.frames.layout(axes)

    def kernel(self) -> Kernel:
        """The passes in order, then the outputs."""
        for walk in self.item.passes:
            self.walks.run(walk)
        for output in self.item.outputs:
            self._output(output)
        roots = [output.body for output in self.item.outputs]
        reads = {node.tensor: None for node in postorder(roots) if isinstance(node, Read)}
        writes = tuple(output.tensor for output in self.item.outputs)
        made = Kernel(writes[0].name, tuple(reads), writes, self.grid, self.scopes.statements)
        made = remember(fold_scale(made, self.scene.static), self.scene.static)
        return _parted(reuse(made), self.rows, self.lanes, _atom(self.scene, "m"))

    def _output(self, output: Equation) -> None:
        """Store an output."""
        body = output.body
        if isinstance(body, Round) and body.dtype is output.tensor.dtype:
            body = body.arg
        value = self.scopes.flat(body)
        end = Epilogue(
            self.scene.copies, self.scene.extents, self.lanes, (), Names(self.scopes.taken)
        )
        once = tuple(b.index for b in self.grid if b.index not in output.indices)
        for item in end.stored(output, value):
            self.scopes.emit(replace(item, once=once) if isinstance(item, Store) else item)


def _parted(
    kernel: Kernel, rows: tuple[str, ...], lanes: dict[str, int], atom: int
) -> Kernel:  # fmt: skip
    """Statements on rows repeated over parts of one atom, where warp groups do a part each."""
    row = next((index for index in rows if lanes[index] > 1), None)
    wide = [index for index in rows if lanes[index] > 1]
    if row is None or len(wide) > 1 or lanes[row] <= atom or atom < 64:
        return kernel
    return replace(kernel, body=_parts(kernel.body, row, lanes[row] // atom, atom))


def _parts(
    body: tuple[Statement, ...], row: str, count: int, atom: int
) -> tuple[Statement, ...]:  # fmt: skip
    made: list[Statement] = []
    group: list[Statement] = []

    def close() -> None:
        if group:
            made.append(Each(row, atom, tuple(_fewer(item, row, count) for item in group)))
            group.clear()

    for item in body:
        if isinstance(item, Loop):
            close()
            made.append(replace(item, body=_parts(item.body, row, count, atom)))
        elif _on_rows(item, row):
            group.append(item)
        elif group and not _reads_rows(item, row):
            made.append(item)
        else:
            close()
            made.append(item)
    close()
    return tuple(made)


def _on_rows(item: Let | Store | Each, row: str) -> bool:
    """Whether a statement works on rows of its own, and is no copy from memory."""
    match item:
        case Let(tile, _, reduced):
            copy = any(isinstance(node, Read) for node in (item.body,))
            return row in tile.axes and row not in reduced and not copy
        case Store():
            return row in free_indices(item.value)
        case Each():
            return False


def _reads_rows(item: Let | Store | Each, row: str) -> bool:
    return isinstance(item, Let) and row in item.reduced


def _fewer(item: Statement, row: str, count: int) -> Statement:
    """A statement on one part of the rows: so many times fewer atoms lie along them."""
    if not isinstance(item, Let) or not item.by.repeat:
        return item
    own = {role for role, axes in item.by.roles if row in axes}
    counts = [(r, n // count if r in own else n) for r, n in item.by.repeat]
    return replace(item, by=replace(item.by, repeat=tuple((r, n) for r, n in counts if n > 1)))
