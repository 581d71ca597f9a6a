"""What a launch in the emulator came to: reports with their places, counts, virtual time."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

Departure = tuple[int, int]
"""A scheduling step and what was picked there instead of the default."""


@dataclass(frozen=True)
class Report:
    """One kind of fault at one place.

    kind: race, proxy, uninitialised, bounds, alignment, barrier, divergence, wgmma, tcgen05, tensor
    map, registers, deadlock, livelock, leftover or launch. place and other: `file:line` of the
    access and, for a race with an asynchronous operation, of that one; empty where nothing tells
    them. block and thread are those of the first occurrence, step its scheduling step.
    """

    kind: str
    text: str
    role: str
    place: str
    other: str
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    step: int
    count: int

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        other = f" (issued at {self.other})" if self.other else ""
        times = f", {self.count} times" if self.count > 1 else ""
        who = f"block {self.block}, {self.role}" if self.role else f"block {self.block}"
        return f"{where}{self.kind}: {self.text}{other} [{who}{times}]"


@dataclass(frozen=True)
class Count:
    """Memory requests of warps at one place, in wavefronts (shared) or 32-byte sectors (global).

    least is the cost of the same requests without bank conflicts, or with every sector full.
    """

    kind: str
    place: str
    requests: int
    cost: int
    least: int


@dataclass(frozen=True)
class Outcome:
    """All that one launch told.

    taken: the scheduler's departures from its default order, enough to run the launch again; story:
    the first 64 of them in words; both only where the mode records.
    cycles: virtual time, 0 unless asked for. seconds: processor time of the worker.
    """

    reports: tuple[Report, ...] = ()
    counts: tuple[Count, ...] = ()
    taken: tuple[Departure, ...] = field(default=(), repr=False)
    story: tuple[str, ...] = field(default=(), repr=False)
    steps: int = 0
    wgmmas: int = 0
    operations: int = 0
    cycles: int = 0
    tensor_cycles: int = 0
    seconds: float = 0.0
    bulk_loaded: int = 0
    bulk_stored: int = 0

    @property
    def clean(self) -> bool:
        return not self.reports

    def kinds(self) -> frozenset[str]:
        return frozenset(report.kind for report in self.reports)

    def __str__(self) -> str:
        return "\n".join(map(str, self.reports)) or "no report"


def places(library: Path, offsets: Sequence[int]) -> dict[int, str]:
    """`file:line` of code offsets in a library, by addr2line; empty where that tool is missing.

    Offsets are return addresses, so the byte before is looked up. Of a chain of inlined calls, the
    innermost outside the emulator's own headers counts.
    """
    tool = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    wanted = sorted({offset for offset in offsets if offset > 0})
    if not tool or not wanted:
        return {}
    command = [tool, "-e", str(library), "-a", "-i", *(hex(offset - 1) for offset in wanted)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    found: dict[int, str] = {}
    current = 0
    for line in answer.stdout.splitlines():
        if line.startswith("0x"):
            current = int(line, 16) + 1
        elif current not in found and not line.startswith("?"):
            leaf = Path(line.split(" ")[0]).name
            if not leaf.startswith(("emulator_", "device")):
                found[current] = leaf
    return found


def outcome_of(answer: dict[str, Any], library: Path) -> Outcome:
    """An `Outcome` from the worker's JSON."""
    reports = cast("list[dict[str, Any]]", answer["reports"])
    counts = cast("list[dict[str, Any]]", answer["counts"])
    offsets = [*(r[key] for r in reports for key in ("pc", "other")), *(c["pc"] for c in counts)]
    known = places(library, offsets)
    return Outcome(
        reports=tuple(
            Report(
                r["kind"],
                r["text"],
                r["role"],
                known.get(r["pc"], ""),
                known.get(r["other"], ""),
                cast("tuple[int, int, int]", tuple(r["block"])),
                cast("tuple[int, int, int]", tuple(r["thread"])),
                r["step"],
                r["count"],
            )
            for r in reports
        ),
        counts=tuple(
            Count(c["kind"], known.get(c["pc"], ""), c["requests"], c["cost"], c["least"])
            for c in counts
        ),
        taken=tuple((step, pick) for step, pick in answer["taken"]),
        story=tuple(answer["story"]),
        **{
            key: answer[key]
            for key in (
                "steps",
                "wgmmas",
                "operations",
                "cycles",
                "tensor_cycles",
                "seconds",
                "bulk_loaded",
                "bulk_stored",
            )
        },
    )
