"""A test case as data: text, sizes, layouts, recipes and way; written to and read from a folder.

A folder `tcbug-<digest>` holds `case.json` (everything), `program.tc` (for people) and `report.md`.
Opening one executes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from tensorc.fuzz.generate import Generated
from tensorc.fuzz.ways import USUAL, Way, from_changes

SCHEMA = "tensorc-case-1"
LARGEST = 1 << 20  # bytes of a case.json


@dataclass(frozen=True)
class Case:
    """A program's text, the value of every free extent, how each array is made, and how it runs."""

    text: str
    sizes: Mapping[str, int]
    recipes: Mapping[str, str]
    layouts: Mapping[str, str]
    policy: str = ""
    way: Way = USUAL

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that name the case."""
        return hashlib.sha256(to_json(self).encode()).hexdigest()[:12]


def of_generated(made: Generated, way: Way = USUAL) -> Case:
    """A generated program as a case, its text from the language's printer."""
    from tensorc.ir.print_tensor import show_program

    text = show_program(made.program)
    return Case(text, dict(made.sizes), dict(made.recipes), dict(made.layouts), made.policy, way)


def to_json(case: Case) -> str:
    """The case as JSON, keys in order."""
    fields = {"schema": SCHEMA, **asdict(case), "way": case.way.changes()}
    return json.dumps(fields, sort_keys=True, indent=1)


def from_json(text: str) -> Case:
    """A case from JSON. ValueError: not of this schema, too large, or a field of another type."""
    if len(text) > LARGEST:
        raise ValueError(f"a case of {len(text)} characters; at most {LARGEST}")
    data = json.loads(text)
    if not isinstance(data, dict) or cast(Mapping[str, object], data).get("schema") != SCHEMA:
        raise ValueError(f"not a case of schema {SCHEMA}")
    fields = cast(dict[str, Any], data)
    if not isinstance(fields.get("text"), str):
        raise ValueError("the case has no text")
    return Case(
        fields["text"],
        {str(k): int(v) for k, v in dict(fields.get("sizes", {})).items()},
        {str(k): str(v) for k, v in dict(fields.get("recipes", {})).items()},
        {str(k): str(v) for k, v in dict(fields.get("layouts", {})).items()},
        str(fields.get("policy", "")),
        from_changes(dict(fields.get("way", {}))),
    )


def write(folder: Path, case: Case, report: str) -> Path:
    """Write a case below `folder`; returns its own folder."""
    from tensorc.observe import write_text

    target = folder / f"tcbug-{case.digest}"
    write_text(target / "program.tc", case.text)
    write_text(target / "report.md", report)
    write_text(target / "case.json", to_json(case))
    return target


def load(folder: Path) -> Case:
    """The case of a folder, or of a case.json itself."""
    path = folder / "case.json" if folder.is_dir() else folder
    return from_json(path.read_text())
