"""The e-graph: terms in, every equal form that the rules find out, as plain data.

Rules arrive as egglog text over the declarations of `egraph_text`; `engine` runs it. A run is a
loop of single steps, with the analyses saturated in between; it stops at a fixpoint or, by counts
alone, before a step that would pass the limit. Wall time never decides, so one input has one
result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from tensorc.passes.algebra.engine import ANALYSE, OPERATORS, Rows, fresh, insertions, run
from tensorc.passes.algebra.facts import Facts
from tensorc.passes.algebra.graph_order import in_order
from tensorc.passes.algebra.terms import Term


@dataclass(frozen=True)
class Limits:
    """Counts that end a run: single steps, rows after the next step at the last growth, matches in
    one step, and how often the rules of pairs run between fixpoints of the others."""

    steps: int = 24
    rows: int = 4000
    matches: int = 6000
    pairs: int = 2


@dataclass(frozen=True)
class ENode:
    """An operator with its data (a name, a coefficient, index names) over classes."""

    operator: str
    data: tuple[Fraction | str | tuple[str, ...], ...]
    args: tuple[int, ...]


@dataclass(frozen=True)
class Graph:
    """A saturated e-graph as plain data: the nodes of each class, in one order, and what the
    analyses know of classes. `fired`: matches by rule. `note`: which limit ended the run, or ""."""

    classes: Mapping[int, tuple[ENode, ...]]
    roots: tuple[int, ...]
    free: Mapping[int, frozenset[str]]
    nonpos: frozenset[int]
    constants: frozenset[int]
    sanctioned: frozenset[int]
    copied: frozenset[int] = frozenset()
    fired: Mapping[str, int] = field(default_factory=dict[str, int])
    rows: int = 0
    note: str = ""
    source: Graph | None = None  # before any rule


class EngineFailed(Exception):
    """egglog gave up; its message."""


def saturate(terms: Sequence[Term], facts: Facts, rules: str, limits: Limits) -> Graph:
    """Every form of `terms` that `rules` (egglog text) reach within `limits`.

    Raises EngineFailed, and ImportError where egglog is not installed.
    """
    try:
        return _saturated(fresh(rules), terms, facts, limits)
    except (KeyboardInterrupt, SystemExit, ImportError):
        raise
    except BaseException as error:  # the engine's panics are no Exceptions
        raise EngineFailed(f"{type(error).__name__}: {error}") from error


def _saturated(engine: Any, terms: Sequence[Term], facts: Facts, limits: Limits) -> Graph:
    run(engine, "\n".join(insertions(terms, facts)))
    fired: dict[str, int] = {}
    run(engine, ANALYSE)
    source = _Reader(engine).graph(len(terms), {}, "")
    note = _Run(engine, limits, fired).loop()
    return replace(_Reader(engine).graph(len(terms), fired, note), source=source)


class _Run:
    """One run: steps until nothing changes, by counts; `note` says which limit ended it."""

    def __init__(self, engine: Any, limits: Limits, fired: dict[str, int]) -> None:
        self.engine, self.limits, self.fired = engine, limits, fired
        self.left, self.note = limits.steps, ""
        self.rows, self.growth = _rows(engine), 1.0

    def loop(self) -> str:
        """To a fixpoint, then once the rules of pairs, and again; the note."""
        for _ in range(self.limits.pairs):
            self.settle()
            if self.note or not self.step("pairs"):
                return self.note
        self.settle()
        return self.note

    def settle(self) -> None:
        while not self.note and self.step("rules"):
            pass

    def step(self, rules: str) -> bool:
        """Every match of a ruleset once; whether anything is new."""
        if self.rows * self.growth > self.limits.rows:
            most = self.limits.rows
            self.note = f"stopped before {most} rows ({self.rows}, growing {self.growth:.1f}-fold)"
        elif not self.left:
            self.note = f"stopped after {self.limits.steps} steps"
        if self.note:
            self.name_the_busiest()
            return False
        self.left -= 1
        report = run(self.engine, f"(run-schedule (run {rules}))")[-1].report
        for name, count in report.num_matches_per_rule.items():
            self.fired[name] = self.fired.get(name, 0) + count
        if not report.updated:
            return False
        matches = sum(report.num_matches_per_rule.values())
        if matches > self.limits.matches:
            self.note = f"stopped after {matches} matches in one step"
            self.name_the_busiest()
        run(self.engine, ANALYSE)
        now = _rows(self.engine)
        self.rows, self.growth = now, max(1.0, now / max(self.rows, 1))
        return True

    def name_the_busiest(self) -> None:
        """Add the rule with the most matches to the note."""
        rule = max(sorted(self.fired), key=lambda name: self.fired[name], default="")
        if rule:
            self.note += f"; {rule} matched most, {self.fired[rule]} times"


def _rows(engine: Any) -> int:
    functions: Any = engine.freeze().functions
    return sum(len(functions[name].rows) for name in OPERATORS)


class _Reader(Rows):
    """An engine's rows as a Graph; classes are numbered by first appearance from the roots."""

    def graph(self, roots: int, fired: Mapping[str, int], note: str) -> Graph:
        tops = self.tops(roots)
        raw = in_order(self.by_class(), tops)
        number = _numbered(raw, tops)
        classes = {
            number[top]: tuple(
                ENode(operator, data, tuple(number[arg] for arg in args))
                for operator, data, args in raw[top]
            )
            for top in number
        }
        free = {
            number[row.inputs[0]]: frozenset(self.names(row.output))
            for row in self.functions["free"].rows
            if row.inputs[0] in number
        }
        nonpos, constants = self.marked("nonpos", number), self.marked("constant", number)
        sanctioned, copied = self.marked("sanctioned", number), self.marked("copied", number)
        marks = nonpos, constants, sanctioned, copied
        count = sum(map(len, classes.values()))
        tops_ = tuple(number[top] for top in tops)
        return Graph(classes, tops_, free, *marks, fired, count, note)

    def marked(self, function: str, number: Mapping[Any, int]) -> frozenset[int]:
        rows = self.functions[function].rows
        return frozenset(number[row.inputs[0]] for row in rows if row.inputs[0] in number)


def _numbered(
    raw: Mapping[Any, Sequence[tuple[str, Any, tuple[Any, ...]]]], tops: Sequence[Any]
) -> dict[Any, int]:
    """Classes by number, in order of appearance from the roots."""
    number: dict[Any, int] = {}
    waiting = list(reversed(tops))
    while waiting:
        top = waiting.pop()
        if top not in number:
            number[top] = len(number)
            waiting.extend(arg for _, _, args in raw[top] for arg in args if arg not in number)
    return number
