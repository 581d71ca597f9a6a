"""Roles that are alike are one source: which are, and what differs between them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tensorc.codegen.cuda_alike import part_of, plain, steps, teams
from tensorc.ir.channel import Body, Kernel, Pass, Turn, Window
from tensorc.ir.node import Node, replaced
from tests.scheduling.texts import pipelined


def names(made: Kernel) -> list[list[str]]:
    return [[role.name for role in team] for team in teams(made)]


def changed(made: Kernel, before: Node, after: Node) -> Kernel:
    """The kernel with one node in the place of another."""
    found = replaced(made, lambda node: after if node is before else None)
    assert isinstance(found, Kernel) and found is not made
    return found


@pytest.mark.parametrize("name", ["gemm", "staged", "attention_sm90"])
def test_consumers_are_a_team(name: str) -> None:
    made = pipelined(name)
    assert names(made) == [["load"], ["consumer0", "consumer1"]]
    assert steps(made, teams(made)[1]) == {"m": 64}
    assert [part_of(role) for role in made.roles] == [None, 0, 1]


def test_numbers_of_parts_are_not_shown() -> None:
    role = pipelined("attention_sm90").roles[2]
    text = "s.1[i - 1], r.1[i] = r.1(t.1[T - 1], r.1[i - 2])"
    assert plain(text, role) == "s[i - 1], r[i] = r(t[T - 1], r[i - 2])"
    assert plain("a.1~[i] into a.1 = u.1(x.1[i])", role) == "a~[i] into a = u(x[i])"
    assert plain("s.10[i] = s.0[i]", role) == "s.10[i] = s.0[i]"


def test_other_lanes_part_them() -> None:
    made = pipelined("gemm")
    body = next(item for item in made.bodies if item.operation == "c.1")
    (window,) = body.windows
    for other in (Window(window.index, window.first, 32), Window(window.index, 32, window.count)):
        moved = changed(made, body, replace(body, windows=(other,)))
        assert names(moved) == [["load"], ["consumer0"], ["consumer1"]]
    fewer = next(item for item in made.bodies if item.operation == "store.o.1")
    alone = Body(fewer.operation, fewer.statements[:0], fewer.windows)
    assert names(changed(made, fewer, alone)) == [["load"], ["consumer0"], ["consumer1"]]


def test_tokens_that_go_elsewhere_part_them() -> None:
    made = pipelined("gemm")
    for kind in (Turn, Pass):
        swapped = changed(made, kind("mma.consumer0"), kind("mma.consumer1"))
        assert names(swapped) == [["load"], ["consumer0"], ["consumer1"]]
