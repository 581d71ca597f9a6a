"""Conditions as limits of a column, against what they say of every column; sums in parts."""

from __future__ import annotations

import pytest

from tensorc.codegen.cuda_masks import Limit, limits
from tensorc.codegen.cuda_partial import partial_sums
from tensorc.ir.read_tile import read as read_tile
from tensorc.ir.tensor import Apply, Expr, Extent, Literal, Position, Reduce
from tensorc.ir.tile import Loop
from tensorc.lang import read

HOLDS = {
    "n <= m", "n < m + 3", "m < n + 50", "m - 9 <= n", "n <= m and m < n + 5", "n < |n| - 1",
    "2 * n - n < 7 + m", "n <= m + |n| - |m|", "m >= n", "m > n - 4",
}  # fmt: skip
OTHER = {"n == m", "(m + n) % 3 != 0", "2 * n < m", "n < m or n < 3", "n < m and n != 4", "m < 5"}
SIZES = {"m": 9, "n": 11}


def condition(text: str) -> Expr:
    """The condition of a maximum over n."""
    (found,) = read(f"op f(x: f32[m, n]) -> y: f32[m]\n  y[m] = max[n](x[m, n] where {text})\n")
    body = found.outputs and found.equations[-1].body
    assert isinstance(body, Reduce) and body.where is not None
    return body.where


def number(expr: Expr, at: dict[str, int]) -> int:
    """The value of sums and products of positions and extents."""
    match expr:
        case Position(index):
            return at[index]
        case Extent(index):
            return SIZES[index]
        case Literal(value):
            return int(value)
        case Apply(function, args):
            parts = [number(arg, at) for arg in args]
            a, b = parts[0], parts[-1]
            table = {"add": sum(parts), "sub": a - b, "mul": a * b, "neg": -a, "lt": a < b,
                     "le": a <= b, "gt": a > b, "ge": a >= b, "and": all(parts)}  # fmt: skip
            return int(table[function.name])
        case _:
            raise AssertionError(expr)


def inside(limit: Limit, n: int, at: dict[str, int]) -> bool:
    """Whether a column lies inside a limit."""
    end = number(limit.high, at) - number(limit.low, at) + limit.more
    return n < end if limit.upper else n >= end


@pytest.mark.parametrize("text", sorted(HOLDS))
def test_limits_say_what_the_condition_says(text: str) -> None:
    where = condition(text)
    found = limits(where, "n")
    assert found
    for m in range(SIZES["m"]):
        for n in range(-60, 80):
            at = {"m": m, "n": n}
            assert all(inside(one, n, at) for one in found) == bool(number(where, at)), at


@pytest.mark.parametrize("text", sorted(OTHER))
def test_other_conditions_are_no_limits(text: str) -> None:
    assert limits(condition(text), "n") is None


SUMS = """\
program f for sm_90a
index m, n
input x: f32[m, n]
output l: f32[m]

kernel l(x) -> l
  grid m by 64
  loop n by 64
    carry s[m] = {start}                          f32 register wgmma(m;)
    y[m, n] = x[m, n]                             f32 register wgmma(m; n)             by simt
    f[m] = max[n](y)                              f32 register wgmma(m;)               by simt
    u[m] = {scaled}                               f32 register wgmma(m;)               by simt
    s'[m] = u + sum[n]({body})                    f32 register wgmma(m;)               by simt
  store l[m] = s                                                                       by simt
"""


@pytest.mark.parametrize(
    ("start", "scaled", "body", "kept"),
    [
        ("0", "s * f", "y", True),
        ("0", "f * s", "y * y", True),
        ("1", "s * f", "y", False),  # every thread would add it
        ("0", "s + f", "y", False),
        ("0", "s * s", "y", False),
        ("0", "s * f", "y * u", False),
        ("0", "max(s, f)", "y", False),
    ],
)
def test_sums_in_parts(start: str, scaled: str, body: str, kept: bool) -> None:
    program = read_tile(SUMS.format(start=start, scaled=scaled, body=body))
    (loop,) = (item for item in program.kernels[0].body if isinstance(item, Loop))
    assert partial_sums(loop) == (frozenset("s") if kept else frozenset())
