"""Emitted index arithmetic has the values of the tables it is made from."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable

import numpy as np
import pytest

from tensorc.codegen.cuda_fragments import LANE, Blocks, column, named, row
from tensorc.codegen.cuda_index import Index
from tensorc.codegen.cuda_shared import place
from tensorc.ir.dtypes import F16
from tensorc.ir.placement import Placement
from tensorc.ir.tile import Linear, Tile
from tensorc.machine.fragments import fragment, offset

OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b, ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a // b, ast.Mod: lambda a, b: a % b,
}  # fmt: skip


def value(index: Index | str, **names: int) -> int:
    """The value of a text of C++ whose numbers are all at least 0."""

    def of(node: ast.expr) -> int:
        match node:
            case ast.BinOp(left, op, right):
                return OPERATORS[type(op)](of(left), of(right))
            case ast.Constant(int(number)):
                return number
            case ast.Name(name):
                return names[name]
            case _:
                raise AssertionError(ast.dump(node))

    return of(ast.parse(str(index), mode="eval").body)


@pytest.mark.parametrize("divisor", [1, 2, 3, 8, 12, 32, 100])
def test_division_and_rest(divisor: int) -> None:
    u, v = Index.of("u", 7), Index.of("v", 32)
    for index in (u, v, 4 * u + v, 32 * u + v, 6 * v + 5, 12 * u + 3 * v + 40):
        for a, b in itertools.product(range(7), range(32)):
            number = value(index, u=a, v=b)
            assert value(index // divisor, u=a, v=b) == number // divisor
            assert value(index % divisor, u=a, v=b) == number % divisor
        assert index.top == value(index, u=6, v=31)


def test_ranges_remove_what_is_always_so() -> None:
    assert str(LANE // 32 * 16 + LANE % 32 // 4) == "(lane / 4)"
    assert str((4 * LANE + 3) // 4) == "lane"
    assert str(Index.of("one", 1) * 5) == "0"


def test_accumulators_lie_where_the_table_says() -> None:
    rows, columns = fragment("m16n8").coordinates()
    one = Placement(1, 1, 2)
    for lane, reg in itertools.product(range(32), range(4)):
        assert value(row(Blocks(1, 1), one), lane=lane, reg=reg) == rows[lane, reg]
        assert value(column(Blocks(1, 1), one), lane=lane, reg=reg) == columns[lane, reg]


@pytest.mark.parametrize("which", ["A", "B"])
def test_ldmatrix_delivers_the_operand(which: str) -> None:
    """Lane 8 i + r names row r of matrix i; lane l then holds elements 2 (l % 4) and the next one
    of row l / 4 of matrix i in register i."""
    rows, along = fragment("m16n8", which).coordinates()
    first, second = named(which, transposed=False)
    for lane, matrix, part in itertools.product(range(32), range(4), range(2)):
        asked = 8 * matrix + lane // 4
        at = (value(first, lane=asked), value(second, lane=asked) + 2 * (lane % 4) + part)
        block, word = (0, matrix) if which == "A" else divmod(matrix, 2)
        register = 2 * word + part
        assert at == (rows[lane, register] + 8 * block, along[lane, register])


@pytest.mark.parametrize("span", [0, 32, 64, 128])
def test_swizzled_places(span: int) -> None:
    """`tct_byte`, read as Python, is the table's offset."""
    rows, columns = 24, 128

    def tct_byte(row: int, byte: int) -> int:
        piece = byte % span // 16 ^ (row * span // 128 & (span // 16 - 1))
        return byte // span * (rows * span) + row * span + piece * 16 + byte % 16

    tile = Tile("t", ("m", "k"), (rows, columns), F16, "shared", Linear(("m", "k"), span))
    text = place(tile, {"m": Index.of("u", rows), "k": Index.of("v", columns)})
    call = re.fullmatch(rf"tct_byte<{rows}, {span}>\((.*), (.*)\)", text)
    for u, v in itertools.product(range(rows), range(0, columns, 5)):
        args = [value(part, u=u, v=v) for part in (call.groups() if call else [text])]
        found = tct_byte(*args) if call else args[0]
        assert found == int(offset((np.array(u), np.array(v)), (rows, columns), 2, span))
