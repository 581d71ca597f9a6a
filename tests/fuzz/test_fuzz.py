"""The generator, the oracles and the reducer, on generated programs and on a planted bug."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensorc.errors import NotationError
from tensorc.fuzz.case import Case, from_json, of_generated, to_json, write
from tensorc.fuzz.generate import generate
from tensorc.fuzz.isolate import Isolated
from tensorc.fuzz.oracle import examine
from tensorc.fuzz.reduce import candidates, reduced
from tensorc.fuzz.ways import Way, drawn
from tensorc.ir.choose import DrawnChooser, RandomChooser, ReplayChooser
from tensorc.ir.print_tensor import show_program
from tensorc.lang import read

CAMPAIGN = os.environ.get("TENSORC_PROFILE") == "campaign"
PROGRAMS = 500 if CAMPAIGN else 60
PRINTED = 3000 if CAMPAIGN else 300


def test_the_cpu_agrees_with_the_meaning_on_generated_programs() -> None:
    skipped = 0
    for seed in range(PROGRAMS):
        case = of_generated(generate(RandomChooser(seed), extra=seed % 3 == 2))
        finding = examine(case)
        skipped += finding.outcome == "skip" and finding.signature != "unavailable"
        assert finding.outcome != "fail", f"seed {seed}: {finding}\n{case.text}\n{case.sizes}"
    assert skipped <= PROGRAMS // 7


def test_printed_programs_read_back_as_the_same_nodes() -> None:
    refused = 0
    for seed in range(PRINTED):
        program = generate(RandomChooser(seed), extra=seed % 3 == 2).program
        text = show_program(program)
        try:
            (again,) = read(text)
        except NotationError:
            refused += 1  # an access that no size admits; rare, and counted
            continue
        assert again.equations == program.equations, text
        assert dict(again.extents).items() <= dict(program.extents).items(), text
    assert refused <= PRINTED // 50


def test_every_way_agrees_with_the_meaning_on_generated_programs() -> None:
    """In a child: between walls, a read past an array ends the process."""
    seen: set[str] = set()
    with Isolated() as isolated:
        for seed in range(1000, 1000 + PROGRAMS):
            chooser = RandomChooser(seed)
            made = generate(chooser)
            case = of_generated(made, drawn(chooser))
            finding = isolated.examine(case)
            seen |= case.way.changes().keys()
            assert finding.outcome != "fail", f"seed {seed}: {finding}\n{to_json(case)}"
    assert {"policy", "cuts", "deterministic", "specialize"} <= seen


def test_the_emulator_agrees_with_the_meaning_on_generated_programs() -> None:
    with Isolated() as isolated:
        for seed in range(2000, 2000 + PROGRAMS // 4):
            chooser = RandomChooser(seed)
            made = generate(chooser)
            case = of_generated(made, drawn(chooser, "emulator"))
            finding = isolated.examine(case)
            assert finding.outcome != "fail", f"seed {seed}: {finding}\n{to_json(case)}"


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect is called by its name")
@pytest.mark.parametrize(("side", "index"), [("before", -1), ("behind", 100)])
def test_walls_end_a_process_that_passes_them(side: str, index: int) -> None:
    """The text reads `index` through a pointer, which Python itself would not do."""
    script = (
        "import ctypes, numpy, tensorc.fuzz.walls as w;"
        f"a = w.walled(numpy.arange(100, dtype='f4'), {side!r});"
        "assert a.tolist() == list(range(100));"
        "p = ctypes.cast(a.ctypes.data, ctypes.POINTER(ctypes.c_float));"
    )
    inside = 0 if side == "before" else 99
    for place, code in ((inside, 0), (index, -signal.SIGSEGV)):
        done = subprocess.run([sys.executable, "-c", script + f"p[{place}]"], check=False)
        assert done.returncode == code


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data())
def test_hypothesis_drives_the_same_generator(data: st.DataObject) -> None:
    chooser = DrawnChooser(lambda low, high: data.draw(st.integers(low, high)))
    extra = data.draw(st.booleans())
    assert examine(of_generated(generate(chooser, extra))).outcome != "fail"


def test_a_recorded_list_of_choices_gives_the_same_case() -> None:
    first = RandomChooser(11)
    case = of_generated(generate(first))
    assert of_generated(generate(ReplayChooser(first.choices))) == case


def test_a_case_survives_json(tmp_path: Path) -> None:
    case = of_generated(generate(RandomChooser(3)))
    assert from_json(to_json(case)) == case
    other = replace(case, way=Way(policy="strict", specialize=False, walls="behind"))
    assert from_json(to_json(other)) == other and other.digest != case.digest
    folder = write(tmp_path, case, "report\n")
    assert sorted(path.name for path in folder.iterdir()) == [
        "case.json", "program.tc", "report.md",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"schema": "other"}',
        json.dumps({"schema": "tensorc-case-1"}),
        "{" * 99,
        *(
            json.dumps({"schema": "tensorc-case-1", "text": "", "way": way})
            for way in ({"other": 1}, {"policy": "slow"}, {"specialize": 2}, {"walls": "above"})
        ),
    ],
)
def test_what_is_no_case_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        from_json(text)


PLANTED = """\
op f(a: f32[m, k], b: f32[k], c: f32[m]) -> y: f32[m], z: f32[m]
  t[m] = sum[k](a[m, k] * b[k] + tanh(a[m, k]))
  y[m] = select(m > 2, t[m] * 2, exp(tanh(c[m]))) + t[m] / 3
  z[m] = c[m] + 1
"""


def test_the_reducer_keeps_the_failure_and_drops_the_rest() -> None:
    """The planted failure: any program that takes a hyperbolic tangent over more than 3 rows."""

    def fails(case: Case) -> bool:
        return "tanh" in case.text and case.sizes["m"] > 3

    start = Case(
        PLANTED, {"m": 33, "k": 17}, {"a": "wide", "b": "normal"}, {"a": "strided"},
        way=Way(cuts="none", deterministic=True),
    )  # fmt: skip
    small, finished = reduced(start, fails)
    (program,) = read(small.text)
    assert finished
    assert len(program.equations) <= 2 and len(program.outputs) == 1
    assert small.text.count("tanh") == 1
    assert small.sizes["m"] == 4
    assert dict(small.layouts) == {"a": "dense"}
    assert small.way == Way()
    assert len(small.text) < 100


def test_every_candidate_is_a_valid_program() -> None:
    case = Case(PLANTED, {"m": 5, "k": 3}, {}, {})
    tried = list(candidates(case))
    assert len(tried) > 20
    for candidate in tried:
        read(candidate.text)


def test_a_child_examines_cases() -> None:
    with Isolated() as isolated:
        good = Case("op f(x: f32[n]) -> y: f32[n]\n  y[n] = x[n] + 1\n", {"n": 5}, {}, {})
        assert isolated.examine(good).outcome in ("pass", "undecided")
        assert isolated.examine(Case("no program", {}, {}, {})).outcome == "skip"
