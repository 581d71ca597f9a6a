"""Roles that run one program on different names are found, with the names."""

from __future__ import annotations

import pytest

from benchmarks.protocol_faults import load
from tensorc.ir.channel import Kernel
from tensorc.ir.channel_twins import Family, alike, families
from tensorc.ir.read_channel import read_channel
from tests.channel import hopper


def test_the_consumers_of_attention_are_one_program() -> None:
    load_role, consumers = families(load("attention"))
    assert load_role == Family(("load",), ())
    assert consumers.roles == ("consumer0", "consumer1")
    names = {row[0]: row[1] for row in consumers.names}
    assert names["go0"] == "go1" and names["go1"] == "go0"
    assert names["a.0"] == "a.1" and names["values.0()"] == "values.1()"
    assert "K" not in names and "start()" not in names


@pytest.mark.parametrize("kernel", [hopper.gemm(), hopper.attention()], ids=["gemm", "attention"])
def test_lowered_consumers_are_one_program(kernel: Kernel) -> None:
    """Also when one consumer works half a period after the other."""
    assert [family.roles for family in families(kernel)] == [("load",), ("consumer0", "consumer1")]


def _roles(steady0: str, steady1: str) -> Kernel:
    text = "kernel k for m\n"
    for k, steady in enumerate((steady0, steady1)):
        body = "\n".join(f"      {line}" for line in steady.split("; "))
        text += f"  role r{k}: 4 warps, 40 registers\n    steady i from 0\n{body}\n"
    return read_channel(text)


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("x[i] = f()", "y[i] = g()", True),
        ("x[i] = f(); z[i] = f(x[i])", "y[i] = g(); w[i] = g(y[i])", True),
        ("x[i] = f(); z[i] = f(x[i])", "y[i] = g(); w[i] = h(y[i])", False),
        ("x[i] = f(); z[i] = g()", "y[i] = f(); y[i] = g()", False),
        ("x[i] = f(); x[i] = g()", "y[i] = f(); z[i] = g()", False),
        ("x[i] = f()", "y[i - 1] = g()", False),
        ("x[i] = f()", "y[i] = g() in flight on mma", False),
        ("get A[i]", "done A[i]", False),
        ("get A[i]; get A[i - 1]", "get B[i]; get B[i - 1]", True),
        ("turn g; pass h", "turn h; pass g", True),
        ("wait 1 on u", "wait 2 on u", False),
        ("x[i] = f()", "y[i] = g(); z[i] = g()", False),
    ],
)
def test_alike_means_the_same_but_for_names(one: str, two: str, same: bool) -> None:
    kernel = _roles(one, two)
    assert (alike(*kernel.roles) is not None) == same
