"""The protocol check: right programs pass for every trip count, planted faults are refused."""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from benchmarks.protocol_faults import PLANTS, Plant, load, planted
from tensorc.ir.channel import Kernel
from tensorc.ir.read_channel import read_channel
from tensorc.passes.pipelining import check_protocol as module
from tensorc.passes.pipelining.check_protocol import check_protocol, explore_protocol, search_all
from tensorc.passes.pipelining.protocol import Fault, State, System, build, initial
from tensorc.passes.pipelining.protocol_moves import every_move, moves
from tensorc.passes.pipelining.protocol_normal import normal
from tests.channel.profile import CAMPAIGN
from tests.conftest import Golden

PROGRAMS = ("gemm", "attention", "balanced")


@pytest.mark.parametrize("name", PROGRAMS)
def test_right_programs_pass(name: str) -> None:
    verdict = check_protocol(load(name))
    assert verdict.outcome == "PASS", str(verdict)
    assert verdict.states <= 500_000


def ring(depth: int, getters: int, persistent: bool = False) -> Kernel:
    """One ring of `depth` slots between one role that puts and `getters` that get."""
    kind = ", persistent" if persistent else ""
    lines = [
        f"kernel ring for h100{kind}",
        f"  ring A: 64 bytes x {depth} in shared at 0, by copy, full 1 + 64 bytes, empty {getters}",
        "  role load: 1 warp, 24 registers",
        "    steady i from 0",
        "      put A[i] = load()",
    ]
    for k in range(getters):
        lines += [
            f"  role work{k}: 4 warps, 40 registers",
            "    steady i from 0",
            "      get A[i]",
            f"      do work{k}[i](A[i])",
            "      done A[i]",
        ]
    return read_channel("\n".join(lines))


SIZES = [(s, c) for s in range(1, 7) for c in range(1, 4)] if CAMPAIGN else [(1, 1), (2, 2), (4, 3)]


@pytest.mark.parametrize(("depth", "getters"), SIZES)
@pytest.mark.parametrize("persistent", [False, True])
def test_rings_of_any_size_pass(depth: int, getters: int, persistent: bool) -> None:
    verdict = check_protocol(ring(depth, getters, persistent))
    assert verdict.outcome == "PASS"
    assert verdict.states <= 50_000


# Each fault of a role alone is refused by an invariant, each between roles by exploration.
BETWEEN = {
    "turn given to nobody at the start": "P1",
    "turn given to both at the start": "P6",
    "pass before the turn is taken": "P6",
    "ring too shallow for what is held": "P1",
    "two rings wait for each other": "P1",
    "turns counted per tile, tile ring too deep": "P6",
}


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_planted_faults_are_refused(plant: Plant) -> None:
    verdict = check_protocol(planted(plant))
    assert verdict.outcome == "FAIL"
    if plant.name in BETWEEN:
        assert verdict.rule == BETWEEN[plant.name]
        assert verdict.trace
    else:
        assert verdict.rule.startswith("C")
    assert all(verdict.operations), verdict


def test_at_least_twenty_kinds_are_planted() -> None:
    assert len({plant.name for plant in PLANTS}) == len(PLANTS) >= 20


SEEN_BY_EXPLORATION = {
    "no wait for a full slot": "P5",
    "slot never given back": "P7",
    "slot given back twice": "P5",
    "epilogue without guard for an empty loop": "P5",
    "steady state starts one late": "P1",
    "steady state starts one early": "P1",
    "empty barrier counts too few": "P2",
    "empty barrier counts too many": "P1",
    "too few bytes expected": "P1",
    "no bytes expected": "P4",
    "full barrier counts too many": "P1",
    "turn not waited for": "P6",
    "turn not passed": "P7",
    "turn passed twice": "P6",
    "per-tile slot never given back": "P1",
    "two roles put one ring": "P1",
    **BETWEEN,
}


@pytest.mark.parametrize("name", sorted(SEEN_BY_EXPLORATION))
def test_exploration_alone_sees_faults_of_counting(name: str) -> None:
    """Without the invariants of single roles: most faults show between roles as well."""
    verdict = explore_protocol(planted(next(p for p in PLANTS if p.name == name)), 20_000)
    assert (verdict.outcome, verdict.rule) == ("FAIL", SEEN_BY_EXPLORATION[name])


