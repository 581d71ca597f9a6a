"""A planned kernel of reductions along rows as level-2 text for the threads of a GPU.

    y[t, i] = softmax[i](x[t, i])                   grid t;  whole i by 4096, 256 threads x 4

    X[i] = x[t, i]                                  each thread 4 neighbours, in turn
    r1 = max[i](X)                                  a tree over the threads
    e[i] = exp(X - r1);  s1 = sum[i](e)
    store y[t, i] = e / s1

True afterwards: a row that fits the registers of a block is read once and its reductions are taken
one after another of what lies there; a longer one is walked in blocks whose states are moved as the
plan says, and once more for outputs along it. No thread reduces more than `OWN` elements of a
block one by one. Short rows share a block, each with threads of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorc.ir.node import Node, postorder, rebuild
from tensorc.ir.plan import Pass, PlannedKernel, State
from tensorc.ir.tensor import (
    Cast,
    Equation,
    Expr,
    Extent,
    Position,
    Read,
    Reduce,
    Round,
    Select,
    free_indices,
    value_type,
)
from tensorc.ir.tile import Block, Blocked, Kernel, Layout, Store, Strided, Use
from tensorc.passes.canonicalise import call
from tensorc.passes.fusion.agree import compares_again
from tensorc.passes.fusion.bounds import Range, bounds
from tensorc.passes.fusion.inline import Inliner, Unfused
from tensorc.passes.tiling.contiguity import Along, stride_class
from tensorc.passes.tiling.frames import Term
from tensorc.passes.tiling.neutral import identity
from tensorc.passes.tiling.reuse import reuse
from tensorc.passes.tiling.tile_fused import free_of, guarded_parts
from tensorc.passes.tiling.tile_pass import Walks
from tensorc.passes.tiling.tile_product import Scene, Tiling
from tensorc.passes.tiling.tile_scopes import Ground, Scopes, storage

BYTES = 16  # of memory that a thread reads or writes at once
OWN = 32  # elements of a row in one thread, at most
USUAL = 16  # as many as threads are added for
MOST = 1024  # threads of a block, at most
SHARED = 128  # threads that rows share a block for


@dataclass(frozen=True)
class Deal:
    """How a row is dealt: `lanes` of it to `threads`, `vector` neighbours to each in turn; `rows`
    of them in a block. `whole`: all of a row lies in these lanes."""

    lanes: int
    threads: int
    vector: int
    rows: int
    whole: bool


def tile_rows(item: PlannedKernel, scene: Scene) -> Tiling:
    """Level 2 of a planned kernel whose reductions run along one index each, all of one extent,
    along which memory is read. Raises Unfused, saying why, for any other."""
    row = _row(item, scene)
    deal = _deal(item, scene, row)
    if not deal.whole and compares_again([output.body for output in item.outputs]):
        raise Unfused("it compares values with what another walk computes again")
    item = _along(item, row, scene) if deal.whole else item
    lanes = {index: deal.lanes for index in _rows(item, row, scene)}
    return Tiling(lanes, lambda: _Rows(item, scene, row, deal).kernel())


def _row(item: PlannedKernel, scene: Scene) -> str:
    """The index along rows: an output's where one has it, else that of the first pass."""
    walks = {index for walk in item.passes for index in walk.indices}
    sizes = {scene.extents[index] for index in walks}
    if not item.passes or any(len(walk.indices) > 1 for walk in item.passes) or len(sizes) > 1:
        raise Unfused("its reductions run along more than one index")
    for state in _states(item):
        inner = [n for n in postorder([state.body]) if isinstance(n, Reduce)]
        if {i for n in inner for i in n.indices if n not in _known(item)}:
            raise Unfused("it reduces what reductions are made of")
    first = item.passes[0].indices[0]
    if not any(_is_next(read, index, scene) for read, index in _row_reads(item)):
        raise Unfused(f"nothing that it reduces lies side by side along {first}")
    if any(_is_far(read, index, scene) for read, index in _row_reads(item)):
        raise Unfused(f"what it reduces lies far apart along {first}")
    reduced = frozenset[str]().union(*(free_indices(state.reduce) for state in _states(item)))
    own = [i for i in item.grid if scene.extents[i] in sizes and i not in reduced]
    unit = [i for i in own if all(output.indices[-1] == i for output in _having(item, i))]
    return unit[-1] if unit else first


def _states(item: PlannedKernel) -> Iterator[State]:
    return (state for walk in item.passes for state in walk.states)


