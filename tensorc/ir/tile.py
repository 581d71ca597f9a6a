"""Level 2: loops over tiles. Sequential meaning; SSA over tiles.

A statement is a level-1 equation over tiles whose axes are the program's index names; a loop binds
an index to blocks of a range, so a subscript reads the same at both levels. Copying, mapping,
reducing and multiplying are not nodes: they are ways to do one statement, named by `by`.

    TileProgram(kernels)   Kernel(grid, body)   Statement = Let | Store | Loop | Each
    body expressions: the scalar nodes of level 1 (no Reduce, no Round), `Value` and `Seen`

Where the grid, a loop or `Each` binds an index, a statement works on one block of it: `Position`
is the block's base plus the lane. Any other index is whole: base 0 and enough lanes for its extent.

A lane lies inside the domain if the positions of all its axes are below their extents. Outside, a
read does not take place and gives no value (or the `fill` of the instruction, beyond the tensor's
bounds), and nothing is stored. What has no value must not reach a lane inside: a reduction takes
all lanes of its axes, save along those that its instruction walks exactly (`Use.exact`), so a
statement whose lanes outside are not neutral is guarded first, by a `select` marked `edge`.

In bounds of loops `Symbol(i, "base")`, printed `base(i)`, is the base of an enclosing block of i.

A carried tile may have the loop's own index as an axis: one running value per lane. Outside the
loops of an index its axis counts lanes and has no positions; such running values are reduced there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorc.ir.dtypes import DType
from tensorc.ir.functions import Reducer
from tensorc.ir.node import Node, node
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import Check, Declaration, Expr, Literal, Table, Tensor


@node
class Frame(Node):
    """A register tile in the accumulator layout of `atom`, rows `m` and columns `n`, restricted to
    the axes that the tile has: one without columns is held by every thread of its rows."""

    atom: str
    m: tuple[str, ...]
    n: tuple[str, ...]


@node
class Operand(Node):
    """A register tile in the layout of an operand of `atom`: rows `m` of "A", columns `m` of "B",
    along the reduction `k`."""

    atom: str
    which: str
    m: tuple[str, ...]
    k: tuple[str, ...]


@node
class Blocked(Node):
    """A register tile dealt along `axis` to `threads`, `vector` adjacent elements to each in turn;
    every lane of its other axes has threads of its own. Restricted to the axes that the tile has:
    one without `axis` is held by every thread of its lanes."""

    threads: int
    vector: int
    axis: str


@node
class Linear(Node):
    """Axes in `order`, last fastest. With a `swizzle` of s bytes the last axis is cut into panels
    of s bytes, one after another, in whose rows chunks of 16 bytes are exchanged (0: plain)."""

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
# First words of lines and columns of the text, by which no tile is named.
WORDS: frozenset[str] = frozenset(
    "kernel grid raster whole loop each store carry check lowest into once combine edge by".split()
)


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
    the instruction lie along each role, where that is more than one.

    `exact`: reduced axes along which it stops at the end of the domain; along others it takes
    whole tiles. `fill`: what a copy delivers for elements beyond the bounds of the tensor (None:
    nothing that may be used).
    """

    instruction: str
    roles: tuple[tuple[str, tuple[str, ...]], ...] = ()
    repeat: tuple[tuple[str, int], ...] = ()
    exact: tuple[str, ...] = ()
    fill: Literal | None = None


@node
class Let(Node):
    """tile = [onto op] op over `reduced` of body.

    `op` None: pointwise. `onto`: the tile that the reduction starts from. `into`: the dead tile
    whose storage this one takes. `edge`: indices of which this statement guards the outer blocks:
    its body is a `select` whose condition holds on every lane of their full blocks, where nothing
    but the first branch is emitted. The full blocks of a loop's index are stated by the loop, those
    of other indices are the ones that lie inside the extent.
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

    `combine`: None (each element is stored once), or the reducer by which stores meet in memory
    that holds its neutral element at first. `once`: grid indices that the value lacks, so that only
    their first block stores. `edge` as in a `Let`, about `value`.
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

    `start`: a constant, "lowest" (the lowest finite value of its type), or an outer tile.
    """

    tile: Tile
    start: Expr | str | Tile


@node
class Loop(Node):
    """Sequential blocks of `index`, with bases from `lower` (a multiple of `block`) below `upper`
    (at most the extent); last one first if `down`.

    `full`: the range in which a block must lie for every guard on this index to hold on each of
    its lanes. After the loop a carried tile's final value is read by the carry's own name.
    """

    index: str
    block: int
    lower: Polynomial
    upper: Polynomial
    full: tuple[Polynomial, Polynomial]
    carries: tuple[Carry, ...]
    body: tuple[Statement, ...]
    down: bool = False


@node
class Each(Node):
    """Run `body` block by block along `index` of its tiles; every statement is pointwise in it, so
    the value is that of the body alone. Tiles keep their whole size and are read after it."""

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
    are the level-1 program's. `machine` names the machine whose instructions are used. `checks`
    are the reads, as they stand in kernels, of which a subscript is compared when running (R704),
    in the order by which a failed one is known."""

    name: str
    machine: str
    parameters: tuple[Declaration, ...]
    outputs: tuple[Declaration, ...]
    workspaces: tuple[Tensor, ...]
    extents: tuple[tuple[str, Polynomial], ...]
    kernels: tuple[Kernel, ...]
    tables: tuple[Table, ...] = ()
    checks: tuple[Check, ...] = ()

    @property
    def extent_of(self) -> Mapping[str, Polynomial]:
        """The extents as a mapping."""
        return dict(self.extents)
