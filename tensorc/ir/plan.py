"""The plan beside a level-1 program: what `fuse` decided, and nothing about tiles.

    kernel 1 -> o: grid b, h, m
      pass 0 over n: r1, s1, s2
        r1  = max[n](...)
        s1  = sum[n](...)        r1 moved: s1 becomes exp(h1 - h1') * s1

A kernel computes outputs of equal grid. Its reductions that depend on nothing but the grid are
carried by passes over an index; a running value that depends on others of its pass is moved
(re-based) to their next values before a block is added. In formulas a state's or shift's name
stands for its value before the block, with a prime for the value after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorc.ir.polynomial import Polynomial
from tensorc.ir.print_tensor import show
from tensorc.ir.tensor import Check, Equation, Expr, Program, Reduce


@dataclass(frozen=True)
class Shift:
    """What running values are relative to: `value` holds reductions of the pass, and |i| where
    the elements seen so far are meant. `floor`: its maxima count as finite from the start."""

    name: str
    value: Expr


@dataclass(frozen=True)
class State:
    """A reduction carried by a pass.

    `reduce`: as it stands in the kernel's expressions. `body`, `where`: over the pass's indices.
    `moved`: its value before the block, moved to the states after it (None: it depends on no state
    of the pass). `empty`: counts of which one being 0 says that nothing was added yet. `poison`:
    maxima whose final value of -inf makes it NaN.
    """

    name: str
    reduce: Reduce
    body: Expr
    where: Expr | None
    moved: Expr | None = None
    empty: tuple[Expr, ...] = ()
    poison: tuple[Reduce, ...] = ()


@dataclass(frozen=True)
class Pass:
    """One walk over `indices`, carrying `states` in an order in which each needs those before."""

    number: int
    indices: tuple[str, ...]
    states: tuple[State, ...]
    shifts: tuple[Shift, ...] = ()


@dataclass(frozen=True)
class PlannedKernel:
    """Outputs of one kernel with their values over parameters, and its passes in order."""

    outputs: tuple[Equation, ...]
    grid: tuple[str, ...]
    passes: tuple[Pass, ...]


@dataclass(frozen=True)
class Plan:
    """All kernels in order. `stored`: intermediates that go through memory. `extents`: of every
    index, those with new names too. `note`: the costs that decided, a line each."""

    kernels: tuple[PlannedKernel, ...]
    stored: tuple[str, ...]
    extents: tuple[tuple[str, Polynomial], ...]
    checks: tuple[Check, ...]
    note: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(_lines(self)) + "\n"


@dataclass(frozen=True)
class Planned:
    """A level-1 program and the plan beside it. `plan` None: every equation is a kernel of its own.
    `reasons`: why it is so, a line each."""

    program: Program
    plan: Plan | None
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        lines = "" if self.plan is None else str(self.plan)
        return lines + "".join(f"# {line}\n" for line in self.reasons)


def _lines(plan: Plan) -> Iterator[str]:
    for number, kernel in enumerate(plan.kernels, start=1):
        names = ", ".join(item.tensor.name for item in kernel.outputs)
        yield f"kernel {number} -> {names}: grid {', '.join(kernel.grid) or 'none'}"
        for item in kernel.passes:
            yield from _pass(item)
    for line in plan.note:
        yield f"# {line}"


def _pass(item: Pass) -> Iterator[str]:
    over = ", ".join(item.indices)
    yield f"  pass {item.number} over {over}: {', '.join(s.name for s in item.states)}"
    names = {state.reduce: state.name for state in item.states}
    for shift in item.shifts:
        yield f"    {shift.name} = {show(shown(shift.value, names))}"
    for state in item.states:
        where = None if state.where is None else shown(state.where, names)
        body = shown(state.body, names)
        reduce = Reduce(state.reduce.reducer, item.indices, body, where, state.reduce.dtype)
        text = f"    {state.name} = {show(reduce)}"
        if state.moved is not None:
            text += f"  from {show(state.moved)}"
        if state.empty:
            text += f" once {' and '.join(show(shown(e, names)) for e in state.empty)} > 0"
        yield text


def shown(expr: Expr, names: dict[Reduce, str]) -> Expr:
    """`expr` with states by name."""
    from tensorc.ir.node import Node, replaced
    from tensorc.ir.tensor import Value, value_type

    def named(item: Node) -> Node | None:
        if isinstance(item, Reduce) and item in names:
            return Value(names[item], (), value_type(item))
        return None

    found = replaced(expr, named)
    assert isinstance(found, Expr)
    return found
