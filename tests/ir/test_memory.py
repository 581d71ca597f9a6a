"""Nodes give their memory back: measured in a process of its own, where nothing else allocates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
from benchmarks.memory import BAR, measured, nodes
found = measured(nodes, 400_000)
assert found.peak > 2 * found.before, found
assert found.ratio < BAR, found
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc; trims glibc's heap")
def test_memory_of_nodes_that_are_gone_is_given_back() -> None:
    root = Path(__file__).parents[2]
    made = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, cwd=root, check=False
    )
    assert made.returncode == 0, made.stderr
