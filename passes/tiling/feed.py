"""How a factor of a product reaches its instruction: copies from space to space, with layouts.

An instruction says where its operands may lie; other instructions say what they copy from where.
Read backwards from the operand, that is a chain which ends in shared memory:

    mma.m16n8k16 takes A in registers      ldmatrix fills those from shared memory, rows along k
    wgmma takes A in shared memory, rows along k or along m

and what fills shared memory is the machine's copy from memory, where it can do what the reads ask
(`Copies`), or else its threads. Rows in shared memory run along the index whose elements are
neighbours in memory, so that both ends of a copy move whole chunks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorc.ir.affine import coefficient
from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Polynomial, Symbol, evaluate, symbols
from tensorc.ir.tensor import Expr, Read, Tensor, Value, free_indices
from tensorc.ir.tile import Layout, Linear, Operand
from tensorc.machine.instruction import Instruction, Machine, Place, Slot
from tensorc.machine.verify_uses import substituted
from tensorc.passes.tiling.contiguity import Along, Units, stride_class
from tensorc.passes.tiling.match import Groups

SPANS = (128, 64, 32)  # bytes of a row that a swizzle exchanges chunks in
BOX = 256  # elements of a copied box along a dimension, at most (CUDA driver API, tensor maps)
RANK = 5  # dimensions of such a box, at most
STEP = 8  # elements between neighbours of a box, at most
ALIGNED = 16  # bytes by which its outer strides are divisible


@dataclass(frozen=True)
class Step:
    """A copy into the place where the next instruction takes it."""

    instruction: Instruction
    groups: Groups
    layout: Layout


@dataclass(frozen=True)
class Chain:
    """Where a factor lies in shared memory, and what copies it on from there."""

    shared: Linear
    steps: tuple[Step, ...]


def chain(
    machine: Machine, slot: Slot, groups: Groups, rows: str | None, lanes: Mapping[str, int]
) -> Chain | None:
    """The shortest way to an operand through shared memory whose rows run along the index `rows`
    (None: along any). None: there is no way.

    `lanes`: of every index in `groups`; those with one are no axes.
    """
    axes = {role: tuple(i for i in own if lanes[i] > 1) for role, own in groups.items()}
    found = [
        option
        for place in slot.places
        if place.layout is not None
        for option in _ways(machine, place, axes, slot, lanes)
        if rows is None or option.shared.order[-1] == rows
    ]
    return min(found, key=lambda option: len(option.steps), default=None)


def _ways(
    machine: Machine, place: Place, axes: Groups, slot: Slot, lanes: Mapping[str, int]
) -> list[Chain]:
    """Chains to one place of an operand."""
    assert place.layout is not None
    wanted = substituted(place.layout, axes)
    if place.space == "shared":
        assert isinstance(wanted, Linear)
        row = lanes[wanted.order[-1]] * slot.dtypes[0].bits // 8
        best = next((span for span in SPANS if row % span == 0), 0)
        return [Chain(wanted, ())] if wanted.swizzle == best else []
    made: list[Chain] = []
    for item in machine.instructions.values():
        own = _fills(item, wanted)
        if own is not None:
            for source in item.operands[0].places:
                for way in _ways(machine, source, own, item.operands[0], lanes):
                    made.append(Chain(way.shared, (*way.steps, Step(item, own, wanted))))
    return made


def _fills(item: Instruction, wanted: Layout) -> Groups | None:
    """The roles of a copy that leaves its result in a layout; None: it does not."""
    if not isinstance(item.body, Value) or item.op is not None or not item.roles:
        return None
    for place in item.result.places:
        match place.layout, wanted:
            case Operand(atom, which, (m,), (k,)), Operand() if (atom, which) == (
                wanted.atom,
                wanted.which,
            ):
                return {m: wanted.m, k: wanted.k}
            case _:
                pass
    return None


@dataclass(frozen=True)
class Copies:
    """What the machine's own copy from memory to shared memory can do.

    `units`: the unit-stride axis of tensors that are not row-major; `sizes`: extents as far as
    they are known; `extents`: of every index.
    """

    machine: Machine
    units: Units
    sizes: Mapping[str, int]

    @property
    def load(self) -> Instruction | None:
        """The copy from memory to shared memory."""
        return self._copy("global", "shared", False)

    @property
    def store(self) -> Instruction | None:
        """The copy from shared memory to a tensor."""
        return self._copy("shared", "global", True)

    def _copy(self, source: str, target: str, stores: bool) -> Instruction | None:
        for item in self.machine.instructions.values():
            ends = [{place.space for place in slot.places} for slot in (
                *item.operands, item.result)]  # fmt: skip
            if isinstance(item.body, Value) and ends == [{source}, {target}]:
                if item.stores == stores:
                    return item
        return None

    def row(self, value: Expr, axes: tuple[str, ...]) -> str | None:
        """The index along which a factor's elements are neighbours in memory; None: none is."""
        reads = [node for node in postorder([value]) if isinstance(node, Read)]
        for index in axes:
            if any(stride_class(read, index, self.units) is Along.NEXT for read in reads):
                return index
        return None

    def fits(self, by: Instruction, read: Read, row: str, lanes: Mapping[str, int]) -> bool:
        """Whether the copy moves this read, `row` being the index of its rows."""
        nested = any(isinstance(n, Read) for item in read.subscripts for n in postorder([item]))
        if nested or stride_class(read, row, self.units) is not Along.NEXT:
            return False
        if self.misaligned(read.tensor):
            return False
        return not by.boxes or self._is_box(read, row, lanes)

    def _is_box(self, read: Read, row: str, lanes: Mapping[str, int]) -> bool:
        wide = {index: count for index, count in lanes.items() if count > 1}
        moving = [
            {i: coefficient(item, i) for i in free_indices(item) & wide.keys()}
            for item in read.subscripts
        ]
        named = [index for move in moving for index in move]
        steps = [step for move in moving for step in move.values()]
        return (
            all(len(move) <= 1 for move in moving)
            and len(named) == len(set(named))
            and set(named) == wide.keys()
            and all(step is not None and 0 < step <= STEP for step in steps)
            and all(count <= BOX for count in wide.values())
            and 1 <= len(read.subscripts) <= RANK
        )

    def misaligned(self, tensor: Tensor) -> bool:
        """Whether rows of a tensor are known to start between chunks of 16 bytes."""
        if self.units.get(tensor.name, len(tensor.shape) - 1) != len(tensor.shape) - 1:
            return False  # strides are those of the call
        stride: int | None = tensor.dtype.bits // 8
        for size in reversed(tensor.shape[1:]):
            value = self.value(size)
            stride = None if value is None else stride * value
            if stride is None:
                return False
            if stride % ALIGNED:
                return True
        return False

    def value(self, size: Polynomial) -> int | None:
        """A size, if all that it is made of is known."""
        known: dict[Symbol, int] = {}
        for symbol in symbols(size):
            if symbol.name not in self.sizes:
                return None
            known[symbol] = self.sizes[symbol.name]
        return evaluate(size, known)