def test_p3_two_fills_to_one_slot() -> None:
    """A role that gives back twice what it holds lets the slot be filled while a fill is due."""
    text = """\
kernel early for h100
  ring A: 64 bytes x 1 in shared at 0, by copy, full 1 + 64 bytes, empty 1
  role load: 1 warp, 24 registers
    prologue
      put A[0] = load()
      put A[1] = load()
    steady i from 0
  role work: 4 warps, 40 registers
    prologue
      do nothing()
    steady i from 0
"""
    kernel = read_channel(text)
    system = build(kernel, frozenset({"A"}), frozenset())
    state = initial(system)[0]
    (first,) = list(moves(system, state))
    assert isinstance(first.after, State)
    channel = first.after.channels[0]
    open_ = channel._replace(empty=(channel.empty[0]._replace(parity=1),))
    forced = first.after._replace(channels=(open_,))
    faults = [step.after for step in moves(system, forced) if isinstance(step.after, Fault)]
    assert [fault.rule for fault in faults] == ["P3"]


def test_a_trace_is_shortest_and_prints_as_a_table(golden: Golden) -> None:
    plant = next(p for p in PLANTS if p.name == "ring too shallow for what is held")
    golden("shallow.txt", str(check_protocol(planted(plant))) + "\n")


def test_a_tile_ring_too_deep_shows_the_second_tile(golden: Golden) -> None:
    plant = next(p for p in PLANTS if p.name.startswith("turns counted per tile"))
    golden("turns.txt", str(check_protocol(planted(plant))) + "\n")


def test_too_many_states_are_undecided() -> None:
    verdict = check_protocol(load("attention"), cap=100)
    assert verdict.outcome == "UNDECIDED"
    assert "more than" in verdict.sentence and "states" in verdict.sentence


def _systems() -> list[System]:
    whole = [ring(3, 2, True), load("attention"), load("balanced")]
    texts = [planted(p) for p in PLANTS[::3] if p.name in SEEN_BY_EXPLORATION]
    return [
        build(k, frozenset(r.name for r in k.rings), frozenset(t.name for t in k.tokens))
        for k in [*whole, *texts]
    ]


def _futures(system: System, state: State) -> Counter[tuple[str, object]]:
    found = Counter[tuple[str, object]]()
    for step in every_move(system, state):
        after = step.after
        found[(step.text, after.rule if isinstance(after, Fault) else normal(system, after))] += 1
    return found


def test_a_state_and_its_normal_form_have_the_same_future() -> None:
    """Random runs without normal forms: at each state, the moves of both lead to the same forms."""
    chance = random.Random(7)
    for system in _systems():
        for _ in range(20 if CAMPAIGN else 3):
            state = initial(system)[0]
            for _ in range(60):
                assert _futures(system, state) == _futures(system, normal(system, state))
                after = [s.after for s in every_move(system, state)]
                following = [a for a in after if isinstance(a, State)]
                if not following:
                    break
                state = chance.choice(following)


def _all(system: System, expand: module.Expand) -> str:
    found = search_all(system, expand, 60_000)
    return "capped" if found.capped else found.fault.rule if found.fault else "clean"


def test_leaving_out_moves_changes_no_verdict() -> None:
    """The full exploration finds a fault exactly where the reduced one does."""
    kernels = [ring(2, 2, True), ring(3, 2), load("balanced")]
    kernels += [planted(p) for p in PLANTS if p.program != "gemm" and p.name in _COUNTING]
    for kernel in kernels:
        for single in kernel.rings:
            system = build(kernel, frozenset({single.name}), frozenset())
            full, reduced = _all(system, every_move), _all(system, moves)
            assert (full == "clean") == (reduced == "clean"), (kernel.name, single.name)


_COUNTING = (
    "no wait for a full slot", "slot given back twice", "empty barrier counts too few",
    "no bytes expected", "too few bytes expected", "steady state starts one early",
)  # fmt: skip


def test_the_check_shares_no_code_with_the_lowering_or_the_solver() -> None:
    allowed = {"protocol", "protocol_moves", "protocol_normal", "protocol_trace"}
    for name in ("check_protocol", *allowed):
        for imported in _imports(Path(module.__file__ or "").with_name(f"{name}.py")):
            if imported.startswith("tensorc.passes"):
                short = imported.removeprefix("tensorc.passes.pipelining.")
                assert short in allowed, (name, imported)
            assert not imported.startswith("ortools")


def _imports(path: Path) -> Iterable[str]:
    for item in ast.walk(ast.parse(path.read_text())):
        if isinstance(item, ast.ImportFrom):
            yield item.module or ""
        elif isinstance(item, ast.Import):
            yield from (alias.name for alias in item.names)
