"""How the tiles of a fused kernel lie when its products are done by instructions for matrices.

    t[m, n] = sum[d](Q * K)              frame of the instruction, rows m, columns n
    s[m, n] = select(n <= m, t, -inf)    the same; a guard of the blocks at the edge of the mask
    r'[m]   = max(r, max[n](s))          the frame restricted to its rows
    P[m, n] = exp(s - r')                the first operand of the next product, where it lies
    a'[m, e] = u + sum[n](P * V)

All products of a kernel have the same rows, so that everything else is computed where their sums
lie. Masks that hold on whole blocks are one guard on the scores; what follows from a masked score
is neutral (`abstract`) and needs no guard of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tensorc.ir.conditions import conjuncts
from tensorc.ir.functions import FUNCTIONS, MAX, SUM
from tensorc.ir.node import postorder
from tensorc.ir.plan import Pass, State
from tensorc.ir.polynomial import Symbol, of_atom
from tensorc.ir.ranges import Ranges
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Expr,
    Extent,
    Position,
    Read,
    Select,
    Value,
    free_indices,
    value_type,
)
from tensorc.ir.tile import Frame, Layout, Operand, Strided, Tile, Use
from tensorc.machine.instruction import Instruction, Slot
from tensorc.machine.verify_uses import substituted
from tensorc.passes.canonicalise import call
from tensorc.passes.fusion.bounds import Range, bounding, bounds, limits
from tensorc.passes.fusion.guards import Reads
from tensorc.passes.fusion.inline import Unfused
from tensorc.passes.tiling.abstract import Masked, masked
from tensorc.passes.tiling.feed import Copies
from tensorc.passes.tiling.match import Factor, Match, product, unify
from tensorc.passes.tiling.neutral import identity
from tensorc.passes.tiling.operands import Names, Operands, stem_of, use, value, where
from tensorc.passes.tiling.shapes import atoms
from tensorc.passes.tiling.tile_scopes import Scopes, storage


@dataclass(frozen=True)
class Term:
    """What a block adds to a reduction: the value, what does it, the edges that it guards."""

    body: Expr
    by: Use | None
    edge: tuple[str, ...]


@dataclass(frozen=True)
class Guard:
    """Conditions on a loop's index: those that hold on whole blocks from some place to another,
    and others; `all` of them are what the scores of the pass are masked by."""

    bounding: tuple[Expr, ...]
    others: tuple[Expr, ...]


@dataclass
class Frames:
    """One kernel. `rows`: the row indices of its products; `lanes`: of every index; `whole`: the
    indices that lie whole in tiles; `reads`: which reads need no condition around them."""

    copies: Copies
    scopes: Scopes
    rows: tuple[str, ...]
    lanes: Mapping[str, int]
    whole: frozenset[str]
    reads: Reads
    scores: dict[Expr, frozenset[Expr]] = field(default_factory=dict[Expr, frozenset[Expr]])
    shared: list[tuple[Factor, Tile, object]] = field(
        default_factory=list[tuple[Factor, Tile, object]]
    )

    # --- loops ----------------------------------------------------------------------------------

    def lies_whole(self, item: Pass) -> bool:
        """Whether a pass needs no loop."""
        return all(index in self.whole for index in item.indices)

    def around(self) -> dict[str, int]:
        """The lanes of every index that a block of the grid or of an open loop binds."""
        return {i: n for i, n in self.scopes.bound.items() if i not in self.whole}

    def limits(self, item: Pass, block: int) -> Range:
        """The range of the innermost loop of a pass, and where its guards hold on every lane."""
        extents, around = self.scopes.extents, self.around()
        found = bounds(item, block, around, extents)
        guard = self.guard(item)
        if guard is None:
            return Range(found.lower, found.upper, None, None)
        full = limits(guard.bounding, item.indices[-1], block, around, extents)
        return Range(found.lower, found.upper, full.first, full.last)

    def guard(self, item: Pass) -> Guard | None:
        """What masks the scores of a pass; None: it has none, or nothing masks them."""
        top, index = _top(item), item.indices[-1]
        if top is None or len(item.indices) > 1:
            return None
        conditions = () if top.where is None else _parts(top.where)
        end = call("lt", Position(index), Extent(index))
        if self.partial(index) and not self.implied(index, conditions):
            conditions = (end, *conditions)
        if not conditions:
            return None
        around = {i: n for i, n in self.around().items() if i != index}
        bound = bounding(conditions, index, around, self.scopes.extents)
        bound = [part for part in bound if index in free_indices(part)]
        return Guard(tuple(bound), tuple(part for part in conditions if part not in bound))

    def partial(self, index: str) -> bool:
        """Whether the last block of an index may reach beyond its extent."""
        size = self.copies.value(self.scopes.extents[index])
        return size is None or size % self.lanes[index] != 0

    def implied(self, index: str, conditions: tuple[Expr, ...]) -> bool:
        """Whether conditions on rows inside the domain say that an index is below its extent."""
        extents = dict(self.scopes.extents)
        size = extents.pop(index)  # of the index nothing is taken for granted
        judge = Ranges(extents, frozenset(self.scopes.bound) - {index}, conditions)
        return judge.holds(size - 1 - of_atom(Symbol(index, "index")))

    # --- values ---------------------------------------------------------------------------------

    def mask(self, item: Pass) -> None:
        """Compute the scores of a pass, -inf where they are masked or beyond the end."""
        top, guard = _top(item), self.guard(item)
        if top is None or guard is None:
            return
        body = self.scopes.flat(top.body)
        lowest = identity(MAX, storage(value_type(top.body)))
        for conditions in (guard.others, guard.bounding):
            if conditions:
                body = Select(_every(conditions), body, lowest)
        edge = (item.indices[-1],) if guard.bounding else ()
        axes = self.scopes.axes(free_indices(body))
        tile = self.scopes.fresh("s", axes, storage(value_type(top.body)))
        self.scopes.define(tile, body, edge=edge)
        self.scopes.know(top.body, value(tile))
        self.scores[top.body] = frozenset((*guard.bounding, *guard.others))

    def neutral(self, state: State, item: Pass) -> bool:
        """Whether a state adds nothing where the scores of its pass are masked, and is selected
        wherever they are not."""
        top = _top(item)
        known = self.scores.get(top.body) if top is not None else None
        if top is None or known is None:
            return False
        own = set(_parts(state.where)) if state.where is not None else set[Expr]()
        found = masked(state.body, {top.body: Masked.LOWEST}, frozenset(item.indices))
        wanted = {SUM: Masked.ZERO, MAX: Masked.LOWEST}.get(state.reduce.reducer)
        return own <= known and found is wanted

    def term(self, state: State, item: Pass, index: str) -> Term:
        """What a block adds to a state."""
        free = self.neutral(state, item)
        match = self.match(state, item, free)
        if match is not None:
            return self.multiplied(match, item, free)
        return self.plain(state, item, free)

    def plain(self, state: State, item: Pass, free: bool) -> Term:
        """What a block adds, computed by threads."""
        reduce, body = state.reduce, state.body
        if reduce.dtype is not None and value_type(body) is not reduce.dtype:
            body = Cast(reduce.dtype, body)
        flat = self.scopes.flat(body)
        if free:
            return Term(flat, None, ())
        neutral = identity(reduce.reducer, storage(value_type(flat)))
        if state.where is not None:
            flat = Select(self.scopes.flat(state.where), flat, neutral)
        ends = [i for i in item.indices if self.lanes[i] > 1 and self.partial(i)]
        if ends:
            inside = [call("lt", Position(i), Extent(i)) for i in ends]
            flat = Select(_every(tuple(inside)), flat, neutral)
        return Term(flat, None, tuple(ends))

    # --- products -------------------------------------------------------------------------------

    def match(self, state: State, item: Pass, free: bool) -> Match | None:
        """The state as a product with the kernel's rows; None: it is none. Unfused: it is one,
        and has other rows or a condition on both factors."""
        machine = self.copies.machine
        first = machine.instructions[machine.products[0]]
        result = tuple(i for i in self.scopes.bound if i in free_indices(state.reduce))
        try:
            unify(first, product(state.reduce, item.indices, state.body, None), result)
        except Unfused:
            return None
        guarded = self.read_under if free else None
        found = product(state.reduce, item.indices, state.body, state.where, guarded)
        match = unify(first, found, result)
        if set(match.groups["m"]) != set(self.rows):
            match = unify(first, match.product.swapped(), result)
        if set(match.groups["m"]) != set(self.rows):
            raise Unfused("its products have different rows")
        groups = {role: self.ordered(own) for role, own in match.groups.items()}
        return replace(match, groups=groups)

    def read_under(self, factor: Factor, conditions: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The conditions without which reading a factor might leave its tensor."""
        if not isinstance(factor.value, Read):
            return ()
        needed = self.reads.needed(factor.value, conditions)
        return conditions if needed is None else needed

    def ordered(self, group: tuple[str, ...]) -> tuple[str, ...]:
        """Indices with one lane first: the last one is that of rows in shared memory."""
        return tuple(sorted(group, key=lambda index: self.lanes[index] > 1))

    def multiplied(self, match: Match, item: Pass, free: bool) -> Term:
        """One block of a product by an instruction."""
        names = Names(self.scopes.taken)
        operands = Operands(self.copies, self.scopes.extents, match.groups, self.lanes, names)
        direct = [self.direct(factor, match, place) for place, factor in enumerate(
            match.product.factors)]  # fmt: skip
        found = self.instruction(match, direct)
        factors = tuple(
            self.held(factor, slot, match, free)
            if here
            else self.fetched(factor, slot, operands, free)
            for factor, slot, here in zip(
                match.product.factors, found.operands, direct, strict=True
            )
        )
        body = Apply(FUNCTIONS["mul"], factors)
        return Term(body, use(found, match.groups, self.lanes), ())

    def direct(self, factor: Factor, match: Match, place: int) -> bool:
        """Whether a factor is computed in registers where the instruction takes it: the first one,
        of values whose rows and columns lie as those of a sum."""
        return (
            place == 0
            and not isinstance(factor.value, Read)
            and any(
                slot_layout(self.copies.machine.instructions[name].operands[0]) is not None
                for name in self.copies.machine.products
            )
        )

    def instruction(self, match: Match, direct: list[bool]) -> Instruction:
        """The best instruction of which whole atoms cover the tile, with its first factor in
        registers or not."""
        machine = self.copies.machine
        for name in machine.products:
            found = machine.instructions[name]
            spaces = {place.space for place in found.operands[0].places}
            if direct[0] and slot_layout(found.operands[0]) is None:
                continue
            if not direct[0] and spaces == {"register"} and not self.copied_to(found):
                continue
            roles = [role.name for role in found.roles]
            if all(atoms(found, match.groups, self.lanes, role) for role in roles):
                return found
        raise Unfused("no instruction for products has atoms that cover the tile")

    def copied_to(self, found: Instruction) -> bool:
        """Whether the machine copies from shared memory to where the first factor is taken."""
        wanted = slot_layout(found.operands[0])
        return any(
            place.layout == wanted
            for item in self.copies.machine.instructions.values()
            if item.roles and item.op is None
            for place in item.result.places
        )

    def held(self, factor: Factor, slot: Slot, match: Match, free: bool) -> Value:
        """A factor in registers, as the instruction takes it."""
        layout = slot_layout(slot)
        assert layout is not None
        axes = {role: tuple(i for i in own if self.lanes[i] > 1)
                for role, own in match.groups.items()}  # fmt: skip
        names = Names(self.scopes.taken)
        order = tuple(i for role in slot.roles for i in axes[role])
        tile = Tile(
            names.fresh(stem_of(factor), "P"), order, tuple(self.lanes[i] for i in order),
            factor.dtype, "register", substituted(layout, axes),
        )  # fmt: skip
        body, edge = self.guarded(factor, match, free)
        self.scopes.define(tile, body, edge=edge)
        return value(tile)

    def guarded(self, factor: Factor, match: Match, free: bool) -> tuple[Expr, tuple[str, ...]]:
        """A computed factor, 0 where it counts as 0."""
        flat = self.scopes.flat(factor.value)
        conditions = tuple(self.scopes.flat(part) for part in factor.conditions)
        partial = tuple(i for i in match.groups["k"] if self.lanes[i] > 1 and self.partial(i))
        if free:
            return where(conditions, flat), ()
        ends = tuple(call("lt", Position(index), Extent(index)) for index in partial)
        return where(ends, where(conditions, flat)), partial

    def fetched(self, factor: Factor, slot: Slot, operands: Operands, free: bool) -> Value:
        """A factor from memory, or computed into shared memory, where the instruction takes it.
        Its copy stands where all loops are open on which it depends, once."""
        way = operands.way(factor, slot)
        found = [tile for known, tile, scope in self.shared if known == factor and (
            tile.layout == way.shared and scope in self.scopes.open_scopes)]  # fmt: skip
        if found:
            tile = found[0]
        else:
            tile = operands.shared(factor, slot, way)
            let = operands.copied(tile, factor, self.scopes.flat(factor.value))
            scope = self.scopes.emit_outside(let, _needed(let.body, self.scopes, factor))
            self.shared.append((factor, tile, scope))
        for step in way.steps:
            let = operands.moved(tile, factor, step)
            self.scopes.emit(let)
            tile = let.tile
        return value(tile)

    # --- layouts --------------------------------------------------------------------------------

    def layout(self, axes: tuple[str, ...]) -> Layout:
        """Where a tile with these axes lies: in the frame of the products, restricted."""
        machine = self.copies.machine
        (place,) = machine.instructions[machine.products[0]].result.places
        match place.layout:
            case Frame(atom, _, _) if axes:
                rows = tuple(i for i in self.rows if i in axes)
                return Frame(atom, rows, tuple(i for i in axes if i not in rows))
            case _:
                return Strided()


def slot_layout(slot: Slot) -> Operand | None:
    """Where an instruction takes an operand in registers."""
    for place in slot.places:
        if isinstance(place.layout, Operand):
            return place.layout
    return None


def _parts(condition: Expr) -> tuple[Expr, ...]:
    """The conditions that all hold where one does."""
    found = conjuncts(condition)
    return tuple(part if holds else call("not", part) for part, holds in found)


def _top(item: Pass) -> State | None:
    """The scores of a pass: what its first maximum is taken of."""
    tops = (s for s in item.states if s.reduce.reducer is MAX and s.moved is None)
    top = next(tops, None)
    return top if top is not None and value_type(top.body).floating else None


def _every(conditions: tuple[Expr, ...]) -> Expr:
    return conditions[0] if len(conditions) == 1 else call("and", *conditions)


def _needed(body: Expr, scopes: Scopes, factor: Factor) -> frozenset[str]:
    """The loops on which a copy depends; one that reads tiles stays in the innermost."""
    if any(isinstance(node, Value) for node in postorder([body])):
        return frozenset(scopes.bound)
    return factor.indices
