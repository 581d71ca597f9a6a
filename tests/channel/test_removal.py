"""Each synchronising statement taken out in turn, also exchanged with the next: all decided.

Removal must be refused: nothing in the programs is superfluous. An exchange may be harmless; then
random interleavings must agree. The reduced exploration must say what the thorough one says.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.protocol_faults import load
from benchmarks.removal import Body, changed, from_level_3, removals, switched
from tensorc.ir.channel import Perform, When
from tensorc.ir.interpret_channel import check_run
from tensorc.passes.pipelining.channels import channels
from tensorc.passes.pipelining.check_protocol import check_protocol, explore_protocol
from tests.channel import hopper
from tests.channel.loops import random_loop, schedule_of
from tests.channel.profile import CAMPAIGN

PROGRAMS = {
    "gemm": load("gemm"),
    "attention": load("attention"),
    "balanced": load("balanced"),
    "lowered gemm": hopper.gemm(),
    "lowered attention": hopper.attention(),
}


def exchanges(body: Body) -> Iterator[tuple[str, Body]]:
    """`body` with two neighbours exchanged, at least one of which synchronises."""
    for k, item in enumerate(body):
        if isinstance(item, When):
            for what, inner in exchanges(item.body):
                yield what, (*body[:k], replace(item, body=inner), *body[k + 1 :])
        elif k + 1 < len(body):
            other = body[k + 1]
            if not isinstance(other, When) and not (
                isinstance(item, Perform) and isinstance(other, Perform)
            ):
                yield f"{item} and {other}", (*body[:k], other, item, *body[k + 2 :])


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_nothing_is_superfluous(name: str) -> None:
    for number, (what, without) in enumerate(changed(PROGRAMS[name], removals)):
        if not CAMPAIGN and number % 2:
            continue
        assert check_protocol(without).outcome == "FAIL", what


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_exchanges_are_refused_or_harmless(name: str) -> None:
    for number, (what, other) in enumerate(changed(PROGRAMS[name], exchanges)):
        if not CAMPAIGN and number % 12:
            continue
        verdict = check_protocol(other)
        assert verdict.outcome in ("PASS", "FAIL"), what
        for trips in ([0], [1], [2], [4]) if verdict.outcome == "PASS" else ():
            for seed in range(30 if CAMPAIGN else 4):
                run = check_run(other, trips, seed)
                assert run.fault is None, f"{what}\n{run}"


@pytest.mark.parametrize("seed", range(40 if CAMPAIGN else 4))
def test_changed_loops_are_judged_as_they_run(seed: int) -> None:
    """Passed mutants of random loops have no fault in any run, refused ones have, in some run."""
    problem, roles, ii, delays = random_loop(seed)
    kernel = channels(problem, schedule_of(problem, roles, ii, delays))
    mutants = [*changed(kernel, removals), *changed(kernel, exchanges)]
    chosen = random.Random(seed).sample(mutants, min(25 if CAMPAIGN else 10, len(mutants)))
    for what, mutant in chosen:
        verdict = check_protocol(mutant)
        if verdict.outcome == "PASS":
            runs = (check_run(mutant, [t], s) for t in (0, 1, 2, 4) for s in range(6))
            assert all(run.fault is None for run in runs), what
        elif verdict.rule.startswith("P"):
            runs = (check_run(mutant, [t], s) for t in (1, 2, 4, 7) for s in range(25))
            assert any(run.fault for run in runs), what


@pytest.mark.parametrize("name", ["attention", "balanced"])
def test_the_reduced_exploration_agrees_with_the_thorough_one(name: str) -> None:
    """On programs with a statement missing or misplaced, taken without their invariants."""
    both = [*changed(PROGRAMS[name], removals), *changed(PROGRAMS[name], exchanges)]
    for what, kernel in both[:: 4 if CAMPAIGN else 16]:
        reduced = explore_protocol(kernel, 20_000)
        full = explore_protocol(kernel, 20_000, thorough=True)
        if "UNDECIDED" not in (reduced.outcome, full.outcome):
            assert reduced.outcome == full.outcome, what


def test_what_becomes_of_removals_is_counted() -> None:
    tally = from_level_3("gemm", PROGRAMS["gemm"], 4)
    assert tally.count == len(list(changed(PROGRAMS["gemm"], removals))) > 10
    assert sum(tally.refused.values()) == tally.count
    assert tally.superfluous == tally.missed == ()


def test_every_synchronising_line_of_a_source_gets_a_switch() -> None:
    source = (Path(__file__).parents[1] / "golden" / "roles" / "gemm_sm90a.cu").read_text()
    text, lines = switched(source)
    calls = [call for line in lines for call in re.findall(r"\btc_\w+", line)]
    for call in ("tc_mbar_wait", "tc_bar_sync", "tc_bar_arrive", "tc_wgmma_wait", "tc_wgmma_fence"):
        assert calls.count(call) == source.count(f"{call}(") + source.count(f"{call}<")
    assert all(f"TC_DROPPED != {n})" in text for n in range(len(lines)))
    assert any("done " in line and "mbar_arrive(" in line for line in lines)
