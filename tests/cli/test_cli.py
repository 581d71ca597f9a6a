"""The command line: outputs, exit codes, files whole or absent, and no traceback for anybody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorc.cli import main

GEMV = "op gemv(a: f32[m, k], x: f32[k]) -> y: f32[m]\n  y[m] = sum[k](a[m, k] * x[k])\n"


def run(*arguments: str) -> int:
    """The exit code of a command run in this process."""
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return int(stop.value.code or 0)


@pytest.fixture
def gemv(tmp_path: Path) -> str:
    """A file with one operator."""
    path = tmp_path / "gemv.tc"
    path.write_text(GEMV)
    return str(path)


def test_run_on_files(gemv: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = np.arange(15, dtype=np.float32).reshape(3, 5)
    x = np.ones(5, np.float32)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "x.npy", x)
    inputs = ["--in", f"a={tmp_path / 'a.npy'}", "--in", f"x={tmp_path / 'x.npy'}"]
    out = tmp_path / "out"
    assert run("run", gemv, *inputs, "-o", str(out), "--check") == 0
    np.testing.assert_array_equal(np.load(out / "y.npy"), [10, 35, 60])
    assert run("run", gemv, *inputs, "-o", str(out)) == 0  # its own file may be replaced
    assert "y: float32[3]" in capsys.readouterr().out


def test_output_of_others_is_not_overwritten(gemv: str, tmp_path: Path) -> None:
    (tmp_path / "y.npy").write_bytes(b"mine")
    arguments = ["run", gemv, "--random", "--size", "m=3,k=5", "-o", str(tmp_path)]
    assert run(*arguments) == 2
    assert (tmp_path / "y.npy").read_bytes() == b"mine"
    assert run(*arguments, "--force") == 0
    assert np.load(tmp_path / "y.npy").shape == (3,)


def test_run_prints_json(gemv: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run", gemv, "--random", "--size", "m=70,k=5", "--check", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "tensorc-run-1"
    assert data["outputs"] == {"y": [70]}
    assert data["check"]["y"].startswith("PASS")


@pytest.mark.parametrize("level", ["tensor", "tile", "llvm", "asm"])
def test_compile_to_every_text(
    gemv: str, level: str, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    assert run("compile", gemv, "--emit", level) == 0
    text = capsys.readouterr().out
    expected = {"tensor": "sum[k](a[m, k] * x[k])", "tile": "loop k", "llvm": "define void"}
    assert expected.get(level, "kernel_0:") in text


def test_compile_to_object_code(gemv: str, tmp_path: Path) -> None:
    target = tmp_path / "gemv.o"
    assert run("compile", gemv, "-o", str(target), "--size", "k=16") == 0
    assert target.stat().st_size > 500
    assert run("compile", gemv, "-o", str(target)) == 2  # exists


def test_a_pipe_is_written_and_not_replaced(gemv: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run("compile", gemv, "--emit", "tensor", "-o", str(pipe), "--force") == 0
        assert os.read(reader, 4096).decode() == GEMV
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert run("compile", gemv, "--emit", "tensor", "-o", str(tmp_path), "--force") == 2
    assert run("compile", gemv, "--emit", "tile", "--size", "m=-4") == 2


def test_check(gemv: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", gemv) == 0
    assert "gemv: ok" in capsys.readouterr().out


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", "TC-E215") == 0
    assert "E215" in capsys.readouterr().out
    assert run("explain", "E999") == 2


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor") == 0
    assert "llvmlite" in capsys.readouterr().out


BAD = {
    "an empty file": ("", 1),
    "a typing error": ("op f(x: f32[n]) -> y: f32[n]\n  y[n] = x[n + 1]\n", 1),
    "no text": ("\0\1\2", 1),
}


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_program_is_exit_code_1(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, code = BAD[name]
    path = tmp_path / "bad.tc"
    path.write_text(text)
    for command in ("check", "run", "compile"):
        assert run(command, str(path)) == code
        error = capsys.readouterr().err
        assert error.startswith("TC-E")
        assert "Traceback" not in error


def test_wrong_use_is_exit_code_2(gemv: str, tmp_path: Path) -> None:
    assert run("nonsense") == 2
    assert run("run", gemv, "--size", "m") == 2
    assert run("run", gemv, "--size", "m=many") == 2
    assert run("run", gemv, "--op", "other", "--random") == 2
    broken = tmp_path / "a.npy"
    broken.write_bytes(b"not an array")
    assert run("run", gemv, "--in", f"a={broken}", "--random", "--size", "m=1,k=1") == 2


def test_missing_files_and_sizes_are_exit_code_1(gemv: str) -> None:
    assert run("check", "does-not-exist.tc") == 1
    assert run("run", gemv, "--random") == 1
    assert run("run", gemv) == 1


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; import tensorc.cli as c\n"
        "try: c.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'sympy', 'egglog', 'ortools', 'llvmlite'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "compile" in done.stdout


def test_fuzz_run_and_rerun(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "bugs")
    assert run("fuzz", "run", "--seconds", "60", "--most", "3", "--seed", "1", "-o", out) == 0
    capsys.readouterr()
    from tensorc.fuzz.case import Case, write

    case = Case(GEMV, {"m": 70, "k": 3}, {"a": "normal", "x": "normal"}, {})
    folder = write(tmp_path, case, "report\n")
    assert run("fuzz", "rerun", str(folder)) == 0
    assert "pass" in capsys.readouterr().out
    (folder / "case.json").write_text("{}")
    assert run("fuzz", "rerun", str(folder)) == 2


def test_explain_a_program(gemv: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", gemv, "--size", "m=10,k=100") == 0
    text = capsys.readouterr().out
    assert text.startswith("gemv for ") and "\nkernels\n" in text and "\ncosts\n" in text
    assert run("explain", gemv, "--arch", "sm_80", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "tensorc-explain-1"
    assert data["operators"][0]["kernels"][0]["reads"] == ["a", "x"]
    assert run("explain", gemv, "--size", "z=3") == 2
    assert run("explain", "TC-E215", "--json") == 0
    assert json.loads(capsys.readouterr().out)["code"] == "E215"


def test_json_everywhere(
    gemv: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORC_CACHE_DIR", str(tmp_path / "cache"))

    def printed(*arguments: str, code: int = 0) -> dict[str, Any]:
        assert run(*arguments, "--json") == code
        return json.loads(capsys.readouterr().out)

    made = printed("compile", gemv, "--emit", "tile", "--size", "k=16")
    assert made["schema"] == "tensorc-compile-1" and made["sizes"] == {"k": 16}
    assert "loop k" in str(made["text"])
    target = tmp_path / "gemv.o"
    made = printed("compile", gemv, "-o", str(target))
    assert made["bytes"] == target.stat().st_size and "text" not in made
    assert run("compile", gemv, "--json") == 2
    capsys.readouterr()
    for name in ("path", "list", "verify", "prune"):
        assert str(printed("cache", name)["schema"]).startswith("tensorc-cache-")
    assert printed("doctor")["schema"] == "tensorc-doctor-1"
    bad = tmp_path / "bad.tc"
    bad.write_text("op f(x: f32[n], z: f32[m]) -> y: f32[m]\n  y[m] = z[m] * x[n]\n")
    found = printed("check", str(bad), code=1)
    assert found["schema"] == "tensorc-error-1" and found["kind"] == "NotationError"
    first = found["faults"][0]
    assert first["code"] == "E202" and (first["line"], first["column"]) == (2, 19)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["check", "FILE"], ["run", "--help"], ["doctor"]]
)
def test_a_reader_that_goes_away_is_no_error(gemv: str, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "tensorc", *(gemv if a == "FILE" else a for a in arguments)]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_sizes_have_no_say_in_a_deterministic_kernel(
    gemv: str, capsys: pytest.CaptureFixture[str]
) -> None:
    texts: list[str] = []
    for more in ([], ["--size", "k=64"], ["--hint", "m=9"]):
        assert run("compile", gemv, "--emit", "llvm", "--deterministic", *more) == 0
        said = capsys.readouterr()
        texts.append(said.out)
        assert said.err == "" if not more else f"for {more[1][0]} is not used" in said.err
    assert len(set(texts)) == 1
    assert run("explain", gemv, "--deterministic", "--size", "m=3,k=64") == 0
    assert "for k, m is not used" in capsys.readouterr().err
    assert run("compile", gemv, "--deterministic", "--size", "z=64") == 2


def test_hints_fix_nothing(gemv: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", gemv, "--emit", "tile", "--hint", "m=4096,k=64") == 0
    hinted = capsys.readouterr().out
    assert run("compile", gemv, "--emit", "tile") == 0
    assert capsys.readouterr().out == hinted  # one product has one order
    assert run("compile", gemv, "--emit", "tile", "--hint", "q=1") == 2
    assert run("compile", gemv, "--emit", "tile", "--hint", "m=-1") == 2


def test_threads_of_the_environment(
    gemv: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("run", gemv, "--random", "--size", "m=3,k=4")
    monkeypatch.setenv("TENSORC_THREADS", "2")
    assert run(*arguments, "--verify", "full") == 0
    assert "check y: PASS" in capsys.readouterr().out
    monkeypatch.setenv("TENSORC_THREADS", "two")
    assert run(*arguments) == 2
    assert "TENSORC_THREADS='two' is not a number" in capsys.readouterr().err


def test_what_cannot_be_decided_fails_in_full(gemv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorc.ir.accept import Outcome, Verdict

    undecided = {"y": Verdict(Outcome.UNDECIDED, "for a test")}

    def judge(*_: object) -> dict[str, Verdict]:
        return undecided

    monkeypatch.setattr("tensorc.commands.run.judge", judge)
    arguments = ("run", gemv, "--random", "--size", "m=3,k=4")
    assert run(*arguments, "--check") == 0
    assert run(*arguments, "--verify", "full") == 3


def test_compile_measures_tiles(gemv: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", gemv, "--size", "m=30,k=40", "--measure", "--emit", "tile") == 0
    out, err = capsys.readouterr()
    times = [line for line in err.splitlines() if " us, predicted " in line]
    assert 2 <= len(times) <= 12 and out.startswith("program gemv")
    assert run("compile", gemv, "--size", "m=30", "--measure") == 2
    assert "--size k=N is missing" in capsys.readouterr().err
    assert run("compile", gemv, "--arch", "sm_80", "--emit", "tile", "--measure") == 2
