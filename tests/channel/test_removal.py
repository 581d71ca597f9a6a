"""Each synchronising statement taken out in turn, also exchanged with the next: all decided.

Removal must be refused: nothing in the programs is superfluous. An exchange may be harmless; then
random interleavings must agree. The reduced exploration must say what the thorough one says.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from benchmarks.protocol_faults import load
from tensorc.ir.channel import Kernel, Perform, Put, Role, Statement, When
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

Body = tuple[Statement, ...]


def removals(body: Body) -> Iterator[tuple[str, Body]]:
    """`body` without one synchronising statement, and what is missing."""
    for k, item in enumerate(body):
        if isinstance(item, When):
            for what, inner in removals(item.body):
                yield what, (*body[:k], replace(item, body=inner), *body[k + 1 :])
        elif not isinstance(item, Perform | Put):
            yield str(item), (*body[:k], *body[k + 1 :])


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


Change = Callable[[Body], Iterator[tuple[str, Body]]]


def changed(kernel: Kernel, change: Change) -> Iterator[tuple[str, Kernel]]:
    """The kernel with one change in one section of one role."""
    for r, role in enumerate(kernel.roles):
        for section, body in _sections(role):
            for what, new in change(body):
                roles = (*kernel.roles[:r], replace(role, **{section: new}), *kernel.roles[r + 1 :])
                yield f"{role.name}, {section}: {what}", replace(kernel, roles=roles)


def _sections(role: Role) -> Iterator[tuple[str, Body]]:
    yield "prologue", role.prologue
    yield "steady", role.steady
    yield "epilogue", role.epilogue


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
