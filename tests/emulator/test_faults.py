"""Every seeded fault is caught on every seed: by a report that names the object, or by numbers."""

from __future__ import annotations

import re

import pytest

from tensorc.codegen.emulator import Mode
from tests.emulator import running
from tests.emulator.faults import CASES, Case, Fault
from tests.emulator.profiles import CAMPAIGN, count
from tests.emulator.running import Result, tolerance
from tests.requirements import need

ALL = [(case, fault) for case in CASES for fault in case.faults]
CHOSEN = ALL if CAMPAIGN else ALL[::4]


def run(case: Case, fault: Fault, seed: int) -> Result:
    """The faulty kernel on the case's shape; a launch without an end is a livelock report."""
    runner = running.attention if case.kernel.file.startswith("attention") else running.gemm
    mode = Mode(seed=seed, steps=3_000_000, seconds=60)
    return runner(case.kernel.faulty(fault.edits), case.shape, mode, blocks=case.blocks)  # type: ignore[arg-type]


def caught(case: Case, fault: Fault, result: Result) -> bool:
    """By the report that the fault expects, or, if it expects none, by wrong numbers."""
    if not fault.expect:
        return not result.error <= tolerance(case.kernel)
    reports = [f"{report.kind}: {report.text}" for report in result.outcome.reports]
    return any(re.search(fault.expect, text) for text in reports)


@pytest.mark.parametrize(
    ("case", "fault"), CHOSEN, ids=[f"{case.kernel.name}: {fault.name}" for case, fault in CHOSEN]
)
def test_fault_is_caught(case: Case, fault: Fault) -> None:
    need("cxx")
    for seed in range(count(4, 1)):
        result = run(case, fault, seed)
        assert caught(case, fault, result), f"seed {seed}: error {result.error}\n{result.outcome}"


def test_there_are_enough_faults() -> None:
    told = [fault for _, fault in ALL if fault.expect]
    assert len(told) >= 80
    assert len(ALL) - len(told) <= 20  # those that only the numbers can tell
