"""Carry what is made of a carry from one iteration to the next, where both iterations make it.

    x[m] = max(c * r, lowest)                    carry x[m] = lowest
    r'[m] = max(r, max[n](s))             ->     r'[m] = max(r, max[n](s))
    z[m] = max(c * r', lowest)                   x'[m] = max(c * r', lowest)
    f[m] = exp2(x - z)                           f[m] = exp2(x - x')

True afterwards: no statement of a loop makes of a carry what another made of its next value before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import cast

from tensorc.ir.constants import fold
from tensorc.ir.dtypes import REAL
from tensorc.ir.node import Node, replaced
from tensorc.ir.tensor import Expr, Literal, Position, Read, Value
from tensorc.ir.tile import Carry, Each, Kernel, Let, Loop, Statement, Tile
from tensorc.ir.walk_tile import expressions, statements, tensors_in, values_in
from tensorc.passes.tiling.fold_scale import changed, with_exprs


def remember(kernel: Kernel, static: Mapping[str, int]) -> Kernel:
    """The kernel in which such values are carried; `static`: extents that are fixed."""
    for loop in [item for item in statements(kernel.body) if isinstance(item, Loop)]:
        for carry in loop.carries:
            pair = _pair(loop, carry)
            if pair is not None and isinstance(carry.start, Expr):
                made = _with_carry(loop, carry.tile.name, carry.start, *pair, static)
                body = tuple(_instead_of(kernel.body, loop, made))
                return remember(replace(kernel, body=body), static)
    return kernel


def _pair(loop: Loop, carry: Carry) -> tuple[Let, Let] | None:
    """What is made of a carry, and the same of its next value."""
    lets = [item for item in statements(loop.body) if isinstance(item, Let)]
    carried = {c.tile.name for c in loop.carries} | {f"{c.tile.name}'" for c in loop.carries}
    name = carry.tile.name
    for old in lets:
        if not _of(old, name) or old.tile.name in carried:
            continue
        wanted = _instead(old.body, name, lambda item: replace(item, tile=f"{name}'"))
        for new in lets:
            if new.body is wanted and _alike(old.tile, new.tile) and new.tile.name not in carried:
                return old, new
    return None


def _of(item: Let, name: str) -> bool:
    """Whether a statement computes, of one tile alone and lane by lane, a tile of its own."""
    plain = item.op is None and item.into is None and item.tile.space == "register"
    return plain and set(values_in([item.body])) == {name} and not tensors_in([item.body]) and (
        not any(isinstance(node, Position | Read) for node in expressions(item))
    )  # fmt: skip


def _alike(a: Tile, b: Tile) -> bool:
    return replace(a, name=b.name) is b


def _instead(expr: Expr, name: str, change: Callable[[Value], Expr]) -> Expr:
    """An expression with something in the place of a tile."""

    def there(node: Node) -> Node | None:
        return change(node) if isinstance(node, Value) and node.tile == name else None

    return cast(Expr, replaced(expr, there))


def _instead_of(body: tuple[Statement, ...], loop: Loop, made: Loop) -> Iterator[Statement]:
    """The statements with one loop in the place of another."""
    for item in body:
        if item is loop:
            yield made
        elif isinstance(item, Loop | Each):
            yield replace(item, body=tuple(_instead_of(item.body, loop, made)))
        else:
            yield item


def _with_carry(
    loop: Loop, name: str, start: Expr, old: Let, new: Let, static: Mapping[str, int]
) -> Loop:
    """The loop that carries a value, instead of making it of the carry `name`."""
    value = _instead(old.body, name, lambda _: start)
    number = fold(value, static)
    first = Carry(old.tile, Literal(number, REAL) if isinstance(number, Fraction) else value)
    following = replace(new.tile, name=f"{old.tile.name}'")

    def renamed(node: Node) -> Node | None:
        if isinstance(node, Value) and node.tile == new.tile.name:
            return replace(node, tile=following.name)
        return None

    def change(item: Statement) -> Statement | None:
        if item is old:
            return None
        return replace(new, tile=following) if item is new else with_exprs(item, renamed)

    return replace(loop, carries=(*loop.carries, first), body=tuple(changed(loop.body, change)))
