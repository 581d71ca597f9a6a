"""The e-graph: terms in, every equal form that the rules find out. Only this file touches egglog.

Rules arrive as egglog text over the declarations of `passes.egraph_text`. A run is a loop of single
steps, with the analyses saturated in between; it stops at a fixpoint or, by counts alone, before a
step that would pass the limit. Wall time never decides, so one input has one result.

egglog is not typed in full and its serialised form is not public: `Graph` is what others see.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from tensorc.passes.algebra.egraph_text import ANALYSES, LANGUAGE
from tensorc.passes.algebra.terms import (
    Add,
    Call,
    Choice,
    Fold,
    Gather,
    Leaf,
    Mul,
    Rounded,
    Some,
    Term,
    Yes,
)

_ANALYSE = "(run-schedule (saturate (run analysis)))"
OPERATORS = ("Leaf", "Yes", "Mul", "Add", "Sum", "Max", "Min", "Some", "F1", "F2", "Sel", "Rnd",
             "Gat")  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """What is known of leaves: free indices, which are positive constants, which are permutations
    of an index; and the arguments of exponentials that stand in the source."""

    free: Mapping[str, frozenset[str]]
    constants: frozenset[str] = frozenset()
    permutations: frozenset[tuple[str, str]] = frozenset()
    sanctioned: tuple[Term, ...] = ()


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
    fired: Mapping[str, int] = field(default_factory=dict[str, int])
    rows: int = 0
    note: str = ""
    source: Graph | None = None  # before any rule


class EngineFailed(Exception):
    """egglog gave up; its message. The engine is gone, the next run makes another."""


def saturate(terms: Sequence[Term], facts: Facts, rules: str, limits: Limits) -> Graph:
    """Every form of `terms` that `rules` (egglog text) reach within `limits`.

    Raises EngineFailed, and ImportError where egglog is not installed.
    """
    try:
        engine = _warm(rules)
        _run(engine, "(push)")
        graph = _saturated(engine, terms, facts, limits)
        _run(engine, "(pop)")
        return graph
    except (KeyboardInterrupt, SystemExit, ImportError):
        raise
    except BaseException as error:  # the engine's panics are no Exceptions
        _ENGINES.by_rules.pop(rules, None)
        raise EngineFailed(f"{type(error).__name__}: {error}") from error


def _saturated(engine: Any, terms: Sequence[Term], facts: Facts, limits: Limits) -> Graph:
    _run(engine, "\n".join(_insertions(terms, facts)))
    fired: dict[str, int] = {}
    _run(engine, _ANALYSE)
    source = _Reader(engine).graph(len(terms), {}, "")
    note = _Run(engine, limits, fired).loop()
    return replace(_Reader(engine).graph(len(terms), fired, note), source=source)


class _Engines(threading.local):
    """A thread's engines by rules, whose reading takes longer than a run; none may leave it."""

    def __init__(self) -> None:
        self.by_rules: dict[str, Any] = {}


_ENGINES = _Engines()
_KEPT = 2  # engines of a thread; a program compiles with one table of rules


def _warm(rules: str) -> Any:
    """An engine that knows the rules and no terms."""
    known = _ENGINES.by_rules
    if rules not in known:
        while len(known) >= _KEPT:
            del known[next(iter(known))]
        engine = _engine()
        _run(engine, LANGUAGE + ANALYSES + rules)
        known[rules] = engine
    return known[rules]


def _engine() -> Any:
    from egglog import bindings

    return bindings.EGraph()


def _run(engine: Any, text: str) -> Any:
    return engine.run_program(*engine.parse_program(text))


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
            return False
        self.left -= 1
        report = _run(self.engine, f"(run-schedule (run {rules}))")[-1].report
        for name, count in report.num_matches_per_rule.items():
            self.fired[name] = self.fired.get(name, 0) + count
        if not report.updated:
            return False
        matches = sum(report.num_matches_per_rule.values())
        if matches > self.limits.matches:
            self.note = f"stopped after {matches} matches in one step"
        _run(self.engine, _ANALYSE)
        now = _rows(self.engine)
        self.rows, self.growth = now, max(1.0, now / max(self.rows, 1))
        return True


def _rows(engine: Any) -> int:
    functions: Any = engine.freeze().functions
    return sum(len(functions[name].rows) for name in OPERATORS)


def _insertions(terms: Sequence[Term], facts: Facts) -> Iterable[str]:
    for name, indices in sorted(facts.free.items()):
        yield f"(set (free (Leaf {_quoted(name)})) {_names(sorted(indices))})"
    for name in sorted(facts.constants):
        yield f"(set (constant (Leaf {_quoted(name)})) 1)"
    for name, index in sorted(facts.permutations):
        yield f"(set (permutes (Leaf {_quoted(name)}) {_quoted(index)}) 1)"
    yield "(let $yes (Yes))"  # rules ask whether a condition is another one
    writer = _Writer()
    for number, term in enumerate(terms):
        name = writer.named(term)
        yield from writer.lines()
        yield f"(let $root{number} {name})"
    for term in facts.sanctioned:
        name = writer.named(term)
        yield from writer.lines()
        yield f"(set (sanctioned {name}) 1)"


