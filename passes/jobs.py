"""The passes that run in the worker, by name: JSON in, JSON out; and what asks for them.

A solver may hang, crash or eat memory; its caller must not. Whoever needs one is given a `Run`,
which does a job by its name: `here` in this process, the driver's in the worker, with a limit.
A job calls `step()` between its steps; it raises when the time is up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from tensorc.ir.strict_json import Json

if TYPE_CHECKING:
    from tensorc.ir.schedule import LoopProblem, Schedule
    from tensorc.passes.algebra.egraph import Graph, Limits
    from tensorc.passes.algebra.extract import Extracted
    from tensorc.passes.algebra.facts import Facts
    from tensorc.passes.algebra.terms import Term
    from tensorc.passes.scheduling.schedule_polish import Aim
    from tensorc.passes.scheduling.schedule_search import Effort

Step = Callable[[], None]
Run = Callable[[str, Json], Json]


def here(name: str, data: Json) -> Json:
    """Do a job in this process, without a limit."""
    return JOBS[name](data, lambda: None)


# --- saturation -----------------------------------------------------------------------------------


def saturated(
    terms: Sequence[Term], facts: Facts, rules: str, limits: Limits, sizes: Mapping[str, int],
    run: Run = here,
) -> tuple[Graph, Extracted]:  # fmt: skip
    """The saturated e-graph of `terms` and its cheapest form at `sizes`, found by `run`.

    Raises EngineFailed; ImportError where a solver is not installed; what `run` raises.
    """
    from tensorc.passes.algebra import wire
    from tensorc.passes.algebra.egraph import EngineFailed

    data: Json = {
        "terms": wire.terms_to_json(terms),
        "facts": wire.facts_to_json(facts),
        "rules": rules,
        "limits": asdict(limits),
        "sizes": dict(sizes),
    }
    answer = cast("Mapping[str, Any]", run("saturate", data))
    if "engine" in answer:
        raise EngineFailed(answer["engine"])
    if "missing" in answer:
        raise ImportError(answer["missing"])
    return wire.graph_from_json(answer["graph"]), wire.extracted_from_json(answer["extracted"])


def _saturate(data: Any, step: Step) -> Json:
    from tensorc.passes.algebra import wire
    from tensorc.passes.algebra.egraph import EngineFailed, Limits, saturate
    from tensorc.passes.algebra.extract import extract

    terms, facts = wire.terms_from_json(data["terms"]), wire.facts_from_json(data["facts"])
    try:
        graph = saturate(terms, facts, data["rules"], Limits(**data["limits"]))
        step()
        found = extract(graph, data["sizes"])
    except EngineFailed as reason:
        return {"engine": str(reason)}
    except ImportError as reason:
        return {"missing": str(reason)}
    return {"graph": wire.graph_to_json(graph), "extracted": wire.extracted_to_json(found)}


# --- schedules ------------------------------------------------------------------------------------


def scheduled(
    problem: LoopProblem, effort: Effort, aim: Aim = "slack", run: Run = here
) -> Schedule:
    """The schedule of a problem, found by `run` and judged here by the checker.

    Raises Infeasible (E403); ImportError where the solver is not installed; BrokenInvariant for an
    answer that breaks its problem; what `run` raises.
    """
    from tensorc.errors import BrokenInvariant, Infeasible
    from tensorc.ir.problem_json import problem_to_json
    from tensorc.ir.read_schedule import read_schedule
    from tensorc.passes.scheduling.check_schedule import check_schedule

    data: Json = {"problem": problem_to_json(problem), "effort": asdict(effort), "aim": aim}
    answer = cast("Mapping[str, Any]", run("schedule", data))
    if "infeasible" in answer:
        raise Infeasible(answer["infeasible"], **answer["about"])
    if "missing" in answer:
        raise ImportError(answer["missing"])
    made = read_schedule(answer["schedule"], problem.name)
    if faults := check_schedule(problem, made):
        text = "\n".join(map(str, faults))
        raise BrokenInvariant(f"the schedule of {problem.name} breaks its problem:\n{text}")
    return made


def _schedule(data: Any, step: Step) -> Json:
    from tensorc.errors import Infeasible
    from tensorc.ir.print_schedule import print_schedule
    from tensorc.ir.problem_json import problem_from_json
    from tensorc.passes.scheduling.schedule import schedule
    from tensorc.passes.scheduling.schedule_search import Effort

    step()
    try:
        problem = problem_from_json(data["problem"])
        made = schedule(problem, Effort(**data["effort"]), data["aim"])
    except Infeasible as reason:
        about = {"resource": reason.resource, "need": reason.need, "limit": reason.limit}
        return {"infeasible": str(reason), "about": about}
    except ImportError as reason:
        return {"missing": str(reason)}
    return {"schedule": print_schedule(made)}


def _ping(data: Any, step: Step) -> Json:
    """The data itself: whether the worker is there."""
    step()
    return data


JOBS: Mapping[str, Callable[[Any, Step], Json]] = {
    "ping": _ping,
    "saturate": _saturate,
    "schedule": _schedule,
}
