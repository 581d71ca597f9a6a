"""The golden fixture itself, in small runs of its own: what fails, is written, or is unused."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TEST = """
def test_one(golden):
    golden("one.txt", "1\\n")

def test_two(golden):
    golden("shared/two.txt", "2\\n")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of tests whose golden files are right."""
    tests = tmp_path / "tests"
    for name, text in (("small/one.txt", "1\n"), ("shared/two.txt", "2\n")):
        (tests / "golden" / name).parent.mkdir(parents=True)
        (tests / "golden" / name).write_text(text)
    shutil.copy(Path(__file__).parent / "conftest.py", tests)
    (tests / "test_small.py").write_text(TEST)
    return tests


def run(folder: Path, *options: str) -> tuple[int, str]:
    """Exit status and output of a run over the folder."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    found = subprocess.run([*command, *options], capture_output=True, text=True, cwd=folder.parent)
    return found.returncode, found.stdout


@pytest.mark.parametrize("options", [[], ["-n", "2"]], ids=["alone", "workers"])
def test_an_unused_file_fails_a_whole_run(folder: Path, options: list[str]) -> None:
    assert run(folder, *options)[0] == 0
    (folder / "golden" / "small" / "old.txt").write_text("")
    status, output = run(folder, *options)
    assert status == 1 and "no test uses: tests/golden/small/old.txt" in output


def test_a_part_of_the_tests_leaves_files_unused(folder: Path) -> None:
    assert run(folder, "-k", "one")[0] == 0


def test_missing_and_different_files_fail(folder: Path) -> None:
    (folder / "golden" / "small" / "one.txt").unlink()
    (folder / "golden" / "shared" / "two.txt").write_text("3\n")
    status, output = run(folder)
    assert status == 1 and "one.txt is missing" in output and "two.txt differs" in output


def test_updating_writes_and_removes(folder: Path) -> None:
    (folder / "golden" / "small" / "one.txt").unlink()
    (folder / "golden" / "small" / "old.txt").write_text("")
    assert run(folder, "--update-golden")[0] == 0
    assert (folder / "golden" / "small" / "one.txt").read_bytes() == b"1\n"
    assert not (folder / "golden" / "small" / "old.txt").exists()
    assert run(folder)[0] == 0
