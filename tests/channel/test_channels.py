"""Lowering a schedule: every operation once, in the schedule's order, for every trip count."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tensorc.ir.channel import BUILTIN, Kernel, Perform, Put, iteration, unfold
from tensorc.ir.interpret_channel import Run, check_run
from tensorc.ir.print_channel import print_channel
from tensorc.ir.read_channel import read_channel
from tensorc.ir.schedule import LoopProblem, Schedule, UnitOrder, operation_of, placement_of, start
from tensorc.ir.term import Term
from tensorc.ir.verify_channel import verify_channel
from tensorc.ir.verify_schedule import verify_problem
from tensorc.passes.pipelining import channel_turns
from tensorc.passes.pipelining.channels import channels
from tensorc.passes.pipelining.check_protocol import check_protocol
from tests.channel import hopper
from tests.channel.loops import random_loop, schedule_of
from tests.channel.profile import CAMPAIGN
from tests.conftest import Golden

Lowered = tuple[LoopProblem, Schedule, Kernel]
LOOPS = range(500 if CAMPAIGN else 40)
HOPPER: dict[str, Lowered] = {
    "gemm": (*hopper.gemm_schedule(), hopper.gemm()),
    "attention": (*hopper.attention_schedule(), hopper.attention()),
}


def lowered(seed: int) -> Lowered:
    problem, roles, ii, delays = random_loop(seed)
    assert verify_problem(problem) == []
    schedule = schedule_of(problem, roles, ii, delays)
    return problem, schedule, channels(problem, schedule)


@pytest.mark.parametrize("name", list(HOPPER))
def test_the_text_is_the_reviewed_one(name: str, golden: Golden) -> None:
    golden(f"{name}.txt", print_channel(HOPPER[name][2]))


@pytest.mark.parametrize("name", list(HOPPER))
def test_gemm_and_attention_are_right(name: str) -> None:
    problem, schedule, kernel = HOPPER[name]
    _well(kernel)
    _in_order(problem, schedule, kernel)
    for trips in ([0], [1], [2], [3], [5], [0, 1, 3], [1, 1, 1]):
        for seed in range(20 if CAMPAIGN else 3):
            run = check_run(kernel, trips, seed)
            assert run.fault is None, str(run)
            for tile, count in enumerate(trips):
                _as_the_loop_says(problem, run, tile, count, {"t.0": "load_q", "t.1": "load_q"})


@pytest.mark.parametrize("seed", LOOPS)
def test_random_loops_are_right(seed: int) -> None:
    problem, schedule, kernel = lowered(seed)
    _well(kernel)
    _in_order(problem, schedule, kernel)
    for trips in (0, 1, 2, 3, 6):
        run = check_run(kernel, [trips], seed + trips)
        assert run.fault is None, str(run)
        _as_the_loop_says(problem, run, 0, trips, {})
        assert list(_early(problem, schedule, run, trips)) == []


def _well(kernel: Kernel) -> None:
    assert verify_channel(kernel) == []
    assert read_channel(print_channel(kernel)) is kernel
    verdict = check_protocol(kernel)
    assert verdict.outcome == "PASS", str(verdict)


def _in_order(problem: LoopProblem, schedule: Schedule, kernel: Kernel) -> None:
    """Each role does exactly its operations, by starting time, for every trip count.

    Trip counts 0 and 1, fewer than the stages, and more.
    """
    deepest = max(role.first for role in kernel.roles)
    for role in kernel.roles:
        mine = [p.operation for p in schedule.placements if p.role == role.name]
        for trips in range(deepest + 4):
            expected = sorted(
                (start(schedule, name) + i * schedule.ii, name, i)
                for name in mine
                for i in range(trips)
            )
            done = list(_issued(kernel, role.name, trips))
            assert done == [(name, i) for _, name, i in expected], (role.name, trips)


def _issued(kernel: Kernel, role: str, trips: int) -> Iterator[tuple[str, int]]:
    for item, step in unfold(next(r for r in kernel.roles if r.name == role), trips):
        if isinstance(item, Perform | Put) and item.call.at.anchor != "tile":
            if item.call.operation not in BUILTIN:
                yield item.call.operation, iteration(item.call.at, step, trips)


def _as_the_loop_says(
    problem: LoopProblem, run: Run, tile: int, trips: int, first: dict[str, str]
) -> None:
    """Every result is the term that the dependences of the problem spell out, one after another."""
    values = dict[tuple[str, str, int], object]()
    rings = {ring.name for ring in problem.rings}
    for i in range(trips):
        for name in _topological(problem):
            reads = [e for e in problem.dependences if e.target == name and e.carries]
            keys = list(dict.fromkeys((e.carries, e.source, e.distance) for e in reads))
            keys = [key for key in keys if key[0] not in rings or key[2] <= i]
            arguments = [_read(problem, values, key, tile, i) for key in keys]
            if name in first:
                arguments.insert(0, Term(first[name], tile, 0, ()))
            made = _made(problem, name)
            term: object = Term(name, tile, i, tuple(arguments))
            parts = (term,) if len(made) < 2 else tuple(Term(p, tile, i, (term,)) for _, p in made)
            assert run.results[name, tile, i] == parts, (name, tile, i)
            for (kept, _), part in zip(made, parts, strict=False):
                values[kept, name, i] = part
            values.setdefault((name, name, i), term)


def _topological(problem: LoopProblem) -> list[str]:
    done = list[str]()
    while len(done) < len(problem.operations):
        for item in problem.operations:
            before = [
                e.source for e in problem.dependences if e.target == item.name and not e.distance
            ]
            if item.name not in done and all(name in done for name in before):
                done.append(item.name)
    return done


def _made(problem: LoopProblem, name: str) -> list[tuple[str, str]]:
    """The values that an operation writes or updates, with their names in the channel text."""
    made = list[tuple[str, str]]()
    for value in problem.values:
        carriers = {e.source for e in problem.dependences if e.carries == value.name}
        if value.writer == name:
            made.append((value.name, value.name))
        elif value.resident and name in carriers:
            made.append((value.name, f"{value.name}~"))
    return made


def _read(
    problem: LoopProblem,
    values: dict[tuple[str, str, int], object],
    key: tuple[str, str, int],
    tile: int,
    i: int,
) -> object:
    carries, source, distance = key
    if i < distance:
        return Term(f"start {carries}", tile, i - distance, ())
    rings = {ring.name for ring in problem.rings}
    return values[source if carries in rings else carries, source, i - distance]


def _early(
    problem: LoopProblem, schedule: Schedule, run: Run, trips: int
) -> Iterator[tuple[str, str, int]]:
    """Dependences whose target began before the source ended: none but within one queue."""
    places, operations = placement_of(schedule), operation_of(problem)
    for edge in problem.dependences:
        ends = (edge.source, edge.target)
        queued = places[ends[0]].role == places[ends[1]].role
        queued = queued and not any(operations[name].threads for name in ends)
        for i in range(max(0, trips - edge.distance)):
            source = run.spans[edge.source, 0, i]
            target = run.spans[edge.target, 0, i + edge.distance]
            if source[1] > target[1 if queued else 0]:
                yield edge.source, edge.target, i


@pytest.mark.parametrize("seed", LOOPS)
def test_turns_in_every_period_keep_the_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no operation can lead, all that a unit does is begun in the schedule's order."""
    monkeypatch.setattr(channel_turns, "_leaders", _nobody)
    _, schedule, kernel = lowered(seed)
    _well(kernel)
    for trips in (0, 1, 2, 5):
        run = check_run(kernel, [trips], seed)
        assert run.fault is None, str(run)
        for order in schedule.orders:
            begun = [run.spans[name, 0, i][0] for name, i in _in_turn(schedule, order, trips)]
            assert not order.barriers or begun == sorted(begun)


