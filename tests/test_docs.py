"""The documentation: every example runs, every link leads somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tensorc.lang import read

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "docs" / f"{name}.md" for name in
         ("language", "numerics", "errors", "cache", "platforms", "extending",
          "fuzzing")]  # fmt: skip
EVERY = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md"]


def blocks(page: Path, kind: str) -> list[str]:
    """The fenced blocks of a kind, in order."""
    return re.findall(rf"^```{kind}\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page: Path, tmp_path: Path) -> None:
    """The blocks of a page are one program."""
    code = blocks(page, "python")
    assert code
    script = tmp_path / f"{page.stem}.py"
    script.write_text("\n\n".join(code), encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for text in blocks(page, "tc"):
        assert read(text)


@pytest.mark.parametrize("page", EVERY, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), target
