"""Schedules by the solver in the worker process, or from the cache: of problems, of the kernels of
a level 2, and what reports say of them. Which file or operator they are of is known elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from tensorc.errors import BrokenInvariant, Unavailable
from tensorc.ir.schedule import LoopProblem, Schedule
from tensorc.ir.tile import TileProgram
from tensorc.machine.product import Product
from tensorc.passes.pipelining.scheduled import Pipelined

if TYPE_CHECKING:
    from tensorc.explain import Section
    from tensorc.passes.scheduling.schedule_polish import Aim
    from tensorc.passes.scheduling.schedule_search import Effort

COLUMNS = 98
"""Of charts in reports."""


def pipelines_of(
    tiles: TileProgram, product: Product, prove: bool = False
) -> tuple[Pipelined, ...]:
    """The pipelines of a program's kernels; see `solved`. `prove`: certificates also say what the
    interval and the roles are with every assumed number of the product at x0.5 and x1.5."""
    from tensorc.passes.pipelining.scheduled import pipelines

    found = pipelines(tiles, product, lambda problem: solved(problem, prove))
    return tuple(_with_sensitivity(item, product) for item in found) if prove else found


def _with_sensitivity(item: Pipelined, product: Product) -> Pipelined:
    from tensorc.passes.scheduling.extract_problem import extract
    from tensorc.passes.scheduling.schedule import JIT
    from tensorc.passes.scheduling.sensitivity import with_sensitivity

    text, made = item.text, item.schedule
    if text is None or made is None:
        return item

    def build(changed: Product) -> LoopProblem:
        return extract(text.kernel, text.machine, changed).problem

    return replace(item, schedule=with_sensitivity(made, build, product, JIT, _cached))


def section(found: Iterable[tuple[Pipelined, str]]) -> Section:
    """What reports say of pipelines, each with the reason if it has none, with a chart of one
    period."""
    from tensorc.codegen.gantt import gantt
    from tensorc.explain.schedules import schedules

    rows: list[tuple[Pipelined, str, tuple[str, ...]]] = []
    for item, reason in found:
        chart: tuple[str, ...] = ()
        if item.problem and item.schedule:
            chart = tuple(gantt(item.problem, item.schedule, COLUMNS).splitlines()[1:])
        rows.append((item, reason, chart))
    return schedules(rows)


def solved(problem: LoopProblem, prove: bool = False) -> Schedule:
    """The schedule of a problem: from the cache, or from the solver in the worker process with the
    work that a first call may take, about a second on an idle machine; `prove`: with as much as a
    proof may take, about a minute. A busy machine takes longer over the same answer.

    Raises Infeasible; Unavailable where there is no solver or it was stopped.
    """
    from tensorc.passes.scheduling.schedule import JIT, PROVE

    return _cached(problem, PROVE if prove else JIT, "slack")


def _cached(problem: LoopProblem, effort: Effort, aim: Aim) -> Schedule:
    from tensorc.passes.scheduling.schedule_cache import cached_schedule
    from tensorc.runtime.cache import directory

    kept = directory()
    folder = kept / "schedules" if kept else None
    return cached_schedule(problem, folder, effort, aim, _solve)


_SECONDS = {True: 300.0, False: 60.0}  # after which the solver is killed, proving or not


def _solve(problem: LoopProblem, effort: Effort, aim: Aim) -> Schedule:
    from tensorc import worker
    from tensorc.passes.jobs import scheduled
    from tensorc.passes.scheduling.schedule import PROVE

    limit = _SECONDS[effort == PROVE]
    try:
        return scheduled(problem, effort, aim, lambda name, data: worker.run(name, data, limit))
    except worker.JobFailed as stopped:
        if stopped.reason == "error":
            raise BrokenInvariant(f"{problem.name}: {stopped.detail}") from stopped
        raise Unavailable(f"the scheduler was stopped ({stopped}); run again") from stopped
    except ImportError as missing:
        raise Unavailable(f"{missing}; pip install ortools") from missing
