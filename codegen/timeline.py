"""A simulated run as a drawing: SVG text with a row for each role and each exclusive unit.

Nothing is decided here; `passes/scheduling/simulate.py` says when operations start. All text is
escaped, nothing outside the drawing is referred to.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from tensorc.ir.schedule import LoopProblem, Run, Schedule, operation_of, placement_of

_MARGIN, _WIDTH, _ROW, _BAR = 110, 1100, 24, 18
_COLOURS = (
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#b07aa1", "#9c755f", "#edc948",
)  # fmt: skip

Bar = tuple[float, float, str, int]
"""Start and end in cycles, operation, iteration."""


def timeline(problem: LoopProblem, schedule: Schedule, run: Run) -> str:
    """The drawing as one `<svg>` element; one colour for each iteration, a title for each bar."""
    rows = [(plan.role, _role(problem, schedule, run, plan.role)) for plan in schedule.roles]
    units = [(f"[{o.unit}]", _unit(problem, run, o.unit)) for o in schedule.orders if o.operations]
    rows += units
    ends = [end for _, bars in rows for _, end, _, _ in bars]
    scale = _WIDTH / max(1.0, max(ends, default=1.0))
    height = _ROW * (len(rows) + 1) + 6
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_MARGIN + _WIDTH + 10} {height}" '
        'role="img" font-family="monospace" font-size="11">',
        f"<title>{escape(problem.name)}: predicted timeline in cycles</title>",
        *_ruler(schedule.ii, max(ends, default=1.0), scale, height),
    ]
    for k, (label, bars) in enumerate(rows, start=1):
        y = k * _ROW
        lines.append(f'<text x="0" y="{y + 13}">{escape(label)}</text>')
        lines += [_bar(bar, y, scale) for bar in bars]
    return "\n".join([*lines, "</svg>"])


def _role(problem: LoopProblem, schedule: Schedule, run: Run, role: str) -> list[Bar]:
    places, found = placement_of(schedule), list[Bar]()
    for name, starts in run.starts.items():
        if places[name].role == role:
            busy = operation_of(problem)[name].busy
            found += [(at, at + busy, name, k) for k, at in enumerate(starts)]
    return found


def _unit(problem: LoopProblem, run: Run, unit: str) -> list[Bar]:
    found = list[Bar]()
    for name, starts in run.starts.items():
        for use in operation_of(problem)[name].uses:
            if use.unit == unit and use.cycles:
                found += [
                    (at + use.offset, at + use.offset + use.cycles, name, k)
                    for k, at in enumerate(starts)
                ]
    return found


def _ruler(ii: int, end: float, scale: float, height: int) -> Iterator[str]:
    """A line and a number at the start of every period."""
    period = 0
    while period * ii <= end:
        x = _MARGIN + period * ii * scale
        yield f'<line x1="{x:.1f}" y1="16" x2="{x:.1f}" y2="{height}" stroke="#bbbbbb"/>'
        yield f'<text x="{x:.1f}" y="12">{period * ii}</text>'
        period += 1


def _bar(bar: Bar, y: int, scale: float) -> str:
    begin, end, name, iteration = bar
    x, width = _MARGIN + begin * scale, max(1.0, (end - begin) * scale)
    colour = _COLOURS[iteration % len(_COLOURS)]
    told = escape(f"{name}, iteration {iteration}: {begin:.0f} to {end:.0f}")
    shown = escape(name) if width > 7 * len(name) else ""
    label = f'<text x="{x + 2:.1f}" y="{y + 13}" fill="#ffffff">{shown}</text>' if shown else ""
    return (
        f'<g><title>{told}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" '
        f'fill="{colour}"/>{label}</g>'
    )
