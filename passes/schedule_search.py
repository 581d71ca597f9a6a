"""The smallest initiation interval of a loop, with what proves it.

Feasibility is monotone: an idle cycle put into every period at one phase breaks no rule, so an
interval that has no schedule rules out every smaller one. The search probes the closed-form bound,
gallops up from it and bisects. Each probe asks first about the narrower problem in which register
tiles stay in their role (its schedules are schedules of the whole problem) and, where that has
none, about the whole problem, whose refutations are proofs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorc.ir.node import fact
from tensorc.ir.schedule import LoopProblem
from tensorc.passes.cp_sat import Answer, solve
from tensorc.passes.schedule_bounds import limits, sequential
from tensorc.passes.schedule_model import Model, build

TILE = 8
"""A value of more registers per thread than this is a tile, which the narrower problem keeps in its
role; smaller ones (a number per row) may change roles there too."""


@dataclass(frozen=True)
class Effort:
    """How much deterministic time a search may take: in all, for one probe, for each polish step;
    the most stages; and the wall-clock seconds after which it is killed (None: never)."""

    total: float = 60.0
    probe: float = 15.0
    polish: float = 6.0
    stages: int = 3
    wall: float | None = None


@dataclass(frozen=True)
class Found:
    """The best interval: a solved model of it, the proven bound, and whether work ran out.

    `model` is None if nothing was found. `refuted` is the largest interval known to have no
    schedule. `killed` says that the wall clock stopped a probe.
    """

    model: Model | None
    answer: Answer | None
    refuted: int
    spent: float
    killed: bool


@dataclass
class Meter:
    """The work left of an effort, and the moment at which the clock kills it."""

    effort: Effort
    spent: float = 0.0
    deadline: float | None = None
    killed: bool = False

    def __post_init__(self) -> None:
        from time import monotonic

        if self.effort.wall is not None:
            self.deadline = monotonic() + self.effort.wall

    def ask(self, model: Model, most: float) -> Answer:
        """Solve `model` within what is left, and at most `most` units of work."""
        from time import monotonic

        left = min(most, self.effort.total - self.spent)
        wall = None if self.deadline is None else self.deadline - monotonic()
        if left <= 0 or (wall is not None and wall <= 0):
            self.killed = self.killed or left > 0
            return Answer(None, False, 0.0)
        answer = solve(model.cp, left, wall)
        self.spent += answer.work
        if wall is not None and not answer.exact and answer.work < 0.95 * left:
            self.killed = self.killed or answer.solution is None
        return answer


@fact
def tiles_stay(problem: LoopProblem) -> LoopProblem:
    """`problem` without the transfers of register tiles; itself if it has none."""
    wide = {value.name for value in problem.values if value.registers > TILE}
    edges = tuple(
        replace(edge, transfer=None) if edge.transfer and edge.carries in wide else edge
        for edge in problem.dependences
    )
    return replace(problem, dependences=edges)


def search(problem: LoopProblem, meter: Meter) -> Found:
    """The smallest interval found within the meter's effort; see the module."""
    lowest = limits(problem)[0].cycles
    state = _State(problem, meter, refuted=lowest - 1)
    step, probe, most = 1, lowest, max(lowest, sequential(problem))
    while not state.at(probe) and probe < most:
        probe, step = min(most, lowest + step), 2 * step
    low = max(state.refuted, state.doubted)
    while state.model and state.model.ii - low > 1:
        middle = (low + state.model.ii) // 2
        if not state.at(middle):
            low = max(low, middle)
    if state.model and state.refuted < state.model.ii - 1:
        state.refute(state.model.ii - 1)
    return Found(state.model, state.answer, state.refuted, meter.spent, meter.killed)


@dataclass
class _State:
    """What a search knows so far."""

    problem: LoopProblem
    meter: Meter
    refuted: int
    doubted: int = 0
    model: Model | None = None
    answer: Answer | None = None

    def at(self, ii: int) -> bool:
        """Whether a schedule with interval `ii` is found."""
        stages, most = self.meter.effort.stages, self.meter.effort.probe
        narrow = tiles_stay(self.problem)
        for problem in dict.fromkeys((narrow, self.problem)):
            model = build(problem, ii, stages)
            answer = self.meter.ask(model, most if problem is narrow else most / 3)
            if answer.solution:
                self.model, self.answer = model, answer
                return True
            if answer.exact and problem is self.problem:
                self.refuted = max(self.refuted, ii)
        self.doubted = max(self.doubted, ii)
        return False

    def refute(self, ii: int) -> None:
        """Spend a whole probe on proving that `ii` has no schedule."""
        model = build(self.problem, ii, self.meter.effort.stages)
        answer = self.meter.ask(model, self.meter.effort.probe)
        if answer.solution:
            self.model, self.answer = model, answer
        elif answer.exact:
            self.refuted = max(self.refuted, ii)
