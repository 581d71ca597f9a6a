"""Whether some element of a row is selected, told from the ends of what is selected.

    any[n](n <= m + |n| - |m|)              |m| <= m + |n|
    any[n](n <= m and m < n + w)            1 <= |n| and m + 1 <= |n| + w - 1 and 1 <= w

A condition made of lower and upper ends of an index holds somewhere if no lower end lies above an
upper one, the index's own ends among them: exact for integers, since the index has no factor. So
the kernel need not ask every element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorc.ir.conditions import conjuncts
from tensorc.ir.functions import ANY
from tensorc.ir.integers import Integers
from tensorc.ir.node import Node, rebuild
from tensorc.ir.plan import PlannedKernel
from tensorc.ir.polynomial import (
    Polynomial,
    Symbol,
    linear,
    polynomial,
)
from tensorc.ir.ranges import Ranges
from tensorc.ir.tensor import Expr, Reduce, free_indices
from tensorc.passes.canonicalise import call, integer
from tensorc.passes.polynomial_expressions import expression


def without_searches(item: PlannedKernel, extents: Mapping[str, Polynomial]) -> PlannedKernel:
    """The kernel with every search of a pass replaced, where its condition has ends."""
    found: dict[Node, Expr] = {}
    for walk in item.passes:
        for state in walk.states:
            if state.reduce.reducer is ANY and state.where is None:
                told = exists(state.reduce, extents)
                if told is not None:
                    found[state.reduce] = told
    if not found:
        return item
    outputs = tuple(replace(o, body=_replaced(o.body, found)) for o in item.outputs)
    passes = tuple(
        replace(walk, states=tuple(s for s in walk.states if s.reduce not in found))
        for walk in item.passes
    )
    return replace(item, outputs=outputs, passes=tuple(walk for walk in passes if walk.states))


def exists(item: Reduce, extents: Mapping[str, Polynomial]) -> Expr | None:
    """Whether the body of an `any` over one index holds somewhere; None: it is not told so."""
    if len(item.indices) != 1:
        return None
    (index,) = item.indices
    integers = Integers(extents, free_indices(item) | {index}, {})
    facts: list[Polynomial] = []
    for part, holds in conjuncts(item.body):
        cases = integers.cases(part, holds)
        if cases is None or len(cases) != 1:
            return None
        facts += cases[0]
    goals = _eliminated(facts, index, extents[index])
    if goals is None:
        return None
    outside = Integers(extents, free_indices(item), {})
    conditions = [_condition(goal) for goal in _needed(goals, outside)]
    if any(not free_indices(part) <= free_indices(item) for part in conditions):
        return None
    if not conditions:
        return call("le", integer(0), integer(0))
    return conditions[0] if len(conditions) == 1 else call("and", *conditions)


def _eliminated(
    facts: list[Polynomial], index: str, size: Polynomial
) -> list[Polynomial] | None:  # fmt: skip
    """What is at least 0 if some value of the index makes all facts at least 0."""
    low, high, rest = [polynomial(0)], [size - 1], list[Polynomial]()
    for fact in facts:
        step, others = linear(fact, Symbol(index, "index"))
        sign = step.constant if step is not None else None
        if sign == 1:
            low.append(polynomial(0) - others)
        elif sign == -1:
            high.append(others)
        elif sign == 0:
            rest.append(others)
        else:
            return None
    return [*(top - bottom for top in high for bottom in low), *rest]


def _needed(goals: list[Polynomial], integers: Integers) -> list[Polynomial]:
    """Goals that do not follow from the others."""
    kept = list(dict.fromkeys(goals))
    for goal in list(kept):
        others = [item for item in kept if item is not goal]
        judge = Ranges({}, integers=integers)
        judge.facts = tuple(others)
        if judge.holds(goal):
            kept = others
    return kept


def _condition(goal: Polynomial) -> Expr:
    """`goal` >= 0, with nothing subtracted."""
    most = Polynomial(tuple(term for term in goal.terms if term[1] > 0))
    least = Polynomial(tuple(term for term in (-goal).terms if term[1] > 0))
    return call("le", expression(least), expression(most))


def _replaced(expr: Expr, found: Mapping[Node, Expr]) -> Expr:
    memo: dict[Node, Node] = {}

    def replaced(item: Node) -> Node:
        if item in found:
            return found[item]
        if item not in memo:
            memo[item] = rebuild(item, replaced)
        return memo[item]

    made = replaced(expr)
    assert isinstance(made, Expr)
    return made
