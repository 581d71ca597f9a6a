"""Hostile text: refused with its own code, without recursion and in time linear in its length.

Each case takes a fraction of a second. The bar here is five seconds of CPU, which a machine under
load keeps and a quadratic reader of these sizes exceeds many times over.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pytest

from tensorc.errors import NotationError
from tensorc.ir.source import Source
from tensorc.ir.syntax import Call, Chain, height
from tensorc.lang import read
from tensorc.lang.parse import parse_file

HEADER = "op f(x: f32[n], w: f32) -> y: f32[n]\n  y[n] = "

REFUSED: dict[str, tuple[str, str]] = {
    "a sum of 100,000 terms": ("E105", HEADER + "+".join(["w"] * 100_000)),
    "100,000 arguments": ("E105", HEADER + f"max({'w,' * 100_000})"),
    "20,000 differences": ("E104", HEADER + "-".join(["w"] * 20_000)),
    "18,000 sums and differences": ("E104", HEADER + "w" + "-w+w" * 9000),
    "200,000 prefixes": ("E104", HEADER + "~" * 200_000 + "w"),
    "5,000 negations": ("E104", HEADER + "not " * 5000 + "w"),
    "5,000 powers": ("E104", HEADER + "**".join(["w"] * 5000)),
    "5,000 brackets": ("E104", HEADER + "(" * 5000 + "w" + ")" * 5000),
    "5,000 calls": ("E104", HEADER + "abs(" * 5000 + "w" + ")" * 5000),
    "5,000 subscripts": ("E104", HEADER + "x[" * 5000 + "n" + "]" * 5000),
    "5,000 reductions": ("E104", HEADER + "sum[k](" * 5000 + "w" + ")" * 5000),
    "500 times every operator": (
        "E104",
        HEADER + "(w or w and w == w | w ^ w & w << w + w * -w ** " * 500 + "w" + ")" * 500,
    ),
    "5,000 rows": ("E104", "const C: f32 = " + "[" * 5000 + "1" + "]" * 5000),
    "100,000 unclosed brackets": ("E109", HEADER + "(" * 100_000),
    "brackets that cross": ("E109", HEADER + "([" * 60_000 + ")]" * 60_000),
    "one kind open, the other closed": ("E109", HEADER + "(" * 80_000 + "[]" * 80_000),
    "100,000 closing brackets": ("E108", HEADER + ")" * 100_000),
    "200,000 bars": ("E108", HEADER + "|" * 200_000),
    "200,000 commas": ("E108", HEADER + "," * 200_000),
    "200,000 points": ("E108", HEADER + "." * 200_000),
    "200,000 digits": ("E107", HEADER + "1" * 200_000),
    "an exponent of 200,000 digits": ("E107", HEADER + "1e" + "9" * 200_000),
    "a name of 200,000 letters": ("E106", HEADER + "a" * 200_000),
    "200,000 primes": ("E106", HEADER + "a" + "'" * 200_000),
    "60,000 changes of direction": ("E106", HEADER + "\u202e" * 60_000),
    "direction within a name": ("E106", HEADER + "a\u202eb\u202c + w"),
    "a name with a zero-width joiner": ("E106", HEADER + "a\u200db + w"),
    "4,000 bad lines": ("E109", "op f( -> \n" * 4000),
    "15,000 unknown functions": ("E119", HEADER + "+".join(f"foo{i}(w)" for i in range(15_000))),
    "250,000 line ends": ("E101", "\n" * 250_000),
    "half a million characters": ("E103", HEADER + "w" * 500_000),
    "6,000 statements": ("E103", HEADER + "w\n" + "  y[n] = w\n" * 6000),
}


def refusal(text: str) -> NotationError:
    """The error of a text, within the time that a text may take."""
    start = time.process_time()
    with pytest.raises(NotationError) as caught:
        parse_file(Source("f.tc", text))
    assert time.process_time() - start < 5
    return caught.value


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    code, text = REFUSED[case]
    error = refusal(text)
    assert {item.code for item in error.diagnostics} == {code}
    assert code != "E105" or "100000 terms" in str(error)
    lines = str(error.diagnostics[0]).split("\n")
    assert len(lines) < 10 and max(map(len, lines)) < 1500
    assert not any("\u202a" <= char <= "\u202e" for char in str(error))


def body(text: str) -> Call | Chain:
    """The only right side."""
    found = parse_file(Source("f.tc", HEADER + text)).operators[0].statements[0].body
    assert isinstance(found, Call | Chain)
    return found


@pytest.mark.parametrize("operator", ["+", "*", "<", " and ", " or "])
def test_long_chains_are_flat(operator: str) -> None:
    found = body(operator.join(["w"] * 20_000))
    assert len(found.args) == 20_000 and height(found) == 2


DEEPEST = [
    ("(", ")", 200), ("abs(", ")", 199), ("-(", ")", 199), ("w * (", ")", 199), ("w ** -", "", 99),
    ("x[", "]", 199), ("sum[k](w * ", ")", 99), ("sum[k=", "](w)", 199), ("(2 ** ", ")", 199),
    ("(not ", ")", 199), ("w + w * (", ")", 99),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "most"), DEEPEST)
def test_the_last_depth_that_is_allowed(before: str, after: str, most: int) -> None:
    text = HEADER + before * most + "n" + after * most
    assert frames(lambda: parse_file(Source("f.tc", text))) < 650  # of Python's 1,000
    assert refusal(HEADER + before * (most + 1) + "n" + after * (most + 1)).code == "E104"


def frames(call: Callable[[], object]) -> int:
    """How many Python frames deep a call goes."""
    now = deepest = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal now, deepest
        now += {"call": 1, "return": -1}.get(event, 0)
        deepest = max(deepest, now)

    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return deepest


def test_names_that_other_languages_reserve_are_ordinary() -> None:
    names = ["int", "double", "threadIdx", "__restrict__", "class", "lambda", "near", "NULL", "e"]
    declared = ", ".join(f"{name}: f32" for name in names)
    found = parse_file(Source("f.tc", f"op main({declared}) -> template: f32\n  template = int\n"))
    assert [item.name for item in found.operators[0].parameters] == names


def test_nothing_includes_a_file() -> None:
    for text in ('include "x.tc"', "import os", "@/etc/passwd", "op f() -> y: f32\n  y = ../x"):
        with pytest.raises(NotationError):
            parse_file(Source("f.tc", text))


@pytest.mark.parametrize("number", ["10**10**10", "(1 << 100000000000)", "-(3 * 10**10**10)"])
@pytest.mark.parametrize("dtype", ["i32", "u64"])
def test_integers_beyond_all_bounds_fit_nothing(number: str, dtype: str) -> None:
    with pytest.raises(NotationError) as caught:
        read(Source("f.tc", f"op f(x: {dtype}[i]) -> y: {dtype}[i]\n  y[i] = x[i] + {number}\n"))
    assert caught.value.code == "E224"
    assert "a number beyond 2**16384 does not fit" in str(caught.value)
