"""CP-SAT behind a typed surface: the few calls that the scheduler's models use, and one `solve`.

ortools has no complete type stubs, so its objects are seen through the protocols below; nothing
else in the scheduler imports it. Searches are deterministic: one worker with a fixed seed, limited
by deterministic time, so the same model gives the same answer on any machine under any load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from tensorc.errors import BrokenInvariant


class Linear(Protocol):
    """A linear expression over integer variables; comparing two makes a bound for `Cp.add`."""

    def __add__(self, other: Linear | int) -> Linear: ...
    def __radd__(self, other: Linear | int) -> Linear: ...
    def __sub__(self, other: Linear | int) -> Linear: ...
    def __rsub__(self, other: Linear | int) -> Linear: ...
    def __mul__(self, other: int) -> Linear: ...
    def __rmul__(self, other: int) -> Linear: ...
    def __le__(self, other: Linear | int) -> Bound: ...
    def __ge__(self, other: Linear | int) -> Bound: ...


class Bound(Protocol):
    """A comparison of linear expressions."""

    @property
    def bounds(self) -> object: ...


class Literal(Linear, Protocol):
    """A variable that is 0 or 1, or its negation."""

    def __invert__(self) -> Literal: ...


class Interval(Protocol):
    """A start, a size and an end, possibly absent."""

    def start_expr(self) -> Linear: ...


class Constraint(Protocol):
    """A constraint of a model, which literals may switch off."""

    def only_enforce_if(self, *literals: Literal) -> Constraint: ...


class Cp(Protocol):
    """A CP-SAT model."""

    def new_int_var(self, lb: int, ub: int, name: str) -> Linear: ...
    def new_bool_var(self, name: str) -> Literal: ...
    def add(self, ct: Bound) -> Constraint: ...
    def add_linear_constraint(self, linear_expr: Linear, lb: int, ub: int) -> Constraint: ...
    def add_bool_or(self, *literals: Literal) -> Constraint: ...
    def add_implication(self, a: Literal, b: Literal) -> Constraint: ...
    def add_exactly_one(self, *literals: Literal) -> Constraint: ...
    def add_element(self, index: Linear, expressions: Sequence[int], target: Linear) -> object: ...
    def add_no_overlap(self, intervals: Iterable[Interval]) -> Constraint: ...
    def add_cumulative(
        self, intervals: Iterable[Interval], demands: Iterable[int], capacity: Linear | int
    ) -> object: ...
    def new_fixed_size_interval_var(self, start: Linear, size: int, name: str) -> Interval: ...
    def new_optional_fixed_size_interval_var(
        self, start: Linear, size: int, is_present: Literal, name: str
    ) -> Interval: ...
    def new_optional_interval_var(
        self, start: Linear, size: Linear, end: Linear, is_present: Literal, name: str
    ) -> Interval: ...
    def minimize(self, obj: Linear) -> None: ...
    def clear_objective(self) -> None: ...
    def add_hint(self, var: Linear, value: int) -> None: ...
    def clear_hints(self) -> None: ...


class Solution(Protocol):
    """The values of a solved model."""

    def value(self, expression: Linear) -> int: ...


class Listed(Protocol):
    """What a model consists of."""

    @property
    def constraints(self) -> Sequence[object]: ...


class Checked(Protocol):
    """A model that can say what is in it and what is wrong with it."""

    @property
    def proto(self) -> Listed: ...

    def validate(self) -> str: ...


@dataclass(frozen=True)
class Answer:
    """`solution` is None if none was found; `exact` says that the answer is final: a solution is
    optimal, or there is none. `work` is the deterministic time that it took."""

    solution: Solution | None
    exact: bool
    work: float


def new_model() -> Cp:
    """An empty model."""
    from ortools.sat.python import cp_model

    return cast(Cp, cp_model.CpModel())


def total(terms: Iterable[Linear]) -> Linear:
    """The sum of `terms`, also of none."""
    from ortools.sat.python import cp_model

    return cast(Linear, cp_model.LinearExpr.sum(list(terms)))  # type: ignore[arg-type]


def size(cp: Cp) -> int:
    """The number of constraints."""
    return len(cast(Checked, cp).proto.constraints)


def solve(cp: Cp, work: float, wall: float | None = None) -> Answer:
    """Solve within `work` units of deterministic time (about seconds of one idle core).

    `wall` seconds only stop a search that no longer keeps pace; an answer cut off by it is not
    exact, so callers do not keep it.
    """
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = work
    solver.parameters.cp_model_probing_level = 0  # takes longer than it saves on these models
    if wall is not None:
        solver.parameters.max_time_in_seconds = max(wall, 0.01)
    try:
        status = solver.solve(cast(cp_model.CpModel, cp))
    except (IndexError, RuntimeError):  # a fault of CP-SAT 9.15's presolve, on few models
        solver.parameters.cp_model_presolve = False
        try:
            status = solver.solve(cast(cp_model.CpModel, cp))
        except (IndexError, RuntimeError):
            return Answer(None, False, work)
    if status == cp_model.MODEL_INVALID:
        raise BrokenInvariant(f"CP-SAT refuses the model: {cast(Checked, cp).validate()}")
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    exact = status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    spent = float(solver.response_proto.deterministic_time)
    return Answer(cast(Solution, solver) if found else None, exact, spent)
