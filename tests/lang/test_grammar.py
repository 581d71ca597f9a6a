"""The reader and the grammar agree: on generated statements, and on the same ones with a mistake.

The grammar is strict LALR(1) (building the oracle fails otherwise), so each text has one meaning;
where both accept, the structure is compared too.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import pytest

from tensorc.errors import NotationError
from tensorc.ir.source import Source
from tensorc.lang.parse import parse_file
from tests.lang.grammar_oracle import oracle
from tests.lang.structure import statement, table

COUNT = 20_000 if os.environ.get("TENSORC_PROFILE") == "campaign" else 1000
HEADER = "op f() -> y: f32\n"

NAMES = "a b x y n k m i tok max sum bitcast init e by unit seen".split()
NUMBERS = "0 1 2 12 0x1f 1.5 1. 2e-3 0.0 1e5 0x1.8p-3 2j".split()
WORDS = "inf nan pi true false".split()
DTYPES = "f16 f32 i32 bool complex64".split()
BINARY = "or and < <= > >= == != | ^ & << >> + - * / // % **".split()
MARKS = "( ) [ ] , : = -> .. @ | where in as not - ~ + init const op if".split()


class Statements:
    """Draws tokens of statements from the grammar."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, words: Sequence[str]) -> str:
        return self.random.choice(words)

    def chance(self, odds: float) -> bool:
        return self.random.random() < odds

    def some(self, item: list[list[str]]) -> list[str]:
        """A list with commas, sometimes with one behind the last."""
        words = [word for part in item for word in [*part, ","]]
        return words if self.chance(0.1) else words[:-1]

    def draw(self) -> list[str]:
        """One statement."""
        kind = self.random.random()
        if kind < 0.75:
            return self.equation()
        return self.header() if kind < 0.9 else ["const", *self.parameter(), "=", *self.rows(2)]

    def equation(self) -> list[str]:
        dtype = [":", self.pick(DTYPES)] if self.chance(0.2) else []
        left = ["[", *self.some([self.binding() for _ in range(self.random.randrange(3))]), "]"]
        body = self.expression(4)
        init = ["init", *self.expression(1)] if self.chance(0.05) else []
        return [self.pick(NAMES), *dtype, *(left if self.chance(0.7) else []), "=", *body, *init]

    def header(self) -> list[str]:
        inputs = self.some([self.parameter() for _ in range(self.random.randrange(4))])
        outputs = self.some([self.parameter() for _ in range(self.random.randrange(1, 3))])
        outputs = ["(", *outputs, ")"] if self.chance(0.3) else outputs
        return ["op", self.pick(NAMES), "(", *inputs, ")", "->", *outputs]

    def parameter(self) -> list[str]:
        const = ["const"] if self.chance(0.2) else []
        dims = ["[", *self.some([self.dimension() for _ in range(self.random.randrange(3))]), "]"]
        planned = ["in", *self.arith(1), "..", *self.arith(1)] if self.chance(0.05) else []
        planned = ["as", "bcsr", "(", "8", ")"] if self.chance(0.05) else planned
        dims = dims if self.chance(0.7) else []
        return [self.pick(NAMES), ":", *const, self.pick(DTYPES), *dims, *planned]

    def dimension(self) -> list[str]:
        if self.chance(0.2):
            return [self.pick(["3", "64"])]
        mesh = ["@", "tp"] if self.chance(0.05) else []
        return [self.pick(NAMES), *mesh, *(["=", *self.arith(2)] if self.chance(0.3) else [])]

    def rows(self, depth: int) -> list[str]:
        if depth == 0:
            return self.arith(1)
        return ["[", *self.some([self.rows(depth - 1) for _ in range(2)]), "]"]

    def binding(self) -> list[str]:
        if self.chance(0.05):
            return [self.pick(NAMES), "in", *self.arith(1), "..", *self.arith(1)]
        return [self.pick(NAMES), *(["=", *self.arith(1)] if self.chance(0.3) else [])]

    def arith(self, depth: int) -> list[str]:
        if depth == 0 or self.chance(0.4):
            return self.atom(depth)
        return [*self.arith(depth - 1), self.pick(["+", "-", "*", "//", "%"]), *self.atom(depth)]

    def expression(self, depth: int) -> list[str]:
        if depth == 0 or self.chance(0.2):
            return self.atom(depth)
        if self.chance(0.2):
            return ["not", *self.expression(depth - 1)]
        operator = self.pick(BINARY)
        return [*self.operand(depth - 1), operator, *self.operand(depth - 1)]

    def operand(self, depth: int) -> list[str]:
        words = self.expression(depth)
        if "not" in words[:1]:
            return ["(", *words, ")"]
        prefix = [self.pick(["-", "+", "~"])] if self.chance(0.2) else []
        return [*prefix, *(["(", *words, ")"] if self.chance(0.2) else words)]

    def atom(self, depth: int) -> list[str]:
        below = max(0, depth - 1)
        match self.random.randrange(10 if depth else 4):
            case 0 | 1:
                return [self.pick(NAMES)]
            case 2:
                return [self.pick(NUMBERS if self.chance(0.8) else WORDS)]
            case 3:
                return ["|", self.pick(NAMES), "|"]
            case 4 | 5:
                inside = [self.expression(below) for _ in range(self.random.randrange(3))]
                return [self.pick(NAMES), "[", *self.some(inside), "]"]
            case 6:
                name, count = self.pick(["max", "abs", "select"]), self.random.randrange(4)
                return [name, "(", *self.some([self.expression(below) for _ in range(count)]), ")"]
            case 7:
                return [self.pick(DTYPES), "(", *self.expression(below), ")"]
            case 8:
                return ["bitcast", "(", self.pick(DTYPES), ",", *self.expression(below), ")"]
            case _:
                return self.reduction(below)

    def reduction(self, depth: int) -> list[str]:
        bound = [self.binding() for _ in range(self.random.randrange(1, 3))]
        bound += [[self.pick(DTYPES)]] if self.chance(0.2) else []
        where = ["where", *self.expression(depth)] if self.chance(0.3) else []
        words = self.some(bound)
        return [self.pick(["sum", "any", "best"]), "[", *words, "]", "("] + [
            *self.expression(depth),
            *where,
            ")",
        ]

    def mistaken(self, words: list[str]) -> list[str]:
        """The statement with one word removed, doubled, replaced, added or moved."""
        at = self.random.randrange(len(words))
        new = self.pick(MARKS + BINARY + NAMES[:4] + DTYPES[:1] + NUMBERS[:3])
        match self.random.randrange(5):
            case 0:
                return words[:at] + words[at + 1 :]
            case 1:
                return words[: at + 1] + words[at:]
            case 2:
                return [*words[:at], new, *words[at + 1 :]]
            case 3:
                return [*words[:at], new, *words[at:]]
            case _:
                to = self.random.randrange(len(words))
                words = list(words)
                words[at], words[to] = words[to], words[at]
                return words


def reading(text: str) -> str | None:
    """What the reader makes of one statement: its structure, None if refused, "kept" if it is
    well formed but planned or unknown (E118, E119) or a row differs in length."""
    equation = text.split(" ", 1)[0] not in ("op", "const", "monoid")
    try:
        found = parse_file(Source("f.tc", f"{HEADER}  {text}\n" if equation else f"{text}\n"))
    except NotationError as error:
        rows = error.message.startswith("this row")
        return "kept" if error.code in ("E118", "E119") or rows else None
    if found.tables:
        return table(found.tables[0])
    statements = found.operators[0].statements
    return statement(statements[0]) if statements else "header"


@pytest.mark.parametrize("part", range(10))
def test_reader_and_grammar_agree(part: int) -> None:
    draws = Statements(part)
    accepted = refused = 0
    for _ in range(COUNT // 10):
        words = draws.draw()
        for attempt in (words, draws.mistaken(words)):
            text = " ".join(attempt)
            ours, expected = reading(text), oracle(text)
            assert (ours is None) == (expected is None), text
            assert ours in (expected, "kept"), text
            accepted += ours is not None
            refused += ours is None
    assert accepted > COUNT // 20 and refused > COUNT // 50
