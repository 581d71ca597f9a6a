"""The channel interpreter: every interleaving gives what the loop computes, faults are reported."""

from __future__ import annotations

from typing import cast

import pytest

from benchmarks.protocol_faults import PLANTS, load, planted
from tensorc.ir.channel import Kernel
from tensorc.ir.interpret_channel import Run, check_run, interpret, sequential
from tensorc.ir.read_channel import read_channel
from tensorc.ir.term import Term
from tests.channel.profile import CAMPAIGN

PROGRAMS = ("gemm", "attention", "balanced")
SEEDS = range(100 if CAMPAIGN else 5)
TRIPS = ([0], [1], [2], [3], [4], [7], [0, 0], [1, 1, 1], [0, 1, 2], [3, 0, 5, 1])


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_interleaving_is_the_loop(name: str) -> None:
    kernel = load(name)
    for trips in TRIPS:
        for seed in SEEDS:
            run = check_run(kernel, trips, seed)
            assert run.fault is None, f"{trips}, seed {seed}\n{run}"
            assert run.results == sequential(kernel, trips)


def test_no_operation_is_left_out() -> None:
    run = check_run(load("gemm"), [0, 3], 0)
    products = {(f"mma.{w}", 1, i) for w in (0, 1) for i in range(3)}
    loads = {(name, 1, i) for name in ("load_a", "load_w") for i in range(3)}
    stores = {(f"store.{w}", tile, 0) for w in (0, 1) for tile in (0, 1)}
    assert run.results.keys() == products | loads | stores


def test_terms_say_what_is_computed() -> None:
    (total,) = cast("tuple[Term]", check_run(load("gemm"), [2], 3).results["store.0", 0, 0])
    first = Term("mma.0", 0, 0, (_load("a", 0), _load("w", 0), Term("start c.0", 0, -1, ())))
    second = Term("mma.0", 0, 1, (_load("a", 1), _load("w", 1), first))
    assert total is Term("store.0", 0, 0, (second,))


def _load(name: str, at: int) -> Term:
    return Term(f"load_{name}", 0, at, ())


def _numbers(operation: str, tile: int, at: int, arguments: tuple[object, ...]) -> object:
    """A matrix product on numbers: element k of a row is k + 1, of a column 10 * tile + k."""
    if operation == "load_a":
        return at + 1
    if operation == "load_w":
        return 10 * tile + at
    if operation.startswith("start"):
        return 0
    if operation.startswith("store"):
        return arguments[0]
    a, w, total = cast("tuple[int, int, int]", arguments)
    return total + a * w


def test_with_numbers_it_computes_numbers() -> None:
    trips = [4, 0, 3]
    run = check_run(load("gemm"), trips, 1, _numbers)
    assert run.fault is None
    for tile, count in enumerate(trips):
        expected = sum((k + 1) * (10 * tile + k) for k in range(count))
        assert run.results["store.1", tile, 0] == (expected,)


def test_seeds_repeat_and_differ() -> None:
    kernel = load("attention")
    one, again, other = (interpret(kernel, [3], seed).trace for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_operations_in_flight_overlap() -> None:
    """Interleavings do let a product finish late: after the next one is issued."""
    run = interpret(load("gemm"), [6], 0)
    begun, ended = run.spans["mma.0", 0, 1][0], run.spans["mma.0", 0, 0][1]
    late = [s for s in range(20) if _overlaps(interpret(load("gemm"), [6], s))]
    assert begun >= 0 and ended >= 0 and late


def _overlaps(run: Run) -> bool:
    return any(run.spans["mma.0", 0, k + 1][0] < run.spans["mma.0", 0, k][1] for k in range(5))


def test_arguments_are_checked() -> None:
    text = "kernel one for h100\n  role r: 1 warp, 24 registers\n    steady i from 0\n"
    kernel = read_channel(text)
    with pytest.raises(ValueError, match="is not persistent: one trip count, not 2"):
        interpret(kernel, [1, 1], 0)
    with pytest.raises(ValueError, match="at least 0"):
        sequential(kernel, [-1])


def test_patience_ends() -> None:
    with pytest.raises(ValueError, match=r"gemm has not finished \[9\] after 50 moves"):
        interpret(load("gemm"), [9], 0, patience=50)


def test_the_sequential_meaning_refuses_what_nothing_makes() -> None:
    text = """\
kernel bad for h100
  role r: 4 warps, 24 registers
    steady i from 0
      a[i] = f(b[i])
"""
    with pytest.raises(ValueError, match=r"nothing makes b\[0\]"):
        sequential(read_channel(text), [1])
    around = text + "      b[i] = g(a[i])\n"
    with pytest.raises(ValueError, match="needs itself"):
        sequential(read_channel(around), [1])


def test_a_value_that_is_needed_twice_does_not_need_itself() -> None:
    text = """\
kernel twice for h100
  role r: 4 warps, 24 registers
    steady i from 0
      b[i] = f()
      a[i] = g(b[i])
      c[i] = h(b[i], a[i])
"""
    backwards = text.replace("      b[i] = f()\n", "") + "      b[i] = f()\n"
    lines = backwards.splitlines()
    moved = "\n".join([*lines[:3], lines[4], lines[3], lines[5]])
    assert sequential(read_channel(moved), [2]) == sequential(read_channel(text), [2])


UNSEEN = {"slots overlap in memory", "one barrier for two tokens"}
"""Faults of placement: slots and barriers are apart in the interpreter whatever their numbers."""


@pytest.mark.parametrize("name", [plant.name for plant in PLANTS])
def test_planted_faults_show_in_some_interleaving(name: str) -> None:
    kernel = planted(next(plant for plant in PLANTS if plant.name == name))
    found = first_fault(kernel)
    if name in UNSEEN:
        assert found is None
    else:
        assert found is not None and found.fault is not None
        assert all(found.fault.operations), found.fault


def first_fault(kernel: Kernel) -> Run | None:
    """The first of up to 120 runs that ends in a fault."""
    for trips in ([0], [1], [2], [5], [1, 1], [0, 1, 3]):
        for seed in range(20):
            run = check_run(kernel, trips, seed)
            if run.fault:
                return run
    return None


def test_a_fault_prints_its_trace() -> None:
    plant = next(p for p in PLANTS if p.name == "two rings wait for each other")
    run = interpret(planted(plant), [0], 0)
    text = str(run)
    assert text.startswith("R1: all wait: ")
    assert "  waits" in text and "consumer1" in text.split("\n")[1]
