"""What several agents did, in order, and as a table with one column an agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One moment of a trace: who, and what."""

    agent: str
    text: str


def table(trace: Sequence[Entry]) -> list[str]:
    """The trace as lines: time downwards, one column an agent, in the order of first move."""
    if not trace:
        return []
    agents = list(dict.fromkeys(entry.agent for entry in trace))
    widths = [max([len(a), *(len(e.text) for e in trace if e.agent == a)]) for a in agents]
    head = "  ".join(f"{a:{w}}" for a, w in zip(agents, widths, strict=True))
    lines = [f"time  {head}".rstrip()]
    for time, entry in enumerate(trace, start=1):
        cells = [
            f"{entry.text if entry.agent == a else '':{w}}"
            for a, w in zip(agents, widths, strict=True)
        ]
        lines.append(f"{time:4}  {'  '.join(cells)}".rstrip())
    return lines