def _nobody(_: object) -> None:
    """No leader."""


def test_leaders_keep_their_order() -> None:
    """Usually turns are counted by an operation of each batch; these begin one after another."""
    counted = 0
    for seed in LOOPS:
        _, schedule, kernel = lowered(seed)
        _, batches = channel_turns.turns(schedule)
        leaders = {batch.leader for batch in batches}
        counted += bool(leaders - {""})
        run = check_run(kernel, [5], seed)
        for order in schedule.orders if "" not in leaders else ():
            turns = _in_turn(schedule, order, 5)
            begun = [run.spans[name, 0, i][0] for name, i in turns if name in leaders]
            assert begun == sorted(begun), seed
    assert counted >= 5


def _in_turn(schedule: Schedule, order: UnitOrder, trips: int) -> list[tuple[str, int]]:
    """The instances of a unit's operations, by period and then by place in the period."""
    places = placement_of(schedule)
    rank = {name: k for k, name in enumerate(order.operations)}
    instances = [(name, i) for name in order.operations for i in range(trips)]
    return sorted(instances, key=lambda at: (places[at[0]].stage + at[1], rank[at[0]]))


def test_attention_has_the_shape_of_the_hand_written_program() -> None:
    """A ping-pong of two consumers, scores ahead of values, the softmax under the values."""
    text = print_channel(HOPPER["attention"][2])
    steady = text.split("role consumer0")[1].split("steady i from 1\n")[1].split("    epilogue")[0]
    order = [
        "get K[i]", "turn mma.consumer0", "t.0[i] = t.0(Q, K[i]) in flight",
        "get V[i - 1]", "a.0[i - 1] = a.0(V[i - 1], P.0[i - 1], a.0~[i - 1]) in flight",
        "pass mma.consumer1", "wait 1 on mma", "done K[i]", "y.0[i] = y.0(t.0[i], r.0[i])",
        "wait 0 on mma", "done V[i - 1]", "P.0[i] = P.0(y.0[i])",
    ]  # fmt: skip
    places = [steady.index(line) for line in order]
    assert places == sorted(places)


def test_a_product_stays_in_flight_behind_the_next() -> None:
    """With a slot to spare the wait for a product comes after the next is issued."""
    text = print_channel(HOPPER["gemm"][2])
    steady = text.split("role consumer0")[1].split("steady i from 1\n")[1].split("    epilogue")[0]
    assert steady.index("c.0[i] = ") < steady.index("wait 1 on mma") < steady.index("done A[i - 1]")
