"""The chain of rules behind a rewritten program: replayed rule by rule, it gives the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from benchmarks.problems.rewrites import DISCOVERIES, Discovery
from examples.sizes import EXAMPLES
from tensorc.ir.print_tensor import show_program
from tensorc.ir.tensor import Program
from tensorc.lang import read
from tensorc.passes.algebra.chain import explain_rewrite, replayed
from tensorc.passes.algebra.encode import encode
from tensorc.passes.algebra.joins import with_joins
from tensorc.passes.algebra.rule import Rule
from tensorc.passes.algebra.rules import FAST, RULES
from tensorc.passes.algebra.saturate import rewrite
from tensorc.passes.algebra.validate import validate
from tensorc.passes.canonicalise import canonicalise
from tests.passes.test_saturate import program_of, sizes_of


def assert_chain(program: Program, sizes: Mapping[str, int], table: Sequence[Rule]) -> int:
    """Each step is one application of its rule alone, its program is equal to the source and reads
    back, and the last one is the result; the number of steps."""
    rules = {rule.name: rule for rule in table}
    result = rewrite(program, sizes, table).program
    encoded = with_joins(encode(program, sizes))
    here = tuple(term for _, term in encoded.roots)
    steps = explain_rewrite(program, sizes, table)
    for step in steps:
        first, second = (step.terms, here) if step.backwards else (here, step.terms)
        assert second in replayed(first, encoded.facts_of_all(), rules[step.rule]), step.rule
        assert step.program is not None
        assert validate(program, step.program, sizes).passed, step.rule
        (again,) = read(show_program(step.program), "step.tc")
        assert again.equations == step.program.equations
        here = step.terms
    assert (steps[-1].program if steps else program) == result
    return len(steps)


@pytest.mark.parametrize("found", DISCOVERIES, ids=lambda item: item.name)
def test_a_discovery_is_replayed(found: Discovery) -> None:
    program = program_of(found.text)
    table = RULES if found.every else FAST
    assert assert_chain(program, sizes_of(program, found.sizes), table) > 0


def test_a_step_may_go_backwards() -> None:
    (example,) = (item for item in EXAMPLES if item.name == "causal_attention")
    text = (Path(__file__).parents[2] / f"examples/{example.name}.tc").read_text()
    program = canonicalise(read(text, example.name)[0])
    assert assert_chain(program, example.sizes, FAST) > 9
    assert any(step.backwards for step in explain_rewrite(program, example.sizes))


def test_what_stays_has_no_chain() -> None:
    program = program_of("op f(a: f32[i]) -> y: f32\n  y = sum[i](a[i])")
    assert explain_rewrite(program, {"i": 8}) == []
