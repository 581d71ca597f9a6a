"""How much a schedule's interval and roles rest on the numbers that nobody has measured.

Every assumed number of the machine file that the problem was built from is halved and raised by
half, one at a time; the problem is built and solved again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from tensorc.errors import Infeasible
from tensorc.ir.schedule import LoopProblem, Schedule, Sensitivity
from tensorc.machine.product import Product, scaled
from tensorc.passes.scheduling.schedule import schedule
from tensorc.passes.scheduling.schedule_polish import Aim
from tensorc.passes.scheduling.schedule_search import Effort

FACTORS = (Fraction(1, 2), Fraction(3, 2))

Build = Callable[[Product], LoopProblem]


Solve = Callable[[LoopProblem, Effort, Aim], Schedule]


def sensitivity(
    build: Build, product: Product, effort: Effort, solve: Solve = schedule
) -> tuple[Sensitivity, ...]:
    """The optimum with each assumed number at x0.5 and x1.5. A number of 0 changes nothing."""
    figures = [f for f in build(product).figures if f.source == "assumed" and f.value]
    return tuple(
        _changed(build, scaled(product, figure.key, factor), figure.key, factor, effort, solve)
        for figure in figures
        for factor in FACTORS
    )


def with_sensitivity(
    made: Schedule, build: Build, product: Product, effort: Effort, solve: Solve = schedule
) -> Schedule:
    """`made` with the table in its certificate."""
    changes = sensitivity(build, product, effort, solve)
    return replace(made, certificate=replace(made.certificate, sensitivity=changes))


def _changed(
    build: Build, product: Product, key: str, factor: Fraction, effort: Effort, solve: Solve
) -> Sensitivity:
    try:
        made = solve(build(product), effort, "span")
    except Infeasible:
        return Sensitivity(key, factor, None, ())
    return Sensitivity(key, factor, made.ii, tuple(plan.role for plan in made.roles))
