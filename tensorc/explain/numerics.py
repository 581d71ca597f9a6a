"""The section on numerics: the policy, where values are rounded, what sums are kept in."""

from __future__ import annotations

from tensorc.explain.subject import Section, Subject
from tensorc.ir.dtypes import settled
from tensorc.ir.functions import accumulator
from tensorc.ir.node import postorder
from tensorc.ir.strict_json import Json
from tensorc.ir.tensor import Cast, Program, Reduce, Round, value_type

_POLICY = {
    "fast": "fast: sums in any order, fused multiply-add, declared roundings may move",
    "strict": "strict: sums in the order written, no fused multiply-add, roundings stay",
}


def numerics(subject: Subject) -> Section:
    """Policy, accumulators and rounding points of the program as it was written."""
    sums, rounded = _accumulators(subject.program), _roundings(subject.program)
    lines = [_POLICY[subject.policy]]
    lines += ["deterministic: no choice by sizes or layouts"] * subject.deterministic
    lines += [f"{name}: sums and products kept in {', '.join(types)}" for name, types in sums]
    lines += [f"{name}: rounded to {dtype}{how}" for name, dtype, how in rounded]
    data: dict[str, Json] = {
        "policy": subject.policy,
        "deterministic": subject.deterministic,
        "accumulators": {name: list(types) for name, types in sums},
        "roundings": [{"equation": n, "dtype": d, "movable": not how} for n, d, how in rounded],
    }
    return Section("numerics", tuple(lines), data)


def _accumulators(program: Program) -> list[tuple[str, list[str]]]:
    """The types in which each equation accumulates, where it does."""
    found: list[tuple[str, list[str]]] = []
    for equation in program.equations:
        reduces = [item for item in postorder([equation.body]) if isinstance(item, Reduce)]
        types = {
            str(settled(accumulator(item.reducer, value_type(item.body), item.dtype)))
            for item in reduces
            if item.reducer.accumulates
        }
        if types:
            found.append((equation.tensor.name, sorted(types)))
    return found


def _roundings(program: Program) -> list[tuple[str, str, str]]:
    """(equation, dtype, how) wherever a narrow type is rounded to; how is "" where it may move."""
    found: dict[tuple[str, str, str], None] = {}
    outputs = {item.tensor.name for item in program.outputs}
    for equation in program.equations:
        name, body = equation.tensor.name, equation.body
        for item in postorder([body]):
            if isinstance(item, Round):
                stored = item is body and name in outputs
                found[name, str(item.dtype), " when it is stored" if stored else ""] = None
            elif isinstance(item, Cast) and item.dtype.floating and item.dtype.bits < 32:
                found[name, str(item.dtype), " exactly where the cast stands"] = None
    return list(found)
