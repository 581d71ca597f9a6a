"""The section on schedules: interval against its bound, what limits it, what it rests on, a chart
of one period; or why a kernel has none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tensorc.explain.subject import Section
from tensorc.ir.print_schedule import gap, headline
from tensorc.ir.schedule import LoopProblem, Schedule, stages
from tensorc.ir.strict_json import Json
from tensorc.passes.pipelining.scheduled import Pipelined

Chart = tuple[str, ...]
"""Lines of a chart, made by whoever can draw it."""


def schedules(found: Iterable[tuple[Pipelined, str, Chart]]) -> Section:
    """The section about kernels, each with the reason if it has no schedule, and its chart."""
    lines, data = list[str](), list[Json]()
    for item, reason, chart in found:
        lines += _lines(item, reason, chart)
        data.append(_data(item, reason))
    return Section("schedules", tuple(lines), data)


def _lines(item: Pipelined, reason: str, chart: Chart) -> Iterator[str]:
    if item.schedule is None or item.problem is None:
        yield f"{item.name}: no pipeline: {reason}"
        return
    yield headline(item.schedule)
    proof = item.schedule.certificate
    depths = [f"{plan.ring} {plan.depth}" for plan in item.schedule.rings]
    yield f"  {stages(item.schedule)} iterations at once; slack {float(proof.slack):.2f}" + (
        f"; ring depths {', '.join(depths)}" if depths else ""
    )
    if proof.note:
        yield f"  {proof.note}"
    yield from (f"  {line}" for line in _sensitivity(item.schedule))
    for operation, statements in _bodies(item):
        yield f"  {operation}: {statements}"
    yield from (f"  {line}" for line in chart)
    if reason:
        yield f"  no level 3: {reason}"


def _sensitivity(made: Schedule) -> Iterator[str]:
    """Where an assumed number at x0.5 or x1.5 changes the interval or the roles."""
    table = made.certificate.sensitivity
    same = (made.ii, len(made.roles))
    for row in table:
        if (row.ii, len(row.roles)) != same:
            roles = f", {len(row.roles)} roles" if row.ii else ""
            yield f"with {row.key} x{float(row.factor)}: " + (
                f"II {row.ii}{roles}" if row.ii else "no schedule"
            )
    if table:
        yield f"{len(table)} changes of assumed numbers tried"


def _bodies(item: Pipelined) -> Iterator[tuple[str, str]]:
    """What operations of several statements do, once for all their parts."""
    told = set[tuple[str, ...]]()
    for body in item.channel.bodies if item.channel else ():
        if len(body.statements) > 1 and body.statements not in told:
            told.add(body.statements)
            yield body.operation, ", ".join(body.statements)


def _data(item: Pipelined, reason: str) -> Json:
    if item.schedule is None or item.problem is None:
        return {"kernel": item.name, "reason": reason}
    return {"kernel": item.name, "reason": reason, **_figures(item.problem, item.schedule)}


def _figures(problem: LoopProblem, made: Schedule) -> dict[str, Json]:
    proof = made.certificate
    return {
        "problem": problem.name,
        "machine": made.machine,
        "ii": made.ii,
        "bound": proof.bound,
        "limit": proof.limit,
        "proof": proof.proof,
        "gap": float(gap(made)),
        "slack": float(proof.slack),
        "roles": [{"role": p.role, "warps": p.warps, "registers": p.registers} for p in made.roles],
        "rings": {plan.ring: plan.depth for plan in made.rings},
        "assumed": [figure.key for figure in proof.figures if figure.source == "assumed"],
        "note": proof.note,
        "sensitivity": [
            {"key": row.key, "factor": float(row.factor), "ii": row.ii, "roles": list(row.roles)}
            for row in proof.sensitivity
        ],
    }
