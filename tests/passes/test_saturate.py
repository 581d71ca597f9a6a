"""Rewriting whole programs: what has to be discovered, what has to be left alone, and that the
result is right by two measures: exact values in prime fields, and the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.problems.rewrites import DISCOVERIES, Discovery
from examples.sizes import EXAMPLES, Example
from tensorc.fuzz.data import array
from tensorc.ir.accept import Outcome
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.print_tensor import show_program
from tensorc.ir.tensor import Program
from tensorc.ir.verify_tensor import verify
from tensorc.lang import read
from tensorc.passes.algebra import engine
from tensorc.passes.algebra.egraph import Graph, Limits, saturate
from tensorc.passes.algebra.encode import encode
from tensorc.passes.algebra.rule import text_of
from tensorc.passes.algebra.rules import FAST, RULES
from tensorc.passes.algebra.saturate import Rewritten, rewrite
from tensorc.passes.algebra.validate import validate
from tensorc.passes.canonicalise import canonicalise
from tensorc.prepare import prepare, run_prepared
from tensorc.verify import judge
from tests.conftest import Golden

Array = npt.NDArray[Any]
SMALL = 5  # the largest extent on which programs are interpreted


def program_of(text: str) -> Program:
    """The canonical program of a text with one operator."""
    (program,) = read(text, "rewrite.tc")
    return canonicalise(program)


def sizes_of(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes of a program's indices, stated ones and those of `sizes`."""
    found = {
        name: size.constant if size.constant is not None else sizes.get(name)
        for name, size in program.extents
    }
    known = {Symbol(name, "extent"): size for name, size in sizes.items()}
    return {
        name: evaluate(dict(program.extents)[name], known) if size is None else size
        for name, size in found.items()
    }


