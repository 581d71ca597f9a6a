"""How commands read programs: standard input, and the limits that a larger file needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

COPY = "op copy(x: f32[n]) -> y: f32[n]\n  y[n] = x[n]\n"


def tensorc(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """One command in a process of its own."""
    command = [sys.executable, "-m", "tensorc", *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True)


def test_standard_input() -> None:
    assert tensorc("check", "-", text=COPY).returncode == 0
    found = tensorc("check", "-", text="op f(")
    assert found.returncode == 1 and found.stderr.startswith("TC-E109 at <stdin>:1:5: ")
    assert "over 262144 bytes" in tensorc("check", "-", text="#" * 300_000).stderr


def test_larger_files_need_the_option(tmp_path: Path) -> None:
    path = tmp_path / "big.tc"
    path.write_text(COPY + "#" * 300_000)
    found = tensorc("check", str(path))
    assert found.returncode == 1 and "raise --max-bytes" in found.stderr
    assert tensorc("check", str(path), "--max-bytes", "400000").returncode == 0
    found = tensorc("check", str(path), "--max-bytes", "400000", "--max-statements", "1")
    assert found.returncode == 1 and "2 statements, over the limit of 1" in found.stderr