class _Writer:
    """Terms as egglog text, each node once under a global name."""

    def __init__(self) -> None:
        self.names: dict[Term, str] = {}
        self.fresh: list[str] = []

    def lines(self) -> list[str]:
        """What has to be run before the names returned since the last call exist."""
        made, self.fresh = self.fresh, []
        return made

    def named(self, term: Term) -> str:
        from tensorc.ir.node import postorder

        for item in postorder([term]):
            if isinstance(item, Term) and item not in self.names:
                self.names[item] = f"$n{len(self.names)}"
                self.fresh.append(f"(let {self.names[item]} {self.text(item)})")
        return self.names[term]

    def text(self, item: Term) -> str:
        """One node over the names of its children."""
        name = self.names
        match item:
            case Leaf(label):
                return f"(Leaf {_quoted(label)})"
            case Yes():
                return "(Yes)"
            case Mul(factor, args):
                return f"(Mul {rational(factor)} {_bag(name[arg] for arg in args)})"
            case Add(args):
                return f"(Add {_bag(name[arg] for arg in args)})"
            case Fold(kind, indices, where, body):
                return f"({kind} {_names(indices)} {name[where]} {name[body]})"
            case Some(indices, where):
                return f"(Some {_names(indices)} {name[where]})"
            case Call(label, args):
                return f"(F{len(args)} {_quoted(label)} {' '.join(name[arg] for arg in args)})"
            case Choice(condition, yes, no):
                return f"(Sel {name[condition]} {name[yes]} {name[no]})"
            case Rounded(dtype, arg):
                return f"(Rnd {_quoted(dtype)} {name[arg]})"
            case Gather(index, at, arg):
                return f"(Gat {_quoted(index)} {name[at]} {name[arg]})"


def rational(value: Fraction) -> str:
    """An exact number as egglog text, whatever its size."""
    return f"(bigrat {_integer(value.numerator)} {_integer(value.denominator)})"


def _integer(value: int) -> str:
    if -(2**63) <= value < 2**63:
        return f"(bigint {value})"
    return f'(from-string "{value}")'


def _bag(items: Iterable[str]) -> str:
    return f"(multiset-of {' '.join(items)})"


def _names(names: Iterable[str]) -> str:
    listed = " ".join(map(_quoted, names))
    return f"(set-of {listed})" if listed else "(set-empty)"


def _quoted(text: str) -> str:
    if '"' in text or "\\" in text:
        raise ValueError(f"{text!r} cannot be a name in the e-graph")
    return f'"{text}"'


class _Reader:
    """An engine's rows as a Graph; classes are numbered by first appearance from the roots."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.functions: Any = engine.freeze().functions

    def graph(self, roots: int, fired: Mapping[str, int], note: str) -> Graph:
        raw: dict[Any, list[tuple[str, tuple[Any, ...], tuple[Any, ...]]]] = {}
        for operator in OPERATORS:
            for row in self.functions[operator].rows:
                if row.subsumed:
                    continue
                data, args = self.parts(operator, row.inputs)
                raw.setdefault(row.output, []).append((operator, data, args))
        for nodes in raw.values():
            nodes.sort(key=lambda item: (item[0], repr(item[1]), len(item[2]), item[2]))
        tops = [self.functions[f"$root{number}"].rows[0].output for number in range(roots)]
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
        sanctioned = self.marked("sanctioned", number)
        count = sum(map(len, classes.values()))
        tops_ = tuple(number[top] for top in tops)
        return Graph(classes, tops_, free, nonpos, constants, sanctioned, fired, count, note)

    def marked(self, function: str, number: Mapping[Any, int]) -> frozenset[int]:
        rows = self.functions[function].rows
        return frozenset(number[row.inputs[0]] for row in rows if row.inputs[0] in number)

    def names(self, value: Any) -> tuple[str, ...]:
        return tuple(sorted(map(self.engine.value_to_string, self.engine.value_to_set(value))))

    def parts(
        self, operator: str, inputs: Sequence[Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """(data, argument classes) of a row."""
        text = self.engine.value_to_string
        match operator:
            case "Leaf":
                return (text(inputs[0]),), ()
            case "Mul":
                bag = sorted(self.engine.value_to_multiset(inputs[1]))
                return (self.engine.value_to_bigrat(inputs[0]),), tuple(bag)
            case "Add":
                return (), tuple(sorted(self.engine.value_to_multiset(inputs[0])))
            case "Sum" | "Max" | "Min" | "Some":
                return (self.names(inputs[0]),), tuple(inputs[1:])
            case "F1" | "F2" | "Rnd" | "Gat":
                return (text(inputs[0]),), tuple(inputs[1:])
            case _:
                return (), tuple(inputs)


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
