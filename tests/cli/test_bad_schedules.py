"""What the command line says of machine files, loops and schedules that are wrong."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from benchmarks.problems.attention import attention_hopper
from benchmarks.problems.gemm import gemm
from tensorc.ir.print_schedule import print_schedule
from tensorc.ir.problem_json import problem_to_json
from tensorc.machine.product import load_product
from tensorc.passes.scheduling.schedule import JIT, schedule
from tests.cli.test_cli import run

Capture = pytest.CaptureFixture[str]
H100 = load_product("h100")
PROBLEMS = {
    "gemm": gemm(H100),
    "large": gemm(H100, k=320),
    "wide": attention_hopper(H100, parts=1, groups=1, rows=128),
}
PRODUCT = resources.files("tensorc.machine").joinpath("products", "h100.toml").read_text("utf-8")
EXAMPLE = "examples/gemm.tc"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with loop problems and the schedule of one."""
    for name, problem in PROBLEMS.items():
        (tmp_path / f"{name}.json").write_text(problem_to_json(problem))
    made = print_schedule(schedule(PROBLEMS["gemm"], JIT))
    (tmp_path / "gemm.schedule").write_text(made)
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "other", "said"),
    [
        (r"(?m)^mma_drain .*\n", "", ["cost.mma_drain", "found: nothing", "in cycles"]),
        (r"(?m)^(copy_latency .*value = )\d+", r"\1-5", [":41:1", "value -5", "at least 0"]),
        (r"(?m)^(step .*source = )\"\w+\"", r'\1"rumour"', ["register.step", "rumour", "assumed"]),
        (r"(?m)^\[register\]", "[register]\nspare = 1", ["register.spare", "an unknown key"]),
        (r"(?m)^\[register\]", "[register", ["is not TOML"]),
    ],
)
def test_machine_files(
    files: Path, capsys: Capture, pattern: str, other: str, said: list[str]
) -> None:
    path = files / "mine.toml"
    text, count = re.subn(pattern, other, PRODUCT)
    assert count == 1
    path.write_text(text)
    assert run("explain", EXAMPLE, "--arch", "sm_90a", "--machine", str(path)) == 1
    error = capsys.readouterr().err
    assert error.startswith("TC-E406") and all(part in error for part in said)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("large", ["shared memory", "need 245760 bytes", "limit 231424", "do: "]),
        ("wide", ["registers", "needs 296, limit 248", "do: offer 1 more warp group", "it fits"]),
    ],
)
def test_loops_that_fit_no_machine(
    files: Path, capsys: Capture, name: str, said: list[str]
) -> None:
    assert run("compile", str(files / f"{name}.json"), "--emit", "schedule") == 1
    error = capsys.readouterr().err
    assert "TC-E403" in error and all(part in error for part in said)
    assert run("explain", str(files / f"{name}.json")) == 0
    told = capsys.readouterr().out
    assert all(part in told for part in said)


def judged(files: Path, text: str) -> int:
    """The exit code of a check of this schedule of the product."""
    (files / "mine.schedule").write_text(text)
    schedule_ = str(files / "mine.schedule")
    return run("check", str(files / "gemm.json"), "--schedule", schedule_)


def test_a_schedule_by_hand_is_judged(files: Path, capsys: Capture) -> None:
    good = (files / "gemm.schedule").read_text()
    assert judged(files, good) == 0
    assert "schedule of gemm.128x256x64: ok" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("pattern", "other", "said"),
    [
        (r"(    c\.1 .*?)\d+( +mma)", r"\g<1>40\2", ["unit at c.0 and c.1", "of 1 mma"]),
        (r"(    B +load +\d+ +)\d+", r"\g<1>1020", ["TC-E405", "the rule"]),
        (r"(    A +)\d+( +\d+ +1 +16384)", r"\g<1>1\2", ["TC-E405", "ring at A and c."]),
        (r"(?s)  operation.*", "", ["TC-E405"]),
        (r"consumer1  4.*", "consumer1  4", ["TC-E407", ":5:1", "the columns of the"]),
    ],
)
def test_a_schedule_that_breaks_a_rule_is_told_by_rule_and_operations(
    files: Path, capsys: Capture, pattern: str, other: str, said: list[str]
) -> None:
    text, count = re.subn(pattern, other, (files / "gemm.schedule").read_text(), count=1)
    assert count == 1
    assert judged(files, text) == 1
    error = capsys.readouterr().err
    assert all(part in error for part in said), error


def test_other_misuse(files: Path, capsys: Capture) -> None:
    assert run("check", str(files / "gemm.json"), "--schedule", str(files / "none")) == 1
    assert "No such file" in capsys.readouterr().err
    assert run("check", EXAMPLE, "--schedule", str(files / "gemm.schedule")) == 2
    assert "is one of a loop" in capsys.readouterr().err


@pytest.mark.parametrize("code", ["N401", "N402", "E403", "E404", "E405", "E406", "E407"])
def test_every_code_is_explained(code: str, capsys: Capture) -> None:
    assert run("explain", f"TC-{code}") == 0
    assert capsys.readouterr().out.startswith(f"TC-{code}: ")
