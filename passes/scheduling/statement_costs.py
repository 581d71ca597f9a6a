"""What level-2 statements cost: how much of what, counted from their expressions and tiles.

The amounts are those of `machine/costs.py`: results by rate, bytes, multiply-adds. A statement with
a guard is counted as it is in full blocks, where the guard is not evaluated. Functions that no
single instruction computes are counted by the instructions of their usual expansion (CUDA C++
programming guide, arithmetic instructions; `exp` is a multiplication and an `exp2`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from tensorc.ir.dtypes import DType
from tensorc.ir.functions import PROD, SUM
from tensorc.ir.node import postorder
from tensorc.ir.tensor import Apply, Cast, Expr, Select, free_indices
from tensorc.ir.tile import Frame, Let, Operand, Store, Tile
from tensorc.ir.walk_tile import constant, tensors_in, values_in

Sizes = Mapping[str, int]
"""Lanes of every index in a statement; of an index that is divided, those of its part."""

_SPECIAL: Mapping[str, Mapping[str, int]] = {
    "exp2": {"exp": 1}, "log2": {"exp": 1}, "rsqrt": {"exp": 1}, "sin": {"exp": 1},
    "cos": {"exp": 1}, "tanh": {"exp": 1}, "exp": {"exp": 1, "fma": 1},
    "log": {"exp": 1, "fma": 1}, "sqrt": {"exp": 1, "fma": 1}, "div": {"exp": 1, "fma": 1},
    "sigmoid": {"exp": 2, "fma": 2}, "pow": {"exp": 2, "fma": 1}, "erf": {"fma": 12, "exp": 1},
}  # fmt: skip
_PLAIN = frozenset(("add", "sub", "mul", "fma"))
_FREE = frozenset(("neg", "abs"))


def lanes(tile: Tile, sizes: Sizes) -> int:
    """Elements of the part of a tile."""
    return math.prod(min(n, sizes[axis]) for axis, n in zip(tile.axes, tile.sizes, strict=True))


def size_in_bytes(tile: Tile, sizes: Sizes) -> int:
    """Bytes of the part of a tile."""
    return lanes(tile, sizes) * tile.dtype.bits // 8


def registers(tile: Tile, sizes: Sizes, threads: int = 128) -> int:
    """32-bit registers that each of `threads` threads has for the part of a tile.

    Layouts are those of `machine/fragments.py`: a row of accumulators is held by four threads,
    which hold alike what has no columns; a column by eight.
    """
    count, words = lanes(tile, sizes), max(1, tile.dtype.bits / 32)
    match tile.layout:
        case Frame(_, m, n) if set(tile.axes) <= set(m):
            return max(1, math.ceil(count * 4 * words / threads))
        case Frame(_, _, n) if set(tile.axes) <= set(n):
            return max(1, math.ceil(count / 4 * words))
        case Frame() | Operand():
            return max(1, math.ceil(count * tile.dtype.bits / 32 / threads))
        case _:
            return max(1, math.ceil(count * words / threads))


def products(let: Let, sizes: Sizes) -> int:
    """Multiply-adds of a product: its tile's lanes times those of what it reduces."""
    return lanes(let.tile, sizes) * math.prod(sizes[axis] for axis in let.reduced)


def elements(item: Let | Store, sizes: Sizes) -> int:
    """How many elements a statement computes, before it reduces."""
    if isinstance(item, Let):
        body = _points(item.body, sizes) if item.op is not None else 0
        return max(lanes(item.tile, sizes), body)
    return _points(item.value, sizes)


def fetched(item: Let, index: str, sizes: Sizes) -> int:
    """Bytes that threads read from memory for a statement, of tensors at elements that change with
    `index`; what stays is at hand after the first time."""
    found = [read for read in tensors_in([item.body]) if index in free_indices(read)]
    return sum(_points(read, sizes) * read.tensor.dtype.bits // 8 for read in found)


def work(item: Let | Store, sizes: Sizes) -> Counter[str]:
    """Results by rate that threads compute for a statement."""
    body = item.body if isinstance(item, Let) else item.value
    if item.edge and isinstance(body, Select):
        body = body.yes
    found = Counter[str]()
    for node in postorder([body]):
        if isinstance(node, Expr) and not constant(node):
            found.update(_node(node, _points(node, sizes)))
    if isinstance(item, Let) and item.op is not None:
        found["fma" if item.op in (SUM, PROD) else "alu"] += _points(body, sizes)
    stored = item.tile.dtype if isinstance(item, Let) else item.tensor.dtype
    if any(value.dtype is not stored for value in values_in([body]).values()):
        found["convert"] += _converted(stored, _points(body, sizes))
    return +found


def _points(expr: Expr, sizes: Sizes) -> int:
    """Elements of an expression: one for each lane of its indices and of the tiles it reads."""
    axes = {axis for value in values_in([expr]).values() for axis in value.axes}
    return math.prod(sizes.get(axis, 1) for axis in axes | free_indices(expr))


def _node(node: Expr, points: int) -> Mapping[str, int]:
    """What `points` elements of a node cost, its operands aside."""
    match node:
        case Select():
            return {"alu": points}
        case Cast(dtype, _):
            return {"convert": _converted(dtype, points)}
        case Apply(function, args):
            each = _SPECIAL.get(function.name) or _plain(function.name, args)
            return {rate: count * points for rate, count in each.items()}
        case _:
            return {}


def _plain(name: str, args: tuple[Expr, ...]) -> Mapping[str, int]:
    """Arithmetic and comparisons of one element; a sum takes one product along (fused)."""
    if name in _FREE:
        return {}
    count = max(1, len(args) - 1)
    if name in ("add", "sub") and any(_product(arg) for arg in args):
        count -= 1
    return {"fma" if name in _PLAIN else "alu": count}


def _product(expr: Expr) -> bool:
    return isinstance(expr, Apply) and expr.function.name == "mul" and not constant(expr)


def _converted(dtype: DType, count: int) -> int:
    """Conversions to a narrow float: 16-bit ones two at a time."""
    if not dtype.floating or dtype.bits >= 32:
        return 0
    return -(-count // 2) if dtype.bits == 16 else count
