"""What level-2 statements cost: how much of what, counted from their expressions and tiles.

The amounts are those of `machine/costs.py`: results by rate, bytes, multiply-adds. A statement with
a guard is counted as it is in full blocks, where the guard is not evaluated. Functions that no
single instruction computes are counted by the instructions of their usual expansion (CUDA C++
programming guide, arithmetic instructions; `exp` is a multiplication and an `exp2`).

What does not change from one iteration to the next, and is one number a thread, is computed before
the loop and costs nothing in it. A quotient is a product with the divisor's reciprocal, which is
made once for all elements that it divides.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tensorc.ir.dtypes import DType
from tensorc.ir.functions import PROD, SUM
from tensorc.ir.node import postorder
from tensorc.ir.tensor import Apply, Cast, Expr, Select, free_indices
from tensorc.ir.tile import Frame, Let, Loop, Operand, Store, Tile
from tensorc.ir.walk_tile import constant, statements, tensors_in, values_in

Sizes = Mapping[str, int]
"""Lanes of every index in a statement; of an index that is divided, those of its part."""

_SPECIAL: Mapping[str, Mapping[str, int]] = {
    "exp2": {"exp": 1}, "log2": {"exp": 1}, "rsqrt": {"exp": 1}, "sin": {"exp": 1},
    "cos": {"exp": 1}, "tanh": {"exp": 1}, "exp": {"exp": 1, "fma": 1},
    "log": {"exp": 1, "fma": 1}, "sqrt": {"exp": 1, "fma": 1},
    "sigmoid": {"exp": 2, "fma": 2}, "pow": {"exp": 2, "fma": 1}, "erf": {"fma": 12, "exp": 1},
}  # fmt: skip
_PLAIN = frozenset(("add", "sub", "mul", "fma"))
_FREE = frozenset(("neg", "abs"))
THREADS = 128  # of a warp group
_SCALED = 3  # multiplications of a quotient, two of them keep its divisor from overflowing (SASS)


@dataclass(frozen=True)
class Turning:
    """What changes from one iteration of a loop to the next: its index, and tiles that it makes or
    carries."""

    index: str
    tiles: frozenset[str]

    def stays(self, expr: Expr) -> bool:
        """Whether the value of an expression is the same in every iteration."""
        return self.index not in free_indices(expr) and not self.tiles & values_in([expr]).keys()


def turning(loop: Loop, sizes: Sizes) -> Turning:
    """What changes in a loop. A tile of one number a thread does not if all that it is made of
    stays the same."""
    found = Turning(loop.index, frozenset(carry.tile.name for carry in loop.carries))
    for item in statements(loop.body):
        if isinstance(item, Let) and not (
            found.stays(item.body) and elements(item, sizes) <= THREADS
        ):
            found = Turning(loop.index, found.tiles | {item.tile.name})
    return found


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


def fetched(item: Let, sizes: Sizes, around: Turning) -> int:
    """Bytes that threads read from memory for a statement, of tensors at elements that change in
    the loop; what stays is at hand after the first time."""
    found = [read for read in tensors_in([item.body]) if not around.stays(read)]
    return sum(_points(read, sizes) * read.tensor.dtype.bits // 8 for read in found)


def work(item: Let | Store, sizes: Sizes, around: Turning) -> Counter[str]:
    """Results by rate that threads compute for a statement in an iteration of the loop around."""
    body = item.body if isinstance(item, Let) else item.value
    if item.edge and isinstance(body, Select):
        body = body.yes
    found = Counter[str]()
    for node in postorder([body]):
        if isinstance(node, Expr):
            found.update({} if _before(node, sizes, around) else _node(node, sizes, around))
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


def _before(node: Expr, sizes: Sizes, around: Turning) -> bool:
    """Whether a node is computed before the loop: one number a thread that stays the same."""
    return constant(node) or (_points(node, sizes) <= THREADS and around.stays(node))


def _node(node: Expr, sizes: Sizes, around: Turning) -> Mapping[str, int]:
    """What all elements of a node cost, its operands aside."""
    points = _points(node, sizes)
    match node:
        case Apply(function, (_, divisor)) if function.name == "div":
            once = 0 if _before(divisor, sizes, around) else _points(divisor, sizes)
            return {"exp": once, "fma": (1 if constant(divisor) else _SCALED) * points}
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
