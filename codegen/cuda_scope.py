"""What every part of the emitter for warps knows at the current point of a kernel: positions,
tiles, memory, and the lines that belong at the kernel's start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tensorc.codegen.cuda_expressions import Expressions, check_numbers
from tensorc.codegen.cuda_functions import C_TYPES
from tensorc.codegen.cuda_index import Index
from tensorc.codegen.cuda_parameters import Names, Parameters
from tensorc.ir.dtypes import value_of
from tensorc.ir.launch import Strides
from tensorc.ir.node import postorder
from tensorc.ir.placement import Placement
from tensorc.ir.polynomial import Polynomial, extent
from tensorc.ir.tensor import Expr, Position, Read, Tensor, free_indices
from tensorc.ir.tile import Kernel, Tile, TileProgram
from tensorc.ir.walk_tile import tiles, whole
from tensorc.machine.arrange import Shared, arrange


class Scope:
    """The state of emitting one kernel for warps."""

    def __init__(
        self, kernel: Kernel, program: TileProgram, static: Mapping[str, int],
        strides: Mapping[str, Strides], placement: Placement, fast: bool,
    ) -> None:  # fmt: skip
        self.kernel, self.program, self.placement = kernel, program, placement
        self.names = Names()
        self.parameters = Parameters(self.names, kernel, program, static, strides)
        self.e = Expressions(self.parameters, check_numbers(program), fast)
        self.tiles = tiles(kernel)
        self.shared: Shared = arrange(kernel, placement.depth)
        self.block = whole(kernel)  # lanes of indices; a block's where the grid or a loop binds it
        self.variables: dict[str, str] = {}  # of register tiles
        self.windows: dict[str, Index] = {}  # the first lane of indices of which warps have a part
        self.heads: dict[str, str] = {}  # declarations at the kernel's start, by name
        self.aligned: dict[str, str] = {}  # what 16-byte copies to shared memory rest on, by tensor
        self._positions: dict[str, str] = {}
        self._scratch = 0

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.placement.warps

    def variable(self, tile: Tile, into: Tile | None) -> tuple[str, bool]:
        """The array of a register tile, and whether it is new. A name at "=" is the one that a
        statement is to use."""
        if "=" in self.variables:
            self.variables[tile.name] = self.variables["="]
            return self.variables["="], False
        if into is not None and _alike(tile, into) and into.name in self.variables:
            self.variables[tile.name] = self.variables[into.name]
            return self.variables[tile.name], False
        self.variables[tile.name] = self.names.plain(tile.name.rstrip("'"))
        return self.variables[tile.name], True

    def region(self, tile: Tile) -> str:
        """The offset of a shared tile, in the current slot if a ring holds it."""
        where = self.shared.regions[tile.name]
        if where.loop is None:
            return str(where.offset)
        return f"slot + {where.offset}" if where.offset else "slot"

    def scratch(self, bytes_: int) -> int:
        """The offset of memory in which warps leave something for each other for a moment."""
        self._scratch = max(self._scratch, bytes_)
        return self.shared.bytes

    @property
    def memory(self) -> int:
        """Bytes of shared memory."""
        return self.shared.bytes + self._scratch

    def start(self, tile: Tile) -> str:
        """The offset of a shared tile from the start of shared memory, or of its slot."""
        return str(self.shared.regions[tile.name].offset)

    def base(self, index: str) -> str:
        """The position of an index's lane 0."""
        return self.e.base.get(index, "")

    def place(self, lanes: Mapping[str, Index], exprs: Iterable[Expr], always: Iterable[str] = ()
    ) -> Iterator[str]:  # fmt: skip
        """Declarations of the positions that expressions use, for the lanes of the loops around;
        from here on `e` knows them."""
        used = {node.index for node in postorder(exprs) if isinstance(node, Position)}
        for index in sorted(lanes.keys() & (used | set(always))):
            name = self._positions.setdefault(index, self.names.plain(index))
            base = self.base(index)
            lane = str(lanes[index])
            text = f"{base} + {lane}" if base and lane != "0" else base or lane
            self.e.position[index] = name
            yield f"const i64 {name} = {text};"

    def leave(self) -> None:
        """Positions of lanes are unknown again."""
        self.e.position.clear()

    def inside(self, indices: Iterable[str]) -> list[str]:
        """The conditions under which the lanes of these indices, placed before, lie inside their
        extents; none for indices whose blocks always do."""
        return [
            f"{self.e.position[index]} < {self.parameters.extent(index)}"
            for index in sorted(indices)
            if index in self.e.position and not self.whole(index)
        ]

    def whole(self, index: str) -> bool:
        """Whether every block of an index is known to lie inside its extent."""
        size = self.parameters.known(index)
        return size is not None and size % self.block.get(index, size or 1) == 0

    def bounds(self, read: Read) -> list[str]:
        """The conditions under which a read stays inside its tensor."""
        found: list[str] = []
        for subscript, size in zip(read.subscripts, read.tensor.shape, strict=True):
            if isinstance(subscript, Position) and self.spans(subscript.index, size):
                if subscript.index in self.e.position and not self.whole(subscript.index):
                    found.append(f"{self.e.position[subscript.index]} < {self.bound(size)}")
                continue
            if not free_indices(subscript) & self.e.position.keys() and not any(
                isinstance(node, Position | Read) for node in postorder([subscript])
            ):
                continue
            text = self.e.subscript(subscript)
            found.append(f"(u64)({text}) < (u64){self.bound(size)}")
        return found

    def spans(self, index: str, size: Polynomial) -> bool:
        """Whether an index runs over a dimension of this size from end to end."""
        return size is extent(index) or size is self.program.extent_of[index]

    def bound(self, size: Polynomial) -> str:
        """A size as C++."""
        return self.parameters.polynomial(size)

    def unit(self, tensor: Tensor, axis: int) -> bool:
        """Whether neighbours along an axis are known to lie side by side."""
        return self.parameters.stride(tensor, axis) == "1"

    def even(self, tensor: Tensor, unit: int, bytes_: int) -> str:
        """See `Parameters.even`; pieces start at lanes that are multiples of their length."""
        return self.parameters.even(tensor, unit, bytes_)

    def rows_whole(self, tensor: Tensor, unit: int) -> bool:
        """Whether aligned rows along the last axis hold whole pieces: their length is a stride."""
        rows = tensor.name not in self.parameters.strides and len(tensor.shape) > 1
        known = tensor.shape[unit].constant
        return unit == len(tensor.shape) - 1 and (rows or (known is not None and known % 8 == 0))


def value_kind(tile: Tile) -> str:
    """The C++ type of a register of a tile that is no operand."""
    return C_TYPES[value_of(tile.dtype)]


def _alike(a: Tile, b: Tile) -> bool:
    same = (a.axes, a.sizes, a.layout) == (b.axes, b.sizes, b.layout)
    return same and value_kind(a) == value_kind(b)
