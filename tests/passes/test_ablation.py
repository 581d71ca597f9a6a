"""No rule is free: without it some program of the corpus costs more. And the result depends on
nothing but the program: not on the order of the tables, the hash seed, or what ran before."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.problems.in_sequence import cost_in_sequence
from benchmarks.problems.needed_rules import NEEDED, SIZES
from benchmarks.problems.rewrites import DISCOVERIES
from tensorc.ir.print_tensor import show_program
from tensorc.passes.algebra.rule import Rule
from tensorc.passes.algebra.rules import FAST, RULES
from tensorc.passes.algebra.saturate import rewrite
from tests.passes.test_saturate import ONCE_WRONG, program_of, sizes_of

# (program, sizes, table) in which each rule that NEEDED lacks is needed.
_BY_DISCOVERY = {
    "chain reassociation": ("flatten-product", "open-sum"),
    "factoring": ("join-sums",),
    "distributing": ("split-summand",),
    "delayed division, folded scale, exp2": (
        "bare-sum", "pull-factor", "factor", "exp2", "shift-constant", "max-constant",
        "round-past-factor", "factor-number", "scale-shift", "scale-max", "select-to-where",
        "round-in-select",
    ),
    "safe logsumexp": ("log-product", "log-exp", "shift-exp-sum"),
    "permutation folding": ("bare-product", "join-gathers", "cancel-permutation"),
    "sum through a gather": ("product-of-gather", "sum-of-gather"),
    "common sub-sums": ("share-pair",),
    "merging by concatenation": ("part-of-join", "round-of-gather"),
}  # fmt: skip
_BY_CASE = {
    "one term is both q x and -q y": ("collect", "scale-min"),
    "functions of constants": ("pull-number", "max-summand"),
}


def texts(rule: Rule) -> tuple[list[str], dict[str, int]]:
    """The programs that need a rule, and their sizes."""
    if rule.name in NEEDED:
        return [NEEDED[rule.name]], dict(SIZES)
    for name, rules in _BY_CASE.items():
        if rule.name in rules:
            return ["\n  ".join(ONCE_WRONG[name])], dict(i=3, j=4, k=5, l=4)
    (found,) = (
        item for item in DISCOVERIES if rule.name in _BY_DISCOVERY.get(item.name, ())
    )  # fmt: skip
    return [found.text, *found.variants], dict(found.sizes)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_is_needed(rule: Rule) -> None:
    table = FAST if rule in FAST else RULES
    without = tuple(item for item in table if item is not rule)
    programs, known = texts(rule)
    worse = 0
    for program in map(program_of, programs):
        sizes = sizes_of(program, known)
        costs: list[int] = []
        for rules in (table, without):
            made = rewrite(program, sizes, rules)
            assert made.extracted is not None
            costs.append(made.extracted.cost)
        assert costs[0] <= costs[1]
        worse += costs[0] < costs[1]
    assert worse


def test_one_rule_after_another_ends_worse() -> None:
    """Phase order: each rule by itself, kept where it pays, misses what saturation finds."""
    for name in ("delayed division, folded scale, exp2", "safe logsumexp", "factored scores"):
        (found,) = (item for item in DISCOVERIES if item.name == name)
        program, rules = program_of(found.text), RULES if found.every else FAST
        sizes = sizes_of(program, found.sizes)
        made = rewrite(program, sizes, rules)
        assert made.extracted is not None
        assert cost_in_sequence(program, sizes, rules) > made.extracted.cost, name


_PRINT = """
import sys
sys.path[:0] = [{root!r}]
from tests.passes.test_ablation import digest
print(digest())
"""


def digest() -> str:
    """What becomes of three discoveries, in this process."""
    found = hashlib.sha256()
    for item in DISCOVERIES[3:6]:
        program = program_of(item.text)
        rules = RULES if item.every else FAST
        found.update(
            show_program(rewrite(program, sizes_of(program, item.sizes), rules).program).encode()
        )
    return found.hexdigest()


SEEDS = range(10 if os.environ.get("TENSORC_PROFILE") == "campaign" else 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_hash_seeds_and_cold_engines_give_the_same_program(seed: int) -> None:
    digest()
    warm = digest()
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", _PRINT.format(root=root)],
        env={**os.environ, "PYTHONHASHSEED": str(seed)},
        cwd=root, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.strip() == warm
