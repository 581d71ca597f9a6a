"""Level 2: loops over tiles. Sequential meaning; SSA over tiles.

A statement is a level-1 equation over tiles whose axes are the program's index names; a loop binds
an index to blocks of a range, so a subscript reads the same at both levels. Copying, mapping,
reducing and multiplying are not nodes: they are ways to do one statement, named by `by`.

    Program(kernels)   Kernel(grid, body)   Statement = Let | Store | Loop | Each
    body expressions: the scalar nodes of level 1 (no Reduce, no Round), `Value` and `Seen`

Inside a loop over i an index means base + lane. A carried tile may have the loop's own index as an
axis: one running value per lane, to be reduced over that axis after the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorc.ir.dtypes import DType
from tensorc.ir.functions import Reducer
from tensorc.ir.node import Node, node
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import Declaration, Expr, Literal, Table, Tensor


@node
class Frame(Node):
    """A register tile in the accumulator layout of `atom`, rows `m` and columns `n`; restricted
    to the axes that the tile has."""

    atom: str
    m: tuple[str, ...]
    n: tuple[str, ...]


@node
class Operand(Node):
    """A register tile in the first-operand layout of `atom`."""

    atom: str
    m: tuple[str, ...]
    k: tuple[str, ...]


@node
class Blocked(Node):
    """Elements dealt to `threads`, `vector` adjacent ones of the last axis to each."""

    threads: int
    vector: int


@node
class Linear(Node):
    """Axes in `order`, last fastest; `swizzle` is the span in bytes (0: none)."""

    order: tuple[str, ...]
    swizzle: int


@node
class Panel(Node):
    """Packed into panels of `width` along `axis`, all other axes outside."""

    axis: str
    width: int


@node
class Strided(Node):
    """In place, with the strides of the tensor it comes from; or plain row-major storage."""


Layout = Frame | Operand | Blocked | Linear | Panel | Strided

SPACES: tuple[str, ...] = ("global", "shared", "register", "tensor", "packed", "memory")


@node
class Tile(Node):
    """A tile: `sizes[i]` lanes along the index `axes[i]`; a size may exceed the extent."""

    name: str
    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    dtype: DType
    space: str
    layout: Layout

    def __post_init__(self) -> None:
        if len(self.axes) != len(self.sizes) or len(set(self.axes)) != len(self.axes):
            raise ValueError(f"tile {self.name}: axes {self.axes}, sizes {self.sizes}")


@node
class Use(Node):
    """The instruction that does a statement: which axes play which role, and how many atoms of
    the instruction lie along each role."""

    instruction: str
    roles: tuple[tuple[str, tuple[str, ...]], ...] = ()
    repeat: tuple[tuple[str, int], ...] = ()


@node
class Let(Node):
    """tile = [onto op] op over `reduced` of body.

    `op` None: pointwise. `onto`: the tile that the reduction starts from. `into`: the dead tile
    whose storage this one takes. `edge`: indices for which this statement guards the last block;
    it is the identity in every full block.
    """

    tile: Tile
    op: Reducer | None
    reduced: tuple[str, ...]
    body: Expr
    onto: Tile | None
    into: Tile | None
    by: Use
    edge: tuple[str, ...]


@node
class Store(Node):
    """tensor[subscripts] = value, for lanes inside the domain only.

    `combine`: None, or the reducer with which concurrent stores meet. `once`: grid indices that
    the value lacks, so that only their first block stores.
    """

    tensor: Tensor
    subscripts: tuple[Expr, ...]
    value: Expr
    combine: Reducer | None
    once: tuple[str, ...]
    by: Use
    edge: tuple[str, ...]


@node
class Carry(Node):
    """A tile that lives through a loop: starts as `start`, continues as the tile named `name'`.

    `start`: a literal, "lowest" (the lowest finite value of its type), or an outer tile.
    """

    tile: Tile
    start: Literal | str | Tile


@node
class Loop(Node):
    """Sequential blocks of `index` from `lower` (a multiple of `block`) up to `upper`.

    `full`: the range of bases (in index units) in which every mask and edge holds on every lane.
    After the loop a carried tile's final value is read by the carry's own name.
    """

    index: str
    block: int
    lower: Polynomial
    upper: Polynomial
    full: tuple[Polynomial, Polynomial]
    carries: tuple[Carry, ...]
    body: tuple[Statement, ...]


@node
class Each(Node):
    """Run `body` block by block along `index` of the tiles; every statement is pointwise in it."""

    index: str
    block: int
    body: tuple[Statement, ...]


Statement = Let | Store | Loop | Each  # the closed union


@node
class Block(Node):
    """A grid index, `size` lanes to a block."""

    index: str
    size: int


@dataclass(frozen=True)
class Kernel:
    """One kernel: parameters and results are tensors in memory; `raster` is the visiting order of
    the grid ("" row-major) and has no meaning."""

    name: str
    reads: tuple[Tensor, ...]
    writes: tuple[Tensor, ...]
    grid: tuple[Block, ...]
    body: tuple[Statement, ...]
    raster: str = ""


@dataclass(frozen=True)
class TileProgram:
    """Kernels in order; they talk through `workspaces`. Parameters, outputs, extents and tables
    are the level-1 program's. `machine` names the machine file whose instructions are used."""

    name: str
    machine: str
    parameters: tuple[Declaration, ...]
    outputs: tuple[Declaration, ...]
    workspaces: tuple[Tensor, ...]
    extents: tuple[tuple[str, Polynomial], ...]
    kernels: tuple[Kernel, ...]
    tables: tuple[Table, ...] = ()

    @property
    def extent_of(self) -> Mapping[str, Polynomial]:
        """The extents as a mapping."""
        return dict(self.extents)
