"""Every example on a GPU against its meaning (`pytest -m gpu`), and the plumbing of the GPU's
benchmark, with torch on the CPU and a clock that says what it is told."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import MOST_COPIES, ROUNDS, Arrays, Case, cases, line, measured
from examples.sizes import EXAMPLES, Example
from tensorc.codegen.cuda_driver import cupy
from tensorc.devices import run
from tensorc.errors import Unavailable
from tensorc.ir.accept import Outcome
from tensorc.prepare import prepare
from tensorc.verify import judge
from tests.examples.test_examples import arrays_of, text_of
from tests.requirements import need


def _a_gpu() -> bool:
    try:
        cupy()
    except Unavailable:
        return False
    return True


@pytest.mark.gpu
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_on_a_gpu(example: Example) -> None:
    if not _a_gpu():
        pytest.skip("needs a GPU")
    program = text_of(example)
    call = prepare(program, arrays_of(example, program), example.tiny)
    for name, verdict in judge(call, run(call, "cuda")).items():
        assert verdict.outcome is Outcome.PASS, f"{name}: {verdict}"


class Clock:
    """Ours takes 2 seconds, the peers 3 and 4."""

    def __init__(self) -> None:
        self.copies: set[int] = set()

    def __call__(self, call: Callable[..., Any], copies: Sequence[Arrays]) -> float:
        self.copies.add(len(copies))
        return {"ours": 2.0, "slow": 4.0, "quick": 3.0}[call.__name__]


def named(name: str, factor: float) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        return x * factor

    run.__name__ = name
    return run


def test_rows_give_the_ratio_to_the_quickest_peer() -> None:
    need("torch")
    import torch

    peers = {"slow": named("slow", 2), "quick": named("quick", 2)}
    case = Case("twice", 6e12, lambda: (torch.ones(64),), named("ours", 2), peers)
    clock = Clock()
    row = measured(case, clock)
    assert (row.ours, row.peers, row.tflops) == (2.0, {"slow": 4.0, "quick": 3.0}, 3.0)
    assert row.ratio == row.lowest == row.highest == 2 / 3
    assert clock.copies == {MOST_COPIES} and ROUNDS % 2
    assert "0.67 [0.67, 0.67]" in line(row)
    wrong = Case("wrong", 1, case.draw, named("ours", 2.1), peers)
    with pytest.raises(AssertionError, match="wrong: differs from slow by 5"):
        measured(wrong, clock)


def test_every_case_can_be_made() -> None:
    need("torch")
    import torch

    assert len(cases(torch)) == 4 + 2 * (12 + 1) + 6
    assert all(case.peers and case.flops > 0 for case in cases(torch, quick=True))


def test_without_a_gpu_the_benchmark_says_what_is_missing() -> None:
    if _a_gpu():
        pytest.skip("there is a GPU")
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu"], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 4 and "benchmarks.gpu: torch" in done.stderr