def _known(item: PlannedKernel) -> set[Reduce]:
    return {state.reduce for state in _states(item)}


def _having(item: PlannedKernel, index: str) -> list[Equation]:
    return [output for output in item.outputs if index in output.indices]


def _row_reads(item: PlannedKernel) -> Iterator[tuple[Read, str]]:
    """Reads inside reductions, with the index that the reduction walks."""
    for walk in item.passes:
        for state in walk.states:
            parts = [state.body, *([] if state.where is None else [state.where])]
            for node in postorder(parts):
                if isinstance(node, Read) and walk.indices[-1] in free_indices(node):
                    yield node, walk.indices[-1]


def _is_next(read: Read, index: str, scene: Scene) -> bool:
    return stride_class(read, index, scene.units) is Along.NEXT


def _is_far(read: Read, index: str, scene: Scene) -> bool:
    return stride_class(read, index, scene.units) is Along.FAR


def _deal(item: PlannedKernel, scene: Scene, row: str) -> Deal:
    """How rows are dealt: pieces of `BYTES` to as many threads as give each `USUAL` elements."""
    size = scene.static.get(row)
    if size is not None and size < 2:
        raise Unfused(f"rows have {size} elements")
    vector = _vector(item, scene, row)
    if size is None or size > MOST * OWN:
        return Deal(USUAL * SHARED * 2, 2 * SHARED, min(vector, USUAL), 1, False)
    pieces = max(1, -(-size // vector))
    threads = 1
    while threads < pieces and threads * (OWN if threads < 32 else USUAL) < pieces * vector:
        threads *= 2
    if threads < 32:  # the threads of a piece each, as far as they lie in one warp
        while threads < min(32, pieces):
            threads *= 2
    threads = min(threads, MOST) if _grid(item, row) else min(max(threads, 32), MOST)
    lanes = threads * vector * -(-pieces // threads)
    rows = max(1, SHARED // threads)
    return Deal(lanes, threads, vector, rows if _grid(item, row) else 1, True)


def _vector(item: PlannedKernel, scene: Scene, row: str) -> int:
    """Elements that a thread has side by side: those that fill `BYTES` in the narrowest tensor
    along rows, if rows hold whole pieces."""
    tensors = [read.tensor for read, _ in _row_reads(item)]
    tensors += [output.tensor for output in _having(item, row)]
    vector = BYTES * 8 // min(tensor.dtype.bits for tensor in tensors)
    size = scene.static.get(row)
    while size is not None and vector > 1 and size % vector:
        vector //= 2
    return vector


def _grid(item: PlannedKernel, row: str) -> tuple[str, ...]:
    return tuple(index for index in item.grid if index != row)


def _rows(item: PlannedKernel, row: str, scene: Scene) -> set[str]:
    """Every index that walks along rows."""
    walked = {index for walk in item.passes for index in walk.indices}
    return {row, *walked}


def _along(item: PlannedKernel, row: str, scene: Scene) -> PlannedKernel:
    """The kernel with every pass over the index of rows, so that all share what lies there."""
    known = _known(item)
    passes: list[Pass] = []
    for walk in item.passes:
        names = dict.fromkeys(walk.indices, row)
        states = tuple(
            replace(
                state, body=_renamed(state.body, names, known),
                where=state.where and _renamed(state.where, names, known),
            )
            for state in walk.states
        )  # fmt: skip
        passes.append(replace(walk, indices=(row,), states=states))
    return replace(item, passes=tuple(passes))


def _renamed(expr: Expr, names: Mapping[str, str], known: set[Reduce]) -> Expr:
    """`expr` with other indices; reductions that are known stay."""
    memo: dict[Node, Node] = {}

    def other(item: Node) -> Node:
        match item:
            case Position(index) if index in names:
                return Position(names[index])
            case Extent(index) if index in names:
                return Extent(names[index])
            case Reduce() if item in known:
                return item
            case _:
                if item not in memo:
                    memo[item] = rebuild(item, other)
                return memo[item]

    made = other(expr)
    assert isinstance(made, Expr)
    return made


class _Rows:
    """One kernel being emitted; what `Walks` asks about lanes and blocks is answered here."""

    def __init__(self, item: PlannedKernel, scene: Scene, row: str, deal: Deal) -> None:
        self.item, self.scene, self.row, self.deal = item, scene, row, deal
        self.lanes = {index: deal.lanes for index in _rows(item, row, scene)}
        outer = _grid(item, row)
        wide = {outer[-1]: deal.rows} if outer else {}
        self.grid = tuple(Block(index, wide.get(index, 1)) for index in outer)
        ground = Ground(Use(scene.machine.plain), None, self._layout)
        self.scopes = Scopes(scene.extents, scene.taken, scene.reads, ground)
        moved = Inliner(scene.program, ()).moved
        self.walks = Walks(self.scopes, scene.hints, 1, scene.units, moved, self)
        self.scopes.bound = {block.index: block.size for block in self.grid}
        if deal.whole:
            self.scopes.bound[row] = deal.lanes

    def _layout(self, axes: tuple[str, ...]) -> Layout:
        """Registers dealt along rows."""
        along = next((index for index in axes if index in self.lanes), self.row)
        return Blocked(self.deal.threads, self.deal.vector, along) if axes else Strided()

    def kernel(self) -> Kernel:
        """The passes in order, then the outputs."""
        self._refuse_guarded()
        for walk in self.item.passes:
            self.walks.run(walk)
        for output in self.item.outputs:
            self._output(output)
        roots = [output.body for output in self.item.outputs]
        reads = {node.tensor: None for node in postorder(roots) if isinstance(node, Read)}
        writes = tuple(output.tensor for output in self.item.outputs)
        name = writes[0].name
        return reuse(Kernel(name, tuple(reads), writes, self.grid, self.scopes.statements))

    def _refuse_guarded(self) -> None:
        """Unfused where a read needs the condition around it."""
        roots = [output.body for output in self.item.outputs]
        parts = [part for node in postorder(roots) for part in guarded_parts(node)]
        for node in postorder(parts):
            if isinstance(node, Read) and not self.scene.reads.inside(node):
                raise Unfused(f"a read of {node.tensor.name} needs the condition around it")

    def _output(self, output: Equation) -> None:
        """Store an output, in a loop where it lies along rows that are not held."""
        body = output.body
        if isinstance(body, Round) and body.dtype is output.tensor.dtype:
            body = body.arg
        walked = self.row in output.indices and not self.deal.whole
        if walked:
            for part in free_of(body, self.row):
                self.scopes.flat(part)
            self.scopes.open(self.row, self.deal.lanes)
        self._copied([body], self.row)
        value = self.scopes.flat(body)
        once = tuple(b.index for b in self.grid if b.index not in output.indices)
        subscripts = tuple(Position(index) for index in output.indices)
        plain = Use(self.scene.machine.plain)
        self.scopes.emit(Store(output.tensor, subscripts, value, None, once, plain, ()))
        if walked:
            self.scopes.close(self.row)

    def _copied(self, exprs: Sequence[Expr], index: str) -> None:
        """Copies into registers of what is read side by side along rows."""
        if index not in self.scopes.bound:
            return
        inner = {n for r in postorder(exprs) if isinstance(r, Reduce) for n in postorder([r])}
        for node in postorder(exprs):
            if not isinstance(node, Read) or node in inner or self.scopes.knows(node):
                continue
            if _is_next(node, index, self.scene) and self.scene.reads.inside(node):
                self.scopes.know(node, self.scopes.let(node))

    # --- what passes ask ------------------------------------------------------------------------

    def lies_whole(self, item: Pass) -> bool:
        """Whether a pass needs no loop."""
        return self.deal.whole

    def limits(self, item: Pass, block: int) -> Range:
        """The range of the loop of a pass."""
        around = {b.index: b.size for b in self.grid}
        found = bounds(item, block, around, self.scopes.extents)
        return Range(found.lower, found.upper, None, None)

    def mask(self, item: Pass) -> None:
        """Nothing is masked ahead of its use."""

    def term(self, state: State, item: Pass, index: str) -> Term:
        """What a block, or a whole row, adds to a state."""
        reduce, body = state.reduce, state.body
        if reduce.dtype is not None and value_type(body) is not reduce.dtype:
            body = Cast(reduce.dtype, body)
        parts = [body] if state.where is None else [body, state.where]
        self._copied(parts, index)
        flat = self.scopes.flat(body)
        neutral = identity(reduce.reducer, storage(value_type(flat)))
        if state.where is not None:
            flat = Select(self.scopes.flat(state.where), flat, neutral)
        if not self.partial(index):
            return Term(flat, None, ())
        inside = call("lt", Position(index), Extent(index))
        return Term(Select(inside, flat, neutral), None, (index,))

    def partial(self, index: str) -> bool:
        """Whether lanes of an index may lie beyond its extent."""
        size = self.scene.copies.value(self.scopes.extents[index])
        return size is None or size % self.deal.lanes != 0
