"""egglog itself: terms as its text, engines for a table of rules, and rows read back.

egglog is not typed in full, so its values are `Any` here and go no further than `egraph` and
`single_steps`, which make plain data of them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from tensorc.ir.node import postorder
from tensorc.passes.algebra.egraph_text import ANALYSES, LANGUAGE
from tensorc.passes.algebra.facts import Facts
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

ANALYSE = "(run-schedule (saturate (run analysis)))"
OPERATORS = ("Leaf", "Yes", "Mul", "Add", "Sum", "Max", "Min", "Some", "F1", "F2", "Sel", "Rnd",
             "Gat")  # fmt: skip


class _Engines(threading.local):
    """A thread's engines that equate nothing, by rules; none may leave it."""

    def __init__(self) -> None:
        self.by_rules: dict[str, Any] = {}


_ENGINES = _Engines()
_KEPT = 2  # engines of a thread


def fresh(rules: str) -> Any:
    """A new engine that knows the rules and no terms.

    It takes some 25 ms to make. One that has equated terms is not used again: after a pop, egglog
    13.2 may take a new multiset for one of before, whose members were since equated.
    """
    engine = _engine()
    run(engine, LANGUAGE + ANALYSES + rules)
    return engine


def kept(rules: str) -> Any:
    """An engine for rules that equate nothing, the same one each time: what is put in has to be
    popped."""
    known = _ENGINES.by_rules
    if rules not in known:
        while len(known) >= _KEPT:
            del known[next(iter(known))]
        known[rules] = fresh(rules)
    return known[rules]


def _engine() -> Any:
    from egglog import bindings

    return bindings.EGraph()


def run(engine: Any, text: str) -> Any:
    """Run a text; what its commands print."""
    return engine.run_program(*engine.parse_program(text))


def insertions(terms: Sequence[Term], facts: Facts) -> Iterable[str]:
    """The commands that put terms in, each under $root and its number."""
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
    for leaf in sorted(facts.copied):
        yield f"(set (copied (Leaf {_quoted(leaf)})) 1)"
    for leaf, whole in facts.parts:
        name = writer.named(whole)
        yield from writer.lines()
        yield f"(part (Leaf {_quoted(leaf)}) {name})"


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


class Rows:
    """An engine's rows of operators, as they are now."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.functions: Any = engine.freeze().functions

    def by_class(self) -> dict[Any, list[tuple[str, tuple[Any, ...], tuple[Any, ...]]]]:
        """(operator, data, argument classes) of the nodes of each class."""
        raw: dict[Any, list[tuple[str, tuple[Any, ...], tuple[Any, ...]]]] = {}
        for operator in OPERATORS:
            for row in self.functions[operator].rows:
                if row.subsumed:
                    continue
                data, args = self.parts(operator, row.inputs)
                raw.setdefault(row.output, []).append((operator, data, args))
        return raw

    def tops(self, roots: int) -> list[Any]:
        """The classes of the terms that were put in."""
        return [self.functions[f"$root{number}"].rows[0].output for number in range(roots)]

    def names(self, value: Any) -> tuple[str, ...]:
        """A set of names in order."""
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
