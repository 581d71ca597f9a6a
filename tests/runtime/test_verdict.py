"""How far kernels are verified, what is kept of it, and what happens where it cannot be decided."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorc as tc
from tensorc import pipeline, verify
from tensorc.compiler import compile_cpu
from tensorc.ir.accept import Outcome, Verdict
from tensorc.lang import read
from tensorc.passes.algebra import validate
from tensorc.passes.algebra.validate import Check
from tensorc.request import Request, cpu_target
from tensorc.runtime import cache
from tensorc.runtime.verdict import Verified, from_json

CHAIN = """op f(x: f32[m, k], y: f32[k, n], z: f32[n]) -> o: f32[m]
  o[m] = sum[k, n](x[m, k] * y[k, n] * z[n])
"""
SIZES = {"m": 300, "k": 200, "n": 100}
SMALL = (np.ones((3, 4), np.float32), np.ones((4, 5), np.float32), np.ones(5, np.float32))


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TENSORC_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def request(verify: str = "cheap") -> Request:
    return Request(cpu_target(), SIZES, rewrite=True, verify=verify)


def kept(folder: Path) -> list[Verified]:
    """The verdicts that lie on the disk."""
    found = [cache.parse(path.read_bytes())[1].about for path in sorted(folder.glob("*.kernel"))]
    return [from_json(about["verdict"]) for about in found]


def test_a_verdict_is_kept_with_the_kernel(folder: Path) -> None:
    (program,) = read(CHAIN)
    made = compile_cpu(program, request())
    assert made.verdict.outcome is Outcome.PASS and made.verdict.level == "cheap"
    assert kept(folder) == [made.verdict]
    assert compile_cpu(program, request()).verdict == made.verdict  # from the disk


def test_what_was_not_looked_at_is_looked_at_when_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    right = validate.validate

    def counted(*args: Any) -> Check:
        calls.append(1)
        return right(*args)

    monkeypatch.setattr(validate, "validate", counted)
    (program,) = read(CHAIN)
    assert compile_cpu(program, request("off")).verdict.outcome is Outcome.UNDECIDED
    assert not calls and kept(folder)[0].level == "off"
    assert compile_cpu(program, request("cheap")).verdict.outcome is Outcome.PASS
    assert len(calls) == 1 and [one.level for one in kept(folder)] == ["cheap"]
    compile_cpu(program, request("off"))
    assert [one.level for one in kept(folder)] == ["cheap"]


def test_undecided_kernels_are_used_and_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def undecided(*args: Any) -> Check:
        return Check(Outcome.UNDECIDED, "for a test")

    monkeypatch.setattr(validate, "validate", undecided)
    (program,) = read(CHAIN)
    with caplog.at_level(logging.WARNING, "tensorc"):
        made = compile_cpu(program, request())
    assert [item.getMessage() for item in caplog.records] == [
        "f: the rewritten program was not verified: for a test"
    ]
    assert str(made.verdict) == "UNDECIDED (cheap): for a test"
    assert kept(folder) == [made.verdict] and "not verified: for a test" in str(made.report)
    assert "kernel t1" in made.tile


def test_another_program_is_an_error_and_not_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any) -> Check:
        return Check(Outcome.FAIL, "for a test")

    monkeypatch.setattr(validate, "validate", fails)
    (program,) = read(CHAIN)
    with pytest.raises(tc.BrokenInvariant, match="rewriting changed the program"):
        compile_cpu(program, request())
    assert not kept(folder)


def test_in_full_the_first_call_is_compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[int] = []
    right = verify.judge

    def counted(*args: Any) -> Mapping[str, Verdict]:
        judged.append(1)
        return right(*args)

    monkeypatch.setattr(verify, "judge", counted)
    full = tc.loads(CHAIN).f.on("cpu", verify="full")
    for _ in range(3):
        np.testing.assert_array_equal(full(*SMALL), np.full(3, 20, np.float32))
    assert len(judged) == 1
    (one,) = kept(folder)
    assert (one.level, one.outcome) == ("full", Outcome.PASS) and "o: PASS" in one.reason
    again = tc.loads(CHAIN).f.on("cpu", verify="full")
    again(*SMALL)
    assert len(judged) == 1  # the verdict came with the kernel


def test_kernels_for_several_sizes_are_judged_by_their_own_form() -> None:
    """The second size is served by a kernel that was rewritten for the first one."""
    full = tc.loads(CHAIN).f.on("cpu", verify="full")
    draw = np.random.default_rng(2)
    for m, k, n in ((300, 200, 100), (3, 2, 70), (4, 2, 70), (1, 130, 1)):
        x, y, z = (draw.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), n))
        np.testing.assert_allclose(full(x, y, z), x @ (y @ z), rtol=1e-3, atol=1e-3)


def test_a_wrong_kernel_is_an_error_with_its_arrays(monkeypatch: pytest.MonkeyPatch) -> None:

    def run(*_: object) -> dict[str, Any]:
        return {"o": np.full(3, 21, np.float32)}

    monkeypatch.setattr("tensorc.calls.run", run)
    full = tc.loads(CHAIN).f.on("cpu", verify="full")
    with pytest.raises(tc.BrokenInvariant, match=r"Program and arrays lie in (.*);") as caught:
        full(*SMALL)
    text = str(caught.value)
    left = Path(text.partition("lie in ")[2].partition(";")[0])
    assert sorted(path.name for path in left.iterdir()) == ["program.tc", "x.npy", "y.npy", "z.npy"]
    assert len(read((left / "program.tc").read_text())) == 1
    for path in left.iterdir():
        path.unlink()
    left.rmdir()


def test_what_cannot_be_decided_fails_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "MOST", 10)
    op = tc.loads(CHAIN).f
    with pytest.raises(tc.Unavailable, match="cannot be verified in full: a call does .* at most"):
        op.on("cpu", verify="full")(*SMALL)
    assert op(*SMALL)[0] == 20
    with pytest.raises(ValueError, match="there are off, cheap and full"):
        op.on("cpu", verify="yes")


def test_verdicts_read_back() -> None:
    one = Verified("full", Outcome.PASS, "o: PASS")
    assert from_json(one.to_json()) == one
    for wrong in (["most", "PASS", ""], ["full", "MAYBE", ""], ["full", "PASS", 3], ["full"], None):
        with pytest.raises((ValueError, TypeError, KeyError)):
            from_json(wrong)
    assert one.reaches("cheap") and not Verified("off", Outcome.UNDECIDED, "").reaches("cheap")


def test_the_pipeline_checks_what_the_algebra_made() -> None:
    (checked,) = [step for step in pipeline.PIPELINE if step.check is not None]
    assert checked.name == "saturate"


def test_a_kernel_is_shown_in_notebooks() -> None:
    op = tc.loads("op f(x: f32[n]) -> y: f32[n]\n  y[n] = select(x[n] < 1, x[n], 1)\n").f
    shown = op.compile()._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert shown.startswith("<pre>&lt;kernel f[n]") and "x[n] &lt; 1" in shown
