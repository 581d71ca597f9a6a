"""Seeded faults of the hand-written kernels, from faults_data: the edits, and what must be told."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.emulator.running import Kernel

DATA = Path(__file__).parent / "faults_data"
ARCHES = {"sm80": "sm_80", "sm90a": "sm_90a", "sm100a": "sm_100a"}


@dataclass(frozen=True)
class Fault:
    """A fault of one kernel: edits of its text, and the report that names the object.

    expect is a regular expression over `kind: text`; empty where only the numbers can tell.
    """

    name: str
    edits: tuple[tuple[str, str, int | None], ...]
    expect: str = ""


@dataclass(frozen=True)
class Case:
    """A kernel, a shape that turns every ring twice and has ragged edges, and its faults."""

    kernel: Kernel
    shape: tuple[int, ...]
    blocks: int
    faults: tuple[Fault, ...]


def _fault(entry: dict[str, Any]) -> Fault:
    edits = tuple(
        (edit["old"], edit.get("new", ""), None if edit.get("every") else edit.get("nth", 0))
        for edit in entry["edit"]
    )
    return Fault(entry["name"], edits, entry.get("expect", ""))


def _case(path: Path) -> Case:
    data = tomllib.loads(path.read_text())
    kernel = Kernel(f"{path.stem}.cu", ARCHES[path.stem.split("_")[1]])
    return Case(kernel, tuple(data["shape"]), data["blocks"], tuple(map(_fault, data["fault"])))


CASES = [_case(path) for path in sorted(DATA.glob("*.toml"))]
