"""A simulated run as a trace file for Perfetto and chrome://tracing (the JSON array format).

One process for roles and one for exclusive units; a thread for each of them; one microsecond in the
viewer stands for one cycle.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from tensorc.ir.schedule import LoopProblem, Run, Schedule, operation_of, placement_of

Event = dict[str, object]

ROLES, UNITS = 1, 2


def trace(problem: LoopProblem, schedule: Schedule, run: Run) -> str:
    """The JSON text of `run`: complete events with the iteration as an argument."""
    events = [*_names(schedule), *_bars(problem, schedule, run)]
    document = {"schema": 1, "displayTimeUnit": "ns", "traceEvents": events}
    return json.dumps(document, separators=(",", ":")) + "\n"


def _names(schedule: Schedule) -> Iterator[Event]:
    for process, name in ((ROLES, "roles"), (UNITS, "units")):
        yield {"ph": "M", "pid": process, "tid": 0, "name": "process_name", "args": {"name": name}}
    roles = [plan.role for plan in schedule.roles]
    units = [order.unit for order in schedule.orders]
    for process, names in ((ROLES, roles), (UNITS, units)):
        for thread, name in enumerate(names, start=1):
            args = {"name": name}
            yield {"ph": "M", "pid": process, "tid": thread, "name": "thread_name", "args": args}


def _bars(problem: LoopProblem, schedule: Schedule, run: Run) -> Iterator[Event]:
    roles = {plan.role: number for number, plan in enumerate(schedule.roles, start=1)}
    units = {order.unit: number for number, order in enumerate(schedule.orders, start=1)}
    for name, starts in run.starts.items():
        item = operation_of(problem)[name]
        role = roles[placement_of(schedule)[name].role]
        for iteration, begin in enumerate(starts):
            yield _bar(ROLES, role, name, iteration, begin, item.busy)
            for use in item.uses:
                if use.unit in units and use.cycles:
                    at = begin + use.offset
                    yield _bar(UNITS, units[use.unit], name, iteration, at, use.cycles)


def _bar(process: int, thread: int, name: str, i: int, begin: float, cycles: int) -> Event:
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "name": name,
        "ts": begin,
        "dur": cycles,
        "args": {"iteration": i},
    }
