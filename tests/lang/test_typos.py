"""Slips of the pen: one index for another, and random edits, on all programs of the project."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tensorc.errors import NotationError
from tensorc.ir import syntax as s
from tensorc.ir.source import Source
from tensorc.ir.tensor import Program
from tensorc.ir.verify_tensor import verify
from tensorc.lang import read
from tensorc.lang.parse import parse_file

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "tests/programs/language.tc", *sorted((ROOT / "examples").glob("*.tc"))]
TEXTS = [path.read_text(encoding="utf-8") for path in FILES]
EDITS = 8_000 if os.environ.get("TENSORC_PROFILE") == "campaign" else 400

TOKEN = re.compile(r"[A-Za-z_]\w*|\d+\.?\d*(?:e-?\d+)?|//|\*\*|<=|>=|==|!=|->|\s+|.", re.DOTALL)
SETS = [
    "f16 f32 i8 u8 i32 i64 u64 bool complex64 f64".split(),
    "sum max softmax argmax any mean exp select clamp abs min round popcount prod".split(),
    "+ - * / // % ** < <= == & ^ >>".split(),
    "0 1 2 3 7 1.5 300 4294967296 1e-5".split(),
]


def operators(text: str) -> list[str]:
    """The text of each operator of a file that has no tables."""
    parts = re.split(r"(?m)^(?=op )", text)
    return [part.strip() for part in parts[1:]] if "const " not in parts[0] else []


def slips(text: str, program: Program) -> Iterator[tuple[str, str, str]]:
    """(text, index, other): every bare subscript of an equation replaced by every other index."""
    (operator,) = parse_file(Source("f.tc", text)).operators
    lines = text.split("\n")
    seen: set[int] = set()
    for statement in operator.statements:
        for item in s.postorder(statement.body):
            subs = item.subscripts if isinstance(item, s.Access) else ()
            for sub in subs:
                if not isinstance(sub, s.Name) or sub.name not in program.extent_of:
                    continue
                assert id(sub) not in seen
                seen.add(id(sub))
                span = sub.span.resolve()
                line = lines[span.line - 1]
                for other in program.extent_of:
                    if other != sub.name:
                        new = line[: span.column - 1] + other + line[span.end_column - 1 :]
                        changed = [*lines[: span.line - 1], new, *lines[span.line :]]
                        yield "\n".join(changed), sub.name, other


def test_one_index_for_another_is_refused_unless_their_extents_are_equal() -> None:
    tried = refused = 0
    for text in (part for file in TEXTS for part in operators(file)):
        (program,) = read(text)
        for slip, index, other in slips(text, program):
            tried += 1
            try:
                read(slip)
            except NotationError:
                refused += 1
            else:
                assert program.extent_of[index] is program.extent_of[other], (slip, index, other)
    assert tried > 1000 and refused > 0.96 * tried


def edited(random: Random, text: str) -> str:
    """A program with one to three tokens replaced by others of their sort."""
    tokens = TOKEN.findall(text)
    names = [token for token in tokens if token.isidentifier() and token not in SETS[0]]
    for _ in range(random.randint(1, 3)):
        at = random.randrange(4, len(tokens))
        for group in (*SETS, names):
            if tokens[at] in group:
                tokens[at] = random.choice(group)
                break
    return "".join(tokens)


@pytest.mark.parametrize("part", range(4))
def test_random_edits_give_a_right_program_or_a_fault(part: int) -> None:
    random = Random(part)
    texts = [item for file in TEXTS for item in operators(file)]
    right = 0
    for _ in range(EDITS // 4):
        text = edited(random, random.choice(texts))
        try:
            programs = read(text)
        except NotationError as error:
            assert error.code.startswith("E") and str(error)
        else:
            right += 1
            for program in programs:
                assert verify(program) == [], text
    assert right > EDITS // 4 * 0.2
