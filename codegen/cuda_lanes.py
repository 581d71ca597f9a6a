"""Lanes of a block on its threads: a thread has one lane, or several where the block is larger.

Lane v of a thread is `first + STEP * v`. In a kernel whose tensors are aligned (WIDE) these are
neighbours, so that a thread moves pieces of 16 bytes; else lanes of one v are, so that neighbouring
threads touch neighbouring elements. Which elements of a tensor are moved in pieces is found here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tensorc.codegen.cuda_expressions import Expressions
from tensorc.codegen.cuda_functions import stored_type
from tensorc.codegen.cuda_parameters import Parameters
from tensorc.ir.affine import coefficient
from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Symbol, extent
from tensorc.ir.ranges import Ranges
from tensorc.ir.tensor import Expr, Position, Read, Tensor, free_indices
from tensorc.ir.tile import TileProgram

THREADS = 128  # of a block, at most
WIDE = 16  # bytes that a thread moves at once, at most


@dataclass(frozen=True)
class Lanes:
    """How an index runs along threads. `first`: the position of the thread's lane 0; `each`: lanes
    of a thread."""

    first: str
    each: int
    size: str
    whole: bool  # every block lies inside the extent

    @property
    def position(self) -> str:
        """The position of lane v."""
        return f"({self.first} + STEP * v)" if self.each > 1 else self.first

    @property
    def inside(self) -> str:
        """Whether lane v lies inside the extent."""
        return "true" if self.whole else f"{self.position} < {self.size}"


class Pieces:
    """Accesses of one kernel to neighbouring elements along lanes. `wide`: whether the kernel may
    be compiled twice, once for aligned tensors."""

    def __init__(
        self, program: TileProgram, parameters: Parameters, e: Expressions, wide: bool
    ) -> None:
        self.program, self.parameters, self.e, self.wide = program, parameters, e, wide
        self.aligned: dict[str, None] = {}  # conditions of WIDE

    def loads(self, exprs: Sequence[Expr], index: str, lanes: Lanes) -> Iterator[str]:
        """Declarations of what a thread reads of its lanes, for the reads among `exprs` that can
        be moved in pieces; `e` knows them from here on, until `forget`."""
        for read in postorder(exprs):
            if not isinstance(read, Read) or index not in free_indices(read):
                continue
            if read in self.e.loaded or not self.moves(read.tensor, read.subscripts, index, lanes):
                continue
            if not all(self.safe(read, axis, index) for axis in range(len(read.subscripts))):
                continue
            name = self.parameters.names.fresh(read.tensor.name)
            address, left = self.place(read.tensor, read.subscripts, index, lanes)
            left = self.checked(read, left)
            yield f"{stored_type(read.tensor.dtype)} {name}[{lanes.each}];"
            yield f"tcs_load<WIDE>({name}, {address}, {left}, STEP);"
            self.e.loaded[read] = f"{name}[v]"

    def forget(self) -> None:
        """No read is at hand any more."""
        self.e.loaded.clear()

    def moves(
        self, tensor: Tensor, subscripts: tuple[Expr, ...], index: str, lanes: Lanes
    ) -> bool:  # fmt: skip
        """Whether the lanes of an access are neighbours in memory whose pieces may be aligned,
        which `aligned` notes."""
        axis = self.axis(tensor, subscripts, index)
        if axis is None or not self.wide or lanes.each == 1:
            return False
        if not self.even(subscripts[axis], index, lanes.each):
            return False
        bytes_ = min(WIDE, lanes.each * tensor.dtype.bits // 8)
        condition = self.parameters.even(tensor, axis, bytes_)
        if condition:
            self.aligned[condition] = None
        return bool(condition)

    def axis(self, tensor: Tensor, subscripts: tuple[Expr, ...], index: str) -> int | None:
        """The axis that the lanes run along, if nothing else of the access moves with them and its
        elements are neighbours."""
        moving = [n for n, item in enumerate(subscripts) if index in free_indices(item)]
        if len(moving) != 1 or coefficient(subscripts[moving[0]], index) != 1:
            return None
        return moving[0] if self.parameters.stride(tensor, moving[0]) == "1" else None

    def even(self, subscript: Expr, index: str, each: int) -> bool:
        """Whether lane 0 of every thread is a multiple of its lanes."""
        if isinstance(subscript, Position):
            return True
        value = self.ranges(subscript).integers.polynomial(subscript)
        for monomial, factor in value.terms:
            total = factor
            for atom, power in monomial:
                known = self.parameters.known(atom.name) if isinstance(atom, Symbol) else None
                if isinstance(atom, Symbol) and atom.kind == "extent" and known is not None:
                    total *= known**power
                elif isinstance(atom, Symbol) and atom.name == index and power == 1:
                    total = 0
                    break
            if total % each:
                return False
        return True

    def ranges(self, item: Expr) -> Ranges:
        return Ranges(self.program.extent_of, free_indices(item))

    def safe(self, read: Read, axis: int, index: str) -> bool:
        """Whether a subscript is known to lie inside, or is compared when running; of the lanes'
        axis, whether it is not negative, for what lies past the end is not read."""
        subscript, size = read.subscripts[axis], read.tensor.shape[axis]
        if (read, axis) in self.e.checks:
            return index not in free_indices(subscript)
        if isinstance(subscript, Position):
            own = self.program.extent_of.get(subscript.index)
            if size is extent(subscript.index) or size is own or index == subscript.index:
                return True
        judge = self.ranges(subscript)
        value = judge.integers.polynomial(subscript)
        if not judge.holds(value):
            return False
        return index in free_indices(subscript) or judge.holds(size - value - 1)

    def place(
        self, tensor: Tensor, subscripts: tuple[Expr, ...], index: str, lanes: Lanes
    ) -> tuple[str, str]:
        """The address of a thread's lane 0, and how many elements there are from it on."""
        axis = self.axis(tensor, subscripts, index)
        assert axis is not None
        position, self.e.position[index] = self.e.position[index], lanes.first
        address = f"{self.parameters.pointer(tensor)} + {self.e.offset(tensor, subscripts)}"
        at = self.e.subscript(subscripts[axis])
        self.e.position[index] = position
        return address, f"{self.parameters.polynomial(tensor.shape[axis])} - {at}"

    def checked(self, read: Read, left: str) -> str:
        """How many elements there are if the subscripts that hold data are inside, else 0."""
        tests = [
            f"tcs_inside({self.e.subscript(read.subscripts[axis])}, "
            f"{self.parameters.extent(f'{read.tensor.name}.{axis}')}, {self.parameters.error()}, "
            f"{self.e.checks[read, axis]})"
            for axis in range(len(read.subscripts))
            if (read, axis) in self.e.checks
        ]
        return f"({' && '.join(tests)} ? {left} : 0)" if tests else left
