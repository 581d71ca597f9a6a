"""Pass: a loop problem to its schedule, with a certificate.

Afterwards `check_schedule` has nothing to say about the pair. The function is pure: limits are
deterministic work, so the same problem gives the same schedule; a wall-clock limit only kills, and
what was killed is marked in the certificate's note and not to be kept.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from tensorc.errors import BrokenInvariant
from tensorc.ir.schedule import Certificate, LoopProblem, Proof, Schedule
from tensorc.ir.verify_schedule import verify_problem
from tensorc.passes.scheduling.check_schedule import check_schedule
from tensorc.passes.scheduling.list_schedule import list_schedule
from tensorc.passes.scheduling.schedule_answer import assemble
from tensorc.passes.scheduling.schedule_bounds import limits
from tensorc.passes.scheduling.schedule_infeasible import infeasible
from tensorc.passes.scheduling.schedule_model import build
from tensorc.passes.scheduling.schedule_polish import Aim, polish
from tensorc.passes.scheduling.schedule_search import Effort, Found, Meter, search
from tensorc.passes.scheduling.schedule_short import FEW, for_few

JIT = Effort(total=0.22, probe=0.2, polish=0.1, deepen=False, gap=1 / 256)
"""For a first call: an answer in about a second, within 0.4 % of its bound if that is quick. Its
work is what ends it and not the clock, so that the answer is the same on a busy machine."""

PROVE = Effort()
"""For `compile` ahead of time: about a minute, proved in most cases."""


def schedule(problem: LoopProblem, effort: Effort = PROVE, aim: Aim = "slack") -> Schedule:
    """The schedule of `problem` with the smallest interval found, polished as `aim` says.

    Raises Infeasible (E403) with the resource, the need, the limit and the smallest change if no
    interval has a schedule. If the effort ends first, a list schedule is returned, whose gap the
    certificate states.
    """
    if faults := verify_problem(problem):
        raise BrokenInvariant("not a well-formed loop problem:\n" + "\n".join(faults))
    meter = Meter(effort)
    found = search(problem, meter)
    if found.model is None or found.answer is None:
        made = _fallback(problem, found, meter)
    else:
        few = problem.trip is not None and problem.trip <= FEW
        made = _polished(problem, found, meter, "span" if few else aim)
        if few:
            made = for_few(problem, made, meter)
    if faults := check_schedule(problem, made):
        raise BrokenInvariant(
            f"the schedule of {problem.name} breaks its problem:\n" + "\n".join(map(str, faults))
        )
    return made


def _polished(problem: LoopProblem, found: Found, meter: Meter, aim: Aim) -> Schedule:
    """The best of the interval that was found: tiles stay in their roles if they did there."""
    assert found.model and found.answer
    narrow = found.model.problem
    effort = meter.effort
    left = max(effort.total - meter.spent, effort.total / 4)
    budget = replace(effort, total=meter.spent + min(left, 10 * effort.polish))
    rest = Meter(budget, meter.spent, meter.deadline, meter.killed)
    best = polish(narrow, found.model.ii, found.answer, found.model, rest, aim)
    note = "" if narrow is problem else "register tiles stay in their roles"
    if rest.killed:
        note = "; ".join(filter(None, (note, KILLED)))
    proof = _certificate(problem, found, best.model.ii, best.slack, note)
    return assemble(problem, best, proof)


def at_interval(
    problem: LoopProblem, version: LoopProblem, ii: int, proof: Certificate, meter: Meter
) -> Schedule | None:
    """The schedule of the shortest span that is found for `version` of `problem` at `ii`."""
    model = build(version, ii, meter.stages(problem))
    answer = meter.ask(model, meter.effort.polish)
    if answer.solution is None:
        return None
    best = polish(version, ii, answer, model, meter, "span")
    longer = "none" if ii > proof.bound else proof.proof
    return assemble(problem, best, replace(proof, proof=longer, slack=Fraction(0)))


KILLED = "stopped by the clock: not the deterministic answer"


def _certificate(
    problem: LoopProblem, found: Found, ii: int, slack: Fraction, note: str
) -> Certificate:
    """What is known of the interval `ii`: the search's bound and how it was proved."""
    closed, bound = limits(problem)[0], found.refuted + 1
    proof: Proof = "none"
    if ii == closed.cycles:
        proof = "closed form"
    elif ii == bound:
        proof = "refuted below"
    return Certificate(bound, closed.name, proof, found.stages, slack, problem.figures, (), note)


def _fallback(problem: LoopProblem, found: Found, meter: Meter) -> Schedule:
    """A list schedule, or the reason why there is none."""
    made = list_schedule(problem)
    if made is None:
        raise infeasible(problem, Meter(replace(meter.effort, wall=None)))
    note = "TC-N402 the solver found nothing within its effort: list schedule"
    if found.killed:
        note += "; " + KILLED
    proof = _certificate(problem, found, made.ii, Fraction(0), note)
    return replace(made, certificate=proof)
