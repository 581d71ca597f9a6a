"""Schedules as text: one table, which `read_schedule` reads back to the same schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from tensorc.ir.schedule import Certificate, RingPlan, Schedule

HEADERS = {
    "role": ("role", "warps", "registers"),
    "operation": ("operation", "role", "stage", "cycle", "order"),
    "ring": ("ring", "depth", "offset", "full", "bytes", "empty"),
    "unit": ("unit", "order", "/", "barriers"),
    "figure": ("figure", "value", "source"),
    "assumed": ("assumed", "times", "ii", "roles"),
}
"""The tables of the text by the first word of their header."""


def print_schedule(schedule: Schedule) -> str:
    """The schedule as a table; ends with a newline."""
    proof = schedule.certificate
    lines = [
        f"schedule {schedule.problem} on {schedule.machine}: ii {schedule.ii}, bound {proof.bound} "
        f"by {proof.limit}, {proof.proof}, stages {proof.stages}, slack {proof.slack}"
    ]
    for name, rows in _tables(schedule):
        if rows:
            lines += _aligned(HEADERS[name], rows)
    lines += [f"  note {proof.note}"] if proof.note else []
    return "\n".join(lines) + "\n"


def headline(schedule: Schedule) -> str:
    """The certificate in one sentence, for reports."""
    proof = schedule.certificate
    roles = ", ".join(
        f"{p.role} ({p.warps} warp{'s' * (p.warps > 1)}, {p.registers} registers)"
        for p in schedule.roles
    )
    rests = [f"{f.key} {number(f.value)}" for f in proof.figures if f.source == "assumed"]
    tail = f"; assumed: {', '.join(rests)}" if rests else ""
    return f"{_interval(schedule)}; {roles}{tail}"


def _interval(schedule: Schedule) -> str:
    """The interval, and what is proved of it."""
    proof, ii = schedule.certificate, schedule.ii
    shown = f"II {ii} = bound {proof.bound}" if ii == proof.bound else f"II {ii}"
    how = {
        "closed form": f"({proof.limit}), proved in closed form",
        "refuted below": f"proved: II {ii - 1} is refuted; closed form: {proof.limit}",
        "none": f"bound {proof.bound} ({proof.limit}), gap {float(gap(schedule)):.1%}",
    }[proof.proof]
    return f"{schedule.problem} on {schedule.machine}: {shown} {how}"


def told(schedule: Schedule) -> tuple[str, ...]:
    """What a reader of the code made from it wants to know: the interval, and a line for each role
    with the stage and the cycle at which its operations start."""
    lines = [_interval(schedule)]
    for plan in schedule.roles:
        own = [p for p in schedule.placements if p.role == plan.role]
        starts = ", ".join(f"{p.operation} {p.stage}:{p.cycle}" for p in own)
        lines.append(f"{plan.role}, stage:cycle of each operation: {starts}")
    return tuple(lines)


def gap(schedule: Schedule) -> Fraction:
    """How far the interval may be above the best one: (ii - bound) / bound."""
    bound = schedule.certificate.bound
    return Fraction(schedule.ii - bound, bound)


def number(value: Fraction) -> str:
    """An exact number as short as it goes: decimal where that is exact."""
    return f"{float(value):g}" if Fraction(f"{float(value):g}") == value else str(value)


def _tables(schedule: Schedule) -> Iterator[tuple[str, list[list[str]]]]:
    proof = schedule.certificate
    yield "role", [[p.role, str(p.warps), str(p.registers)] for p in schedule.roles]
    yield (
        "operation",
        [
            [p.operation, p.role, str(p.stage), str(p.cycle), turns(schedule, p.operation)]
            for p in schedule.placements
        ],
    )
    yield (
        "ring",
        [[p.ring, *map(str, (p.depth, p.offset, *_arrivals(p)))] for p in schedule.rings],
    )
    yield (
        "unit",
        [
            [o.unit, " ".join([*o.operations, "/", *(f"{r} {n}" for r, n in o.barriers)])]
            for o in schedule.orders
        ],
    )
    yield "figure", [[f.key, str(f.value), f.source] for f in proof.figures]
    yield "assumed", _changes(proof)


def _changes(proof: Certificate) -> list[list[str]]:
    return [
        [s.key, str(s.factor), "infeasible" if s.ii is None else str(s.ii), " ".join(s.roles)]
        for s in proof.sensitivity
    ]


def turns(schedule: Schedule, operation: str) -> str:
    """The operation's turn on each exclusive unit that it uses, as `unit 2, other 1`."""
    found = [
        f"{order.unit} {1 + order.operations.index(operation)}"
        for order in schedule.orders
        if operation in order.operations
    ]
    return ", ".join(found)


def _aligned(header: tuple[str, ...], rows: Iterable[list[str]]) -> list[str]:
    """Rows under their header, columns aligned."""
    table = [list(header), *rows]
    width = max(map(len, table))
    table = [[*row, *[""] * (width - len(row))] for row in table]
    sizes = [max(len(row[i]) for row in table) for i in range(width)]
    if header[0] == "unit":
        sizes[1] = 0
    table[0][0] = table[0][0].ljust(sizes[0] + 2)
    lines = [
        "  ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)) for row in table
    ]
    return [f"{'  ' if i == 0 else '    '}{line}".rstrip() for i, line in enumerate(lines)]


def _arrivals(plan: RingPlan) -> tuple[int, int, int]:
    return plan.full_arrivals, plan.full_bytes, plan.empty_arrivals
