"""Every invariant of level 2 has a program that breaks it, and only it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from tensorc.ir.dtypes import F32, INTEGER
from tensorc.ir.functions import FUNCTIONS, SUM
from tensorc.ir.polynomial import extent, polynomial
from tensorc.ir.tensor import (
    Apply,
    Declaration,
    Expr,
    Extent,
    Literal,
    Position,
    Read,
    Select,
    Tensor,
    Value,
)
from tensorc.ir.tile import (
    Block,
    Carry,
    Kernel,
    Let,
    Loop,
    Statement,
    Store,
    Strided,
    Tile,
    TileProgram,
    Use,
)
from tensorc.ir.verify_tile import verify

VECTOR = Use("vector")
ZERO = Literal(Fraction(0), INTEGER)
A = Tensor("a", F32, (extent("m"), extent("k")))
Y = Tensor("y", F32, (extent("m"),))


def tile(name: str, axes: tuple[str, ...] = (), size: int = 16) -> Tile:
    return Tile(name, axes, (size,) * len(axes), F32, "register", Strided())


def value(item: Tile) -> Value:
    return Value(item.name, item.axes, item.dtype)


def let(item: Tile, body: Expr, edge: tuple[str, ...] = ()) -> Let:
    return Let(item, None, (), body, None, None, VECTOR, edge)


def row_sum(
    body: tuple[Statement, ...] | None = None, after: tuple[Statement, ...] | None = None
) -> TileProgram:
    """y[m] = sum[k](a[m, k]) with 16 running sums."""
    s, x, r = tile("s", ("k",)), tile("x", ("k",)), tile("r")
    inside = Apply(FUNCTIONS["lt"], (Position("k"), Extent("k")))
    guarded = Select(inside, Read(A, (Position("m"), Position("k"))), ZERO)
    step = let(tile("s'", ("k",)), Apply(FUNCTIONS["add"], (value(s), value(x))))
    default = (let(x, guarded, ("k",)), step)
    size = extent("k")
    loop = Loop(
        "k", 16, polynomial(0), size, (polynomial(0), size // 16 * 16), (Carry(s, ZERO),),
        default if body is None else body,
    )  # fmt: skip
    total = Let(r, SUM, ("k",), value(s), None, None, VECTOR, ())
    store = Store(Y, (Position("m"),), value(r), None, (), VECTOR, ())
    kernel = Kernel(
        "y", (A,), (Y,), (Block("m", 1),), (loop, *((total, store) if after is None else after))
    )
    return TileProgram(
        "row_sum", "avx512", (Declaration(A, ("m", "k")),), (Declaration(Y, ("m",)),), (),
        (("m", extent("m")), ("k", extent("k"))), (kernel,),
    )  # fmt: skip


def test_lanes_carried_through_a_loop_are_right() -> None:
    assert verify(row_sum()) == []


def test_a_carry_must_be_continued() -> None:
    assert verify(row_sum(body=())) == ["y: T10: loop k: carry s is not continued as s'"]


def test_an_output_must_be_stored() -> None:
    program = row_sum()
    (kernel,) = program.kernels
    empty = replace(kernel, writes=(), body=kernel.body[:-1])
    assert verify(replace(program, kernels=(empty,))) == ["T3: no kernel stores y"]


def test_lanes_have_no_position_after_their_loop() -> None:
    r = tile("r")
    wrong = Apply(FUNCTIONS["mul"], (value(tile("s", ("k",))), Position("k")))
    total = Let(r, SUM, ("k",), wrong, None, None, VECTOR, ())
    store = Store(Y, (Position("m"),), value(r), None, (), VECTOR, ())
    assert verify(row_sum(after=(total, store))) == [
        "y: T13: r[]: outside its loop, k counts lanes and has no position"
    ]
