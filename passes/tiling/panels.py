"""Products on a CPU whose shared operand is packed, a panel of columns at a time.

    c[m, n] = sum[k](a[m, k] * b[k, n])

    loop n by 64
      c1[k, n] = b[k, n]                      k whole: one panel, in the second cache from here on
      loop m by 48
        t[m, n] = sum[k](a[m, k] * c1)        register tiles of rows, by what reduces
        store c[m, n] = t

True afterwards: what all rows of a product share is read from memory once for every panel, and
from there on lies side by side, whatever its strides do to the sets of a cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tensorc.ir.functions import SUM, accumulator
from tensorc.ir.node import postorder, replaced
from tensorc.ir.tensor import (
    Cast,
    Equation,
    Expr,
    Position,
    Read,
    Reduce,
    Round,
    Value,
    free_indices,
    value_type,
)
from tensorc.ir.tile import Kernel, Let, Statement, Store, Strided, Tile, Use
from tensorc.passes.tiling.contiguity import Along, Units, lanes_of, reads_in, rows_of, stride_class
from tensorc.passes.tiling.tile_scopes import storage
from tensorc.passes.tiling.whole_loops import peel, whole_loop

LONGEST = 4096  # elements along the sum: longer panels leave the second cache
BLOCK = 48  # rows between whose tiles the panel is read: a multiple of the rows of register tiles


@dataclass(frozen=True)
class Product:
    """An equation with a sum whose rows share what they read. `panels`: that, with neighbours along
    the columns."""

    equation: Equation
    reduce: Reduce
    rows: str
    columns: str
    panels: tuple[Read, ...]

    @property
    def summed(self) -> tuple[str, ...]:
        """The indices of the sum."""
        return self.reduce.indices

    def packs(self, static: Mapping[str, int]) -> bool:
        """Whether panels can be made: of one summed index, whose extent has to be known, and fit,
        for enough rows."""
        whole = all(isinstance(item, Position) for read in self.panels for item in read.subscripts)
        plain = whole and len(self.summed) == 1 and self.reduce.where is None
        fits = 0 < static.get(self.summed[0], 0) <= LONGEST
        return plain and fits and static.get(self.rows, 0) >= BLOCK


def product_of(equation: Equation, units: Units) -> Product | None:
    """The product that an equation is; None: it is something else."""
    body = _body(equation)
    found = {item for item in postorder([body]) if isinstance(item, Reduce)}
    if len(found) != 1:
        return None
    (reduce,) = found
    written = Read(equation.tensor, tuple(map(Position, equation.indices)))
    columns = lanes_of(equation.indices, reduce.indices, body, written, units)
    rows = rows_of(equation.indices, columns, body)
    if columns is None or rows is None or reduce.reducer is not SUM:
        return None
    along = [read for read in reads_in(reduce) if columns in free_indices(read)]
    shared = tuple(read for read in along if rows not in free_indices(read))
    near = all(stride_class(read, columns, units) is Along.NEXT for read in shared)
    return (
        Product(equation, reduce, rows, columns, shared) if shared == (*along,) and near else None
    )


def panels(
    item: Product, lanes: int, static: Mapping[str, int], taken: Iterable[str]
) -> Kernel:  # fmt: skip
    """The kernel. `lanes`: columns of a panel; `taken`: names that no tile may have."""
    names = {*taken}
    inner: list[Statement] = []
    packed: dict[Read, Value] = {}
    axes, sizes = (*item.summed, item.columns), (static[item.summed[0]], lanes)
    for number, read in enumerate(item.panels, start=1):
        dtype = storage(value_type(read))
        tile = Tile(_fresh(f"c{number}", names), axes, sizes, dtype, "memory", Strided())
        inner.append(Let(tile, None, (), read, None, None, Use("vector"), ()))
        packed[read] = Value(tile.name, tile.axes, tile.dtype)
    inner.append(whole_loop(item.rows, BLOCK, (), _rows(item, lanes, packed, names)))
    return _kernel(item, whole_loop(item.columns, lanes, (), inner))


def _rows(
    item: Product, lanes: int, packed: Mapping[Read, Value], names: set[str]
) -> tuple[Statement, ...]:
    """The sums of a block of rows, and where they go."""
    reduce = item.reduce
    dtype = accumulator(SUM, value_type(reduce.body), reduce.dtype)
    body = reduce.body if reduce.dtype is None else Cast(reduce.dtype, reduce.body)
    made = replaced(body, lambda n: packed.get(n) if isinstance(n, Read) else None)
    assert isinstance(made, Expr)
    axes, sizes = (item.rows, item.columns), (BLOCK, lanes)
    tile = Tile(_fresh("t", names), axes, sizes, dtype, "memory", Strided())
    by = Use("vector", exact=item.summed)
    total = Value(tile.name, tile.axes, tile.dtype)
    rest = replaced(_body(item.equation), lambda n: total if n is reduce else None)
    assert isinstance(rest, Expr)
    written = tuple(map(Position, item.equation.indices))
    store = Store(item.equation.tensor, written, rest, None, (), Use("vector"), ())
    return Let(tile, SUM, item.summed, made, None, None, by, ()), store


def _kernel(item: Product, loop: Statement) -> Kernel:
    for index in reversed(item.equation.indices):
        if index not in (item.rows, item.columns):
            loop = whole_loop(index, 1, (), (loop,))
    grid, statements = peel((loop,), 1)
    nodes = postorder([item.equation.body])
    reads = tuple({node.tensor: None for node in nodes if isinstance(node, Read)})
    tensor = item.equation.tensor
    return Kernel(tensor.name, reads, (tensor,), grid, statements)


def _body(equation: Equation) -> Expr:
    """What the store rounds to the type of the tensor."""
    return equation.body.arg if isinstance(equation.body, Round) else equation.body


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
