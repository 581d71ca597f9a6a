"""Schedules by the solver in the worker process, or from the cache: of problems, of the kernels of
a level 2, and what reports say of them. Which file or operator they are of is known elsewhere.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tensorc.errors import BrokenInvariant, Unavailable
from tensorc.ir.schedule import LoopProblem, Schedule
from tensorc.ir.tile import TileProgram
from tensorc.machine.product import Product
from tensorc.passes.pipelining.scheduled import Pipelined, Solve

if TYPE_CHECKING:
    from tensorc.explain import Section
    from tensorc.passes.scheduling.schedule_polish import Aim
    from tensorc.passes.scheduling.schedule_search import Effort

_LOG = logging.getLogger("tensorc")
COLUMNS = 98
"""Of charts in reports."""


def pipelines_of(
    tiles: TileProgram, product: Product, prove: bool = False, by_hand: str | None = None
) -> tuple[Pipelined, ...]:
    """The pipelines of a program's kernels; see `solver`. `prove`: certificates also say what the
    interval and the roles are with every assumed number of the product at x0.5 and x1.5."""
    from tensorc.passes.pipelining.scheduled import pipelines

    found = pipelines(tiles, product, solver(prove, by_hand))
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


def solver(prove: bool = False, by_hand: str | None = None) -> Solve:
    """`solved`; or, with the path of a schedule written by hand, what is in that file, once judged.

    That raises ArgumentError for one that breaks a rule (E405) or cannot be read (E407). OSError:
    the file cannot be read.
    """
    from tensorc.passes.scheduling.check_schedule import schedule_from_text

    if by_hand is None:
        return lambda problem: solved(problem, prove)
    text = Path(by_hand).read_text("utf-8", errors="replace")
    return lambda problem: schedule_from_text(problem, text, by_hand)


def solved(problem: LoopProblem, prove: bool = False) -> Schedule:
    """The schedule of a problem: from the cache, or from the solver in the worker process with the
    work that a first call may take, about a second on an idle machine; `prove`: with as much as a
    proof may take, about a minute. A busy machine takes longer over the same answer.

    Where the solver is lost, a list schedule that says so (E404), which is not kept. Raises
    Infeasible; Unavailable where there is no solver.
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
    from tensorc.passes.scheduling.schedule_lost import without_solver

    limit = _SECONDS[effort == PROVE]
    try:
        return scheduled(problem, effort, aim, lambda name, data: worker.run(name, data, limit))
    except worker.JobFailed as stopped:
        if stopped.reason == "error":
            raise BrokenInvariant(f"{problem.name}: {stopped.detail}") from stopped
        reason = f"the solver was lost ({stopped})"
        made = without_solver(problem, reason)
        kept = _kept(problem)
        _LOG.warning("%s: %s; it has a list schedule%s", problem.name, reason, kept)
        return made
    except ImportError as missing:
        raise Unavailable(f"{missing}; pip install ortools") from missing


def _kept(problem: LoopProblem) -> str:
    """Where the problem of a lost solver lies, so that it can be looked at alone, in words."""
    from tensorc.ir.problem_json import problem_to_json
    from tensorc.runtime.cache import directory

    folder = directory()
    if folder is None:
        return ""
    path = folder / "lost" / f"{re.sub('[^a-zA-Z0-9.]', '_', problem.name)[:80]}.json"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(problem_to_json(problem), "utf-8")
    except OSError:
        return ""
    return f"; the problem is kept: tensorc explain {path}"
