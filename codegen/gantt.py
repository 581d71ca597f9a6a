"""A schedule as a chart for the terminal: one period of the steady state, a line for each role and
each exclusive unit. Nothing is decided here."""

from __future__ import annotations

from tensorc.ir.print_schedule import headline
from tensorc.ir.schedule import LoopProblem, Schedule, operation_of, program, start

Bar = tuple[int, int, str]
"""Start within the period, cycles, name."""


def gantt(problem: LoopProblem, schedule: Schedule, columns: int = 100) -> str:
    """The chart, at most `columns` wide (40 or more); every column stands for the same cycles.

    A bar begins with as much of the operation's name as it has room for; work that reaches beyond
    the period goes on at its start. Ends with a newline.
    """
    labels = [plan.role for plan in schedule.roles] + [f"[{o.unit}]" for o in schedule.orders]
    margin = max(map(len, labels)) + 2
    width = max(40, columns) - margin
    scale = -(-schedule.ii // width)
    rows = [_role_bars(problem, schedule, plan.role) for plan in schedule.roles]
    rows += [_unit_bars(problem, schedule, order.unit) for order in schedule.orders]
    lines = [headline(schedule), " " * margin + _ruler(schedule.ii, scale)]
    for label, bars in zip(labels, rows, strict=True):
        if bars:
            lines.append(label.ljust(margin) + _line(bars, schedule.ii, scale))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _role_bars(problem: LoopProblem, schedule: Schedule, role: str) -> list[Bar]:
    return [
        (place.cycle, operation_of(problem)[place.operation].busy, place.operation)
        for place in program(schedule, role)
    ]


def _unit_bars(problem: LoopProblem, schedule: Schedule, unit: str) -> list[Bar]:
    return [
        ((start(schedule, item.name) + use.offset) % schedule.ii, use.cycles, item.name)
        for item in problem.operations
        for use in item.uses
        if use.unit == unit and use.cycles
    ]


def _ruler(ii: int, scale: int) -> str:
    """Cycle numbers, every ten columns."""
    return "".join(str(cycle).ljust(10) for cycle in range(0, ii, 10 * scale))


def _line(bars: list[Bar], ii: int, scale: int) -> str:
    cells = ["."] * -(-ii // scale)
    for begin, cycles, name in sorted(bars):
        first, last = begin // scale, max(begin, begin + cycles - 1) // scale
        text = name[: last - first].ljust(last - first + 1, "=") if last > first else name[:1]
        for column, char in zip(range(first, last + 1), text, strict=False):
            cells[column % len(cells)] = char
    return "".join(cells)