def arrays_of(
    program: Program, sizes: Mapping[str, int], below: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Arrays for every parameter; integers stay within 0 and `below`."""
    known = {Symbol(n, kind): size for n, size in sizes.items() for kind in ("extent", "parameter")}
    made: dict[str, Array] = {}
    for item in program.parameters:
        name, dtype = item.tensor.name, item.tensor.dtype
        shape = tuple(evaluate(size, known) for size in item.tensor.shape)
        made[name] = array("normal" if dtype.floating else "small", "dense", name, dtype, shape)
        if name in sizes:
            made[name] = np.asarray(sizes[name], made[name].dtype)
        elif dtype.integral:
            made[name] = np.abs(made[name]) % (below or {}).get(name, 2)
    return made


def assert_equal(source: Program, result: Program, sizes: Mapping[str, int], **below: int) -> None:
    """Both programs give the same outputs, but for rounding in float64."""
    known = {Symbol(n, kind): size for n, size in sizes.items() for kind in ("extent", "parameter")}
    every = {name: evaluate(size, known) for name, size in result.extents}
    arrays = arrays_of(source, sizes, below)
    want = interpret(source, arrays, {**every, **sizes})
    got = interpret(result, arrays, {**every, **sizes})
    for name, values in want.items():
        scale = 1 + np.abs(values[np.isfinite(values)]).max(initial=0)
        np.testing.assert_allclose(got[name], values, rtol=1e-9, atol=1e-11 * scale)


def rewritten(text: str, found: Discovery) -> tuple[Program, Rewritten, dict[str, int]]:
    """A program of a discovery, what became of it, and its sizes."""
    program = program_of(text)
    sizes = sizes_of(program, found.sizes)
    return program, rewrite(program, sizes, RULES if found.every else FAST), sizes


def ratio(made: Rewritten) -> float:
    """The cost of the result relative to the source."""
    return made.extracted.cost / made.extracted.contracted if made.extracted else 1.0


@pytest.mark.parametrize("found", DISCOVERIES, ids=lambda item: item.name)
def test_a_rewrite_is_discovered(found: Discovery, golden: Golden) -> None:
    shown: list[str] = []
    for text in (found.text, *found.variants):
        program, made, sizes = rewritten(text, found)
        assert ratio(made) <= found.most, show_program(made.program)
        assert not made.note
        assert not verify(made.program, accesses=False)
        assert validate(program, made.program, sizes).passed
        small = {name: min(size, SMALL) for name, size in sizes.items()}
        fixed = {n: size.constant for n, size in program.extents if size.constant is not None}
        assert_equal(program, made.program, {**small, **fixed})
        shown.append(show_program(made.program))
    golden(f"{found.name.replace(' ', '-').replace(',', '')}.tc", "\n".join(shown))


@pytest.mark.parametrize("found", DISCOVERIES, ids=lambda item: item.name)
def test_a_twin_is_left_alone(found: Discovery) -> None:
    _, made, _ = rewritten(found.twin, found)
    assert ratio(made) >= 0.98, show_program(made.program)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda item: item.name)
def test_examples_stay_right(example: Example) -> None:
    text = (Path(__file__).parents[2] / f"examples/{example.name}.tc").read_text()
    for source in read(text, example.name):
        program = canonicalise(source)
        made = rewrite(program, example.sizes)
        assert not verify(made.program, accesses=False)
        if made.program is not program:
            assert validate(program, made.program, example.sizes).passed


def test_weights_are_joined_where_that_pays() -> None:
    """A copy at every call has to save more than it costs; one made ahead costs nothing."""
    (found,) = (item for item in DISCOVERIES if item.name == "merging by concatenation")
    program = program_of(found.variants[0])
    weights = ("U", "V", "W")

    def joined(rows: int, static: tuple[str, ...]) -> bool:
        made = rewrite(program, {**found.sizes, "a": rows}, static=static).program
        return any(item.tensor.name == "U_V_W" for item in made.equations)

    assert not joined(64, ())
    assert not joined(64, weights[1:])
    assert joined(64, weights)
    assert joined(4096, ())


def test_what_no_rule_can_change_costs_nothing() -> None:
    text = "op f(A: f32[m, k], B: f32[k, n]) -> C: f32[m, n]\n  C[m, n] = sum[k](A[m, k] * B[k, n])"
    program = program_of(text)
    made = rewrite(program, {"m": 8, "n": 8, "k": 8})
    assert made.program is program
    assert made.encoded is None


def test_an_extent_of_0_is_not_rewritten() -> None:
    found = DISCOVERIES[0]
    program = program_of(found.text)
    made = rewrite(program, {"i": 2, "l": 2, "k": 0, "j": 2})
    assert made.program is program
    assert made.note == "not rewritten: an extent is 0"


def test_an_explosion_ends_by_counts() -> None:
    sums = " * ".join(f"(a{n}[i] + b[i] + c[i] * d[i])" for n in range(12))
    names = ", ".join(f"a{n}: f32[i]" for n in range(12))
    program = program_of(
        f"op f({names}, b: f32[i], c: f32[i], d: f32[i]) -> y: f32\n  y = sum[i]({sums})"
    )
    made = rewrite(program, {"i": 8}, RULES, Limits(rows=300))
    assert not verify(made.program, accesses=False)
    assert validate(program, made.program, {"i": 8}).passed


def test_a_chain_of_thirty_is_ordered() -> None:
    names = [f"A{n}: f32[x{n}, x{n + 1}]" for n in range(30)]
    factors = " * ".join(f"A{n}[x{n}, x{n + 1}]" for n in range(30))
    inner = ", ".join(f"x{n}" for n in range(1, 30))
    text = f"op f({', '.join(names)}) -> y: f32[x0, x30]\n  y[x0, x30] = sum[{inner}]({factors})"
    program = program_of(text)
    sizes = {f"x{n}": 64 if n else 1 for n in range(31)}
    made = rewrite(program, sizes)
    assert not verify(made.program, accesses=False)
    assert made.extracted is not None
    assert made.extracted.cost < 29 * 64**2 * 2 + 30 * 64 * 4


def test_what_ran_before_changes_nothing() -> None:
    """An e-graph that follows a hundred others is what it was; see `engine.fresh`."""

    def found(text: str, sizes: Mapping[str, int]) -> Graph:
        encoded = encode(program_of(text), sizes)
        roots = [term for _, term in encoded.roots]
        return saturate(roots, encoded.facts(), text_of(FAST), Limits())

    names = ", ".join(f"A{n}: f32[x{n}, x{n + 1}]" for n in range(30))
    factors = " * ".join(f"A{n}[x{n}, x{n + 1}]" for n in range(30))
    inner = ", ".join(f"x{n}" for n in range(1, 30))
    text = f"op f({names}) -> y: f32[x0, x30]\n  y[x0, x30] = sum[{inner}]({factors})"
    before = found(text, {})
    first = DISCOVERIES[0]
    for _ in range(25):
        for other in (first.text, *first.variants, first.twin):
            found(other, first.sizes)
    assert found(text, {}) == before


def test_the_validator_finds_a_wrong_result() -> None:
    text = "op f(a: f32[i], b: f32[i]) -> y: f32\n  y = sum[i](exp(a[i]) * {})"
    right, wrong = program_of(text.format("b[i]")), program_of(text.format("a[i]"))
    sizes = {"i": 8}
    assert validate(right, right, sizes).passed
    assert validate(right, wrong, sizes).output == "y"


def test_a_failing_engine_leaves_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    found = DISCOVERIES[0]
    program = program_of(found.text)
    monkeypatch.setattr(engine, "LANGUAGE", "(sort T")
    made = rewrite(program, found.sizes, FAST[:5])
    assert made.program is program
    assert made.note.startswith("not rewritten: EggSmolError")


def test_tables_in_any_order_give_the_same_program() -> None:
    for found in DISCOVERIES:
        program = program_of(found.text)
        sizes = sizes_of(program, found.sizes)
        rules = RULES if found.every else FAST
        first, second = (rewrite(program, sizes, table).program for table in (rules, rules[::-1]))
        assert first == second, found.name


# Programs on which a guard, a name or a constant was once missing.
ONCE_WRONG = {
    "one term is both q x and -q y": (
        "op f(x: f32[i=5, k=7], h: f32[k=7], f: f32[k=7]) -> t: f32[i=5, k=7]",
        "t[i, k] = sum[n=7](0.5 * h[n] - 1.6 * h[n] where n < 4) "
        "- x[i, k] * min[n=7](f[n] + f[n] * 0.5)",
    ),
    "a factor sums over an index of the same name": (
        "op f(a: f32[i, l], b: f32[k, l], z: f32[i, j, k, l], p: bool[k], x: f32[k], "
        "y: f32[k, l]) -> o: f32[i, j]",
        "o[i, j] = sum[l](sum[k](sum[n=|l|](a[i, n] * b[k, n]) * z[i, j, k, l]) "
        "* sum[k](select(p[k], x[k], 0.0) * y[k, l]))",
    ),
    "a factor passes a mask": (
        "op f(x: f32[k, l], u: f32[j, l], y: f32[k], p: bool[k]) -> o: f32[j]",
        "o[j] = sum[l](max[k](1.25 * x[k, l]) * sum[k](u[j, l] * y[k] where p[k]))",
    ),
    "a real exponent of 2": (
        "op f(x: f32[i, k], h: f32[k]) -> o: f32[i]",
        "t[i, k] = x[i, k] / (abs(h[k]) + 0.5) ** 2.0", "o[i] = sum[k](t[i, k] * h[k]) * 3",
    ),
    "functions of constants": (
        "op f(x: f32[k, l]) -> o: f32[i=3]", "t[i, k] = sum[l](x[k, l] * 0.3)",
        "o[i] = sum[k](t[i, k]) / (abs(f16(-2.34)) + 0.5) "
        "+ max[k](0.7 + t[i, k]) * min(sign(bf16(1.1)), cos(f32(0.3)))",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ONCE_WRONG)
def test_what_was_wrong_stays_right(name: str) -> None:
    program = program_of("\n  ".join(ONCE_WRONG[name]))
    sizes = sizes_of(program, dict(i=3, j=4, k=5, l=4))
    made = rewrite(program, sizes, FAST, worth=9.0)
    assert made.program is not program
    assert not verify(made.program, accesses=False)
    assert validate(program, made.program, sizes).passed, show_program(made.program)
    assert_equal(program, made.program, sizes)


def test_what_is_compared_may_be_rewritten_and_is_not_judged() -> None:
    """As the page on numerics says of comparisons."""
    text = "op f(x: f32[i]) -> y: bool[i]\n  y[i] = {}"
    x = np.array([0.1, 0.2, 1, 3], np.float32)
    sizes = {"i": 4}
    (computed,) = read(text.format("x[i] * 0 + 0.1 == 0.1"), "compared.tc")
    (given,) = read(text.format("x[i] == 0.1"), "compared.tc")
    assert not interpret(computed, {"x": x}, sizes)["y"].any()
    assert interpret(given, {"x": x}, sizes)["y"].tolist() == [True, False, False, False]
    call = prepare(computed, {"x": x})
    outputs = run_prepared(call)
    assert outputs["y"].all()
    assert judge(call, outputs)["y"].outcome is Outcome.UNDECIDED
    assert run_prepared(prepare(given, {"x": x}))["y"].tolist() == [True, False, False, False]


@pytest.mark.parametrize("constant", ["0.0", "3.0", "0.1"])
def test_a_named_constant_is_checked_as_the_number_it_is(constant: str) -> None:
    """Written or cast to the type of the tensor: a read of either stands for the same number."""
    text = "op f(x: f32[k]) -> y: f32[k]\n  t: f32[k] = {}\n  y[k] = x[k] * t[k] + t[k]\n"
    (plain,), (cast,) = read(text.format(constant)), read(text.format(f"f32({constant})"))
    assert validate(plain, cast, {"k": 3}).passed and validate(cast, plain, {"k": 3}).passed
    (other,) = read(text.format("f32(7.5)"))
    assert not validate(plain, other, {"k": 3}).passed
