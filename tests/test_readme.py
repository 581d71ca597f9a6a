"""What the README shows runs, and type checks strictly."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tensorc.lang import read

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.S)
PROGRAMS = re.findall(r"```\n(op .*?)```", README, re.S)


@pytest.mark.parametrize("code", PYTHON, ids=range(len(PYTHON)))
def test_python_runs_and_type_checks(code: str, tmp_path: Path) -> None:
    path = tmp_path / "readme.py"
    path.write_text(f"# pyright: strict\n{code}")
    done = subprocess.run([sys.executable, str(path)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(path)]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_programs_read() -> None:
    assert PROGRAMS
    for text in PROGRAMS:
        read(text)


def test_commands_are_those_of_the_command_line() -> None:
    from tensorc.cli import COMMANDS

    shown = set(re.findall(r"^tensorc (\w+)", README, re.M))
    assert shown <= set(COMMANDS)
