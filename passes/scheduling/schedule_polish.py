"""Among the schedules of the best interval, the one to build: a lexicographic choice.

In order: few warp groups and few roles; few roles on each ordered unit; few registers that change
roles; slack, the fraction by which all work of threads and all transfers may be stretched at once
without a longer period; a short span from an iteration's first start to its last end. A role less
costs nothing; slack is what jitter eats up first. Before the span comes headroom: how late copies
may land, which the depths of their rings decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Literal as Choice

from tensorc.ir.capacity import groups
from tensorc.ir.schedule import Dependence, LoopProblem, Operation, operation_of, readers_of
from tensorc.passes.scheduling.cp_sat import Answer, Linear, Solution, total
from tensorc.passes.scheduling.schedule_model import Model, build, issuers, life
from tensorc.passes.scheduling.schedule_search import Meter

Aim = Choice["slack", "span"]
"""What decides among structures of equal cost: slack and then span, or span alone."""

GRAIN = 50
"""Slack is sought in steps of 1 / GRAIN."""

MOST = 100
"""Slack of more than MOST / GRAIN is not looked for."""


@dataclass(frozen=True)
class Polished:
    """A solved model and the slack it was solved with."""

    model: Model
    answer: Answer
    slack: Fraction


def polish(
    problem: LoopProblem, ii: int, found: Answer, first: Model, meter: Meter, aim: Aim
) -> Polished:
    """The choice above for `problem` at `ii`, starting from a schedule already found."""
    return _Polish(problem, ii, meter, Polished(first, found, Fraction(0))).run(aim)


def stretched(problem: LoopProblem, slack: Fraction) -> LoopProblem:
    """`problem` with the work of threads and the transfers taking 1 + slack times as long."""
    if not slack:
        return problem

    def longer(cycles: int) -> int:
        return ceil(cycles * (1 + slack))

    operations = tuple(
        replace(o, busy=longer(o.busy), latency=longer(o.latency), hold=longer(o.hold))
        if o.threads
        else o
        for o in problem.operations
    )
    edges = tuple(_stretched(problem, edge, longer) for edge in problem.dependences)
    return replace(problem, operations=operations, dependences=edges)


def _stretched(problem: LoopProblem, edge: Dependence, longer: Callable[[int], int]) -> Dependence:
    source, target = (operation_of(problem)[name] for name in (edge.source, edge.target))
    latency = longer(edge.latency) if source.threads else edge.latency
    hold = longer(edge.hold) if edge.hold and target.threads else edge.hold
    cost = edge.transfer
    moved = replace(cost, latency=longer(cost.latency), busy=longer(cost.busy)) if cost else None
    return replace(edge, latency=latency, hold=hold, transfer=moved)


@dataclass
class _Polish:
    problem: LoopProblem
    ii: int
    meter: Meter
    best: Polished
    limits: tuple[tuple[Callable[[Model], Linear], int], ...] = ()
    open: Model | None = None

    def run(self, aim: Aim) -> Polished:
        work = self.meter.effort.polish
        self.minimise(_roles, work)
        if self.several_issuers():
            self.minimise(_issuers, work)
        else:  # no unit can have fewer than one
            self.limit(_issuers, len(self.used_units()))
        self.minimise(_moved, work / 2)
        if aim == "slack":
            self.stretch()
            self.minimise(_haste, work / 2)
        self.minimise(_span, work / 2)
        return self.best

    def model(self, slack: Fraction) -> Model:
        """The model at this slack, with everything decided so far as a limit."""
        longer, stages = stretched(self.problem, slack), self.best.model.stages
        model = build(longer, self.ii, stages, self.problem)  # alike: like works stay like
        for measure, most in self.limits:
            model.cp.add(measure(model) <= most)
        return model

    def minimise(self, measure: Callable[[Model], Linear], work: float) -> None:
        """Make `measure` as small as the work allows, and hold it there from now on."""
        model = self.open = self.open or self.model(self.best.slack)
        solution = self.best.answer.solution
        assert solution
        model.cp.clear_hints()
        hint(model, self.best.model, solution)
        value = measure(model)
        model.cp.minimize(value)
        answer = self.meter.ask(model, work)
        model.cp.clear_objective()
        if answer.solution:
            least = answer.solution.value(value)
            self.best = replace(self.best, model=model, answer=answer)
            self.limits = (*self.limits, (measure, least))
            model.cp.add(value <= least)

    def limit(self, measure: Callable[[Model], Linear], most: int) -> None:
        """Hold `measure` where it is from now on."""
        self.limits = (*self.limits, (measure, most))
        if self.open is not None:
            self.open.cp.add(measure(self.open) <= most)

    def used_units(self) -> dict[str, set[str]]:
        """The ordered units that are used, with the operations on each."""
        users = dict[str, set[str]]()
        ordered = {unit.name for unit in self.problem.units if unit.ordered}
        for item in self.problem.operations:
            for unit in {use.unit for use in item.uses} & ordered:
                users.setdefault(unit, set()).add(item.name)
        return users

    def several_issuers(self) -> bool:
        """Whether the schedule found has several roles on an ordered unit."""
        model, solution = self.best.model, self.best.answer.solution
        assert solution
        role = {name: r for (name, r), literal in model.within.items() if solution.value(literal)}
        return any(len({role[name] for name in names}) > 1 for names in self.used_units().values())

    def stretch(self) -> None:
        """Bisect for the largest slack that keeps the interval and the structure."""
        low, high = 0, MOST + 1
        while high - low > 1:
            middle = (low + high) // 2 if low else 1  # none at all is frequent
            slack = Fraction(middle, GRAIN)
            model = self.model(slack)
            answer = self.meter.ask(model, self.meter.effort.polish / 4)
            if answer.solution:
                low, self.best, self.open = middle, Polished(model, answer, slack), model
            else:
                high = middle


def hint(model: Model, known: Model, solution: Solution) -> None:
    """Start the search of `model` at the answer of another model of the same problem."""
    for mine, theirs in (
        (model.phase, known.phase),
        (model.stage, known.stage),
        (model.depth, known.depth),
        (model.registers, known.registers),
    ):
        for name, variable in mine.items():
            model.cp.add_hint(variable, solution.value(theirs[name]))
    choices = {id(literal): (key, literal) for key, literal in model.within.items()}
    for key, literal in choices.values():
        model.cp.add_hint(literal, solution.value(known.within[key]))


def _roles(model: Model) -> Linear:
    """Warp groups first, then roles."""
    weight = len(model.problem.roles) + 1
    return total(
        (weight * groups(role.warps) + 1) * model.used[role.name] for role in model.problem.roles
    )


def _issuers(model: Model) -> Linear:
    """Roles on ordered units, each unit counted by itself."""
    ordered = [unit.name for unit in model.problem.units if unit.ordered]
    return total(literal for unit in ordered for literal in issuers(model, unit))


def _moved(model: Model) -> Linear:
    """Registers that change roles, and, far behind them, barriers between roles."""
    wide = {value.name: value.registers for value in model.problem.values}
    return total(
        (1 + 1000 * wide.get(edge.carries, 0)) * literal for edge, literal in model.crossing.items()
    )


def _haste(model: Model) -> Linear:
    """The negated time that every copy may land late before its ring holds it up: the depths that
    memory allows are best used by copies that start as late as they may."""
    ahead = model.cp.new_int_var(-model.ii, 8 * model.ii, "headroom of copies")
    for ring in model.problem.rings:
        if ring.fill == "copy":
            for edge in readers_of(model.problem)[ring.name]:
                spare = model.ii * model.depth[ring.name] - life(model, edge)
                model.cp.add(ahead <= spare)
    return 0 - ahead


def _span(model: Model) -> Linear:
    """From the first start of an iteration to its last end."""
    horizon = model.ii * model.stages
    longest = max(map(_lasts, model.problem.operations))
    first = model.cp.new_int_var(0, horizon, "first start")
    last = model.cp.new_int_var(0, horizon + longest, "last end")
    for item in model.problem.operations:
        model.cp.add(model.start(item.name) >= first)
        model.cp.add(model.start(item.name) + _lasts(item) <= last)
    return last - first


def _lasts(item: Operation) -> int:
    return max(item.latency, item.busy)
