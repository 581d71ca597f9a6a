"""The smallest initiation interval of a loop, with what proves it.

Feasibility is monotone: an idle cycle put into every period at one phase breaks no rule, so an
interval that has no schedule rules out every smaller one. The search refutes what goes quickly,
probes the border, gallops up from it and bisects. Each probe asks first about the narrower problem
in which register tiles stay in their role (its schedules are schedules of the whole problem) and,
where that has none, about the whole problem, whose refutations are proofs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorc.ir.node import fact
from tensorc.ir.schedule import LoopProblem
from tensorc.passes.scheduling.cp_sat import Answer, size, solve
from tensorc.passes.scheduling.schedule_bounds import limits, sequential, stages_needed
from tensorc.passes.scheduling.schedule_model import Model, build

QUICK = 0.03
"""Deterministic time that a question gets at least: less is not worth building its model."""

SETUP = 2e-6
"""What a constraint adds to the work of a question, solved or not: it is built and simplified."""

STRIDE = 64
"""The first step up from a bound that is refuted is that part of it."""

TILE = 8
"""A value of more registers per thread than this is a tile, which the narrower problem keeps in its
role; smaller ones (a number per row) may change roles there too."""


@dataclass(frozen=True)
class Effort:
    """How much deterministic time, in units of about four seconds of a processor, a search may
    take: in all (building its models included), for one probe, for each polish step; the least
    number of stages allowed; the wall-clock seconds that kill it (None: never); whether more stages
    are tried where the closed-form bound is not met; how far above what is refuted an interval may
    be once half of the work is done, as a part of it."""

    total: float = 60.0
    probe: float = 15.0
    polish: float = 6.0
    stages: int = 3
    wall: float | None = None
    deepen: bool = True
    gap: float = 0.0


@dataclass(frozen=True)
class Found:
    """The best interval: a solved model of it, the proven bound, and whether work ran out.

    `model` is None if nothing was found. `refuted` is the largest interval known to have no
    schedule of at most `stages` stages. `killed` says that the wall clock stopped a probe.
    """

    model: Model | None
    answer: Answer | None
    refuted: int
    stages: int
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
        self.spent += answer.work + SETUP * size(model.cp)
        if wall is not None and not answer.exact and answer.work < 0.95 * left:
            self.killed = True  # the clock came before the work was done
        return answer

    def stages(self, problem: LoopProblem) -> int:
        """How many stages schedules of `problem` may have: the effort's, or what a chain takes."""
        return max(self.effort.stages, stages_needed(problem))


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
    """The smallest interval found within the meter's effort; see the module.

    Where that is not the closed-form bound, one stage more is tried as long as it helps, and kept
    if it is better or proves as much.
    """
    lowest, stages = limits(problem)[0].cycles, meter.stages(problem)
    best = _State(problem, meter, stages, lowest - 1)
    best.run()
    while meter.effort.deepen and best.model is not None and best.model.ii > lowest:
        stages += 1
        more = _State(problem, meter, stages, lowest - 1, model=best.model, answer=best.answer)
        refuted = more.refutes(best.model.ii - 1)
        if refuted or more.model is best.model:
            return (more if refuted else best).found()
        more.run()
        best = more
    return best.found()


@dataclass
class _State:
    """What a search knows so far: the best schedule, the largest interval refuted, the same for the
    narrower problem, and the largest interval for which neither was found with a whole probe."""

    problem: LoopProblem
    meter: Meter
    stages: int
    refuted: int
    doubted: int = 0
    model: Model | None = None
    answer: Answer | None = None
    without: int = 0

    def run(self) -> None:
        """The best interval of the narrower problem first; if the one below it is refuted for the
        whole problem, that is all. Else refute, probe the border, gallop up from it, bisect."""
        if tiles_stay(self.problem) is not self.problem:
            low = self.incumbent()
            if self.near(low) and self.refutes(low):
                return
        self.border()
        effort, step, probe = self.meter.effort, 1, self.refuted + 1
        most = max(probe, sequential(self.problem))
        while not self.at(probe, effort.probe) and probe < most:
            probe, step = min(most, probe + step), 2 * step
            if self.model and probe >= self.model.ii:
                break
        while self.model and not self.near(low := max(self.refuted, self.doubted)):
            self.at((low + self.model.ii) // 2, effort.probe)

    def near(self, low: int) -> bool:
        """Whether the interval found is next to `low`, or as near as is wanted: the more so, the
        more of the work has been done."""
        if self.model is None:
            return False
        effort = self.meter.effort
        spent = min(1.0, 2 * self.meter.spent / effort.total) if effort.total else 1.0
        return self.model.ii - low <= 1 + int(spent**2 * effort.gap * self.model.ii)

    def found(self) -> Found:
        """What is known, for the caller."""
        meter = self.meter
        return Found(self.model, self.answer, self.refuted, self.stages, meter.spent, meter.killed)

    def incumbent(self) -> int:
        """The best interval of the narrower problem, as far as that goes quickly; the largest below
        for which nothing was found. What is refuted goes faster than what is found, so steps are
        short ones from below."""
        narrow, low = tiles_stay(self.problem), self.refuted
        step, most = max(2, low // STRIDE), sequential(self.problem)
        probe = low + 1
        while probe < most and self.asked(narrow, probe, self.quick) is False:
            low, probe, step = probe, min(most, probe + step), 2 * step
        while self.model and not self.near(low):
            middle = low + max(1, (self.model.ii - low) // 3)
            if not self.asked(narrow, middle, self.quick):
                low = middle
        return low

    @property
    def quick(self) -> float:
        """Work for a question that is asked in passing."""
        return max(self.meter.effort.probe / 60, QUICK)

    def border(self) -> None:
        """Refute as many intervals as go quickly: loose ones are slow to schedule, tight ones and
        refutations are not, so this comes first."""
        low = self.refuted
        step, most = 1, max(low + 1, sequential(self.problem))
        high = low + 1
        while high < most and self.refutes(high):
            step = 2 * step if step > 1 else max(2, low // STRIDE)
            low, high = high, min(most, high + step)
        while high - low > 1:
            middle = (low + high) // 2
            if self.refutes(middle):
                low = middle
            else:
                high = middle

    def refutes(self, ii: int) -> bool:
        """Whether `ii` is quickly shown to have no schedule."""
        if ii <= self.refuted:
            return True
        if self.model and ii >= self.model.ii:
            return False
        return self.asked(self.problem, ii, self.quick) is False

    def at(self, ii: int, work: float) -> bool:
        """Whether a schedule with interval `ii` is found: `work` for the narrower problem, a third
        of that for the whole one."""
        if self.model and self.model.ii == ii:
            return True
        narrow = tiles_stay(self.problem)
        if narrow is not self.problem:
            if ii > self.without and self.asked(narrow, ii, work):
                return True
            work /= 3
        answer = self.asked(self.problem, ii, work)
        if answer is None:
            self.doubted = max(self.doubted, ii)
        return bool(answer)

    def asked(self, version: LoopProblem, ii: int, work: float) -> bool | None:
        """Whether `version`, the problem or the narrower one, has a schedule with interval `ii`;
        None: not known after this work. What is learned is kept."""
        model = build(version, ii, self.stages)
        answer = self.meter.ask(model, work)
        if answer.solution:
            self.model, self.answer = model, answer
            return True
        if not answer.exact:
            return None
        if version is self.problem:
            self.refuted = max(self.refuted, ii)
        self.without = max(self.without, ii)
        return False
