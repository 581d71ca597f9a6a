"""Waits on units that nothing needs go, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.problems.hopper import gated_linear_attention
from tensorc.ir.channel import Kernel, Perform, Wait, statements
from tensorc.machine.product import load_product
from tensorc.passes.pipelining.channels import channels, with_all_waits
from tensorc.passes.pipelining.check_protocol import check_protocol
from tensorc.passes.pipelining.drop_waits import drop_waits
from tensorc.passes.scheduling.schedule import JIT, schedule
from tests.channel import hopper


def waits(kernel: Kernel) -> int:
    return sum(isinstance(item, Wait) for role in kernel.roles for item in statements(role))


def with_more(kernel: Kernel) -> Kernel:
    """The kernel with a wait for most of what is in flight before every wait of a steady state."""
    roles = tuple(
        replace(
            role,
            steady=tuple(
                each
                for item in role.steady
                for each in ([Wait(item.unit, 3), item] if isinstance(item, Wait) else [item])
            ),
        )
        for role in kernel.roles
    )
    return replace(kernel, roles=roles)


@pytest.mark.parametrize("made", [hopper.gemm(), hopper.attention()], ids=["gemm", "attention"])
def test_a_wait_that_another_covers_goes(made: Kernel) -> None:
    more = with_more(made)
    assert waits(more) > waits(made) > 0
    assert drop_waits(more) == made
    assert drop_waits(made) is made or drop_waits(made) == made


def test_what_is_left_of_a_longer_loop_is_right() -> None:
    problem = gated_linear_attention(load_product("h100"))
    found = schedule(problem, JIT)
    before, after = with_all_waits(problem, found), channels(problem, found)
    assert waits(after) <= waits(before)
    assert check_protocol(after).outcome == "PASS"
    kept = [[i for i in statements(role) if isinstance(i, Perform)] for role in after.roles]
    assert kept == [[i for i in statements(r) if isinstance(i, Perform)] for r in before.roles]


def test_a_role_that_is_wrong_already_stays_as_it_is() -> None:
    made = hopper.gemm()
    role = made.roles[1]
    wrong = replace(role, steady=tuple(i for i in role.steady if not isinstance(i, Wait)))
    broken = replace(made, roles=(made.roles[0], wrong, *made.roles[2:]))
    assert drop_waits(broken).roles[1] == wrong
