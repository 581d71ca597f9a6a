"""A campaign: generate, examine in isolation, reduce what fails, write it down."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tensorc.fuzz.case import Case, of_generated, write
from tensorc.fuzz.generate import generate
from tensorc.fuzz.isolate import Isolated
from tensorc.fuzz.oracle import Finding
from tensorc.fuzz.reduce import reduced
from tensorc.fuzz.ways import drawn
from tensorc.ir.choose import RandomChooser


@dataclass
class Tally:
    """What a campaign saw: outcomes by count, failures by folder."""

    outcomes: Counter[str] = field(default_factory=Counter[str])
    skipped: Counter[str] = field(default_factory=Counter[str])
    folders: list[Path] = field(default_factory=list[Path])
    signatures: set[str] = field(default_factory=set[str])


def campaign(
    seconds: float, seed: int, folder: Path, most: int | None = None,
    progress: Callable[[Tally], None] | None = None, device: str = "cpu",
) -> Tally:  # fmt: skip
    """Cases from consecutive seeds for `seconds`, or `most` cases; one folder for each signature.

    The same seed gives the same cases in the same order; every third has f8 and complex types,
    and each runs in a way of its own on `device`.
    """
    tally = Tally()
    end = time.monotonic() + seconds
    number = 0
    with Isolated() as isolated:
        while time.monotonic() < end and (most is None or number < most):
            extra = (seed + number) % 3 == 2
            chooser = RandomChooser(seed + number)
            made = generate(chooser, extra)
            case = of_generated(made, drawn(chooser, device))
            number += 1
            finding = isolated.examine(case)
            tally.outcomes[finding.outcome] += 1
            if finding.outcome == "skip":
                tally.skipped[finding.signature] += 1
            if finding.outcome == "fail" and finding.signature not in tally.signatures:
                tally.signatures.add(finding.signature)
                tally.folders.append(_record(isolated, case, finding, folder))
            if progress is not None:
                progress(tally)
    return tally


def _record(isolated: Isolated, case: Case, finding: Finding, folder: Path) -> Path:
    def fails(candidate: Case) -> bool:
        found = isolated.examine(candidate)
        return found.outcome == "fail" and found.signature == finding.signature

    small, finished = reduced(case, fails)
    found = isolated.examine(small)
    return write(folder, small, report(small, found, finished))


def report(case: Case, finding: Finding, finished: bool) -> str:
    """What people read first."""
    sizes = ", ".join(f"{name}={size}" for name, size in case.sizes.items())
    lines = [
        f"# {finding.signature}", "", "```", case.text.rstrip(), "```", "",
        f"sizes: {sizes}", f"data: {dict(case.recipes)}", f"layouts: {dict(case.layouts)}",
        f"way: {case.way.changes()}", "",
        finding.detail, "",
        "Run it again: `tensorc fuzz rerun FOLDER`.",
    ]  # fmt: skip
    if not finished:
        lines.append("The reduction stopped at its budget; a smaller case may exist.")
    return "\n".join(lines) + "\n"
