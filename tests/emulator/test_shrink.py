"""A failing interleaving shrinks to its few decisions and is repeated by them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tensorc.codegen.emulator import Mode
from tensorc.codegen.emulator_report import Outcome
from tensorc.codegen.emulator_shrink import Failure, shrink
from tests.emulator.running import Array, gemm
from tests.emulator.snippets import Out, call
from tests.emulator.test_faults import ALL
from tests.requirements import need

TICKETS = """
TC_KERNEL(64, 1) test(u32* next, u32* out) {
  tc_note_role("warp", threadIdx.x >> 5);
  u32 mine = 0;
  if ((threadIdx.x & 31) == 0) mine = tc_atomic_add(next, 1);
  tc_syncwarp();
  if ((threadIdx.x & 31) == 0) out[threadIdx.x >> 5] = mine;
}
"""


def tickets(mode: Mode) -> tuple[Array, Outcome]:
    outputs, outcome = call(
        "sm_80", TICKETS, [Out((1,), np.uint32, 0), Out((2,), np.uint32)], threads=64, mode=mode
    )
    return outputs[1], outcome


def wrong_order(usual: bytes) -> Failure:
    """Nothing is reported, but the result differs from the default order's."""

    def fails(mode: Mode) -> Outcome | None:
        got, outcome = tickets(mode)
        assert outcome.clean, str(outcome)
        return outcome if got.tobytes() != usual else None

    return fails


def test_an_order_is_shrunk_to_one_decision() -> None:
    need("cxx")
    usual = tickets(Mode(follow=()))[0].tobytes()
    fails = wrong_order(usual)
    seed = next(s for s in range(40) if fails(Mode(seed=s)))
    found = shrink(fails, Mode(seed=seed))
    assert found.complete
    assert found.mode.follow is not None and len(found.mode.follow) == 1
    assert " runs instead of " in found.outcome.story[0]
    again, _ = tickets(found.mode)
    assert again.tobytes() != usual


def test_a_seed_and_its_departures_are_the_same_run() -> None:
    need("cxx")
    for seed in range(6):
        got, outcome = tickets(Mode(seed=seed, record=True))
        again, repeated = tickets(Mode(seed=seed, follow=outcome.taken, record=True))
        assert got.tobytes() == again.tobytes()
        assert repeated.steps == outcome.steps and repeated.taken == outcome.taken


def test_a_race_needs_no_decision() -> None:
    need("cxx")
    case, fault = next((c, f) for c, f in ALL if f.name == "no barrier after staging")

    def fails(mode: Mode) -> Outcome | None:
        kernel = case.kernel.faulty(fault.edits)
        outcome = gemm(kernel, (128, 256, 64), mode, blocks=1).outcome
        return None if outcome.clean else outcome

    found = shrink(fails, Mode(seed=1))
    assert found.mode.follow == ()
    assert "no decision is needed" in str(found)


def test_the_budget_ends_the_search() -> None:
    need("cxx")
    usual = tickets(Mode(follow=()))[0].tobytes()
    fails = wrong_order(usual)
    seed = next(s for s in range(40) if fails(Mode(seed=s)))
    found = shrink(fails, Mode(seed=seed), budget=3)
    assert found.launches <= 4
    assert fails(replace(found.mode)) is not None


def test_a_passing_launch_cannot_be_shrunk() -> None:
    need("cxx")
    with pytest.raises(ValueError, match="does not fail"):
        shrink(lambda mode: None, Mode(seed=5))
