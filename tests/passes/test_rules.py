"""Every rule by itself: it fires on samples of its left side, what it makes is equal there, and it
leaves near misses alone. Wrong rules are found the same way."""

from __future__ import annotations

import os
import re

import pytest

from tensorc.ir.choose import RandomChooser
from tensorc.passes.algebra.check_rule import fire
from tensorc.passes.algebra.engine import OPERATORS
from tensorc.passes.algebra.rule import Rule
from tensorc.passes.algebra.rules import RULES
from tests.passes.planted_rules import planted

SEEDS = range(20 if os.environ.get("TENSORC_PROFILE") == "campaign" else 3)
FIRINGS = 20
OPERATOR = re.compile(rf"\(({'|'.join(OPERATORS)}) ")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_makes_equal_forms(rule: Rule) -> None:
    for seed in SEEDS:
        found = fire(rule, rule.sample(RandomChooser(seed)), seed)
        assert found.matches > 0, f"seed {seed}: the rule does not fire"
        assert (found.clashes, found.unknown) == (0, 0), f"seed {seed}: {found}"
        assert found.draws > 0, f"seed {seed}: nothing was compared"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_leaves_near_misses_alone(rule: Rule) -> None:
    for seed in SEEDS:
        assert fire(rule, rule.near_miss(RandomChooser(seed)), seed).matches == 0, f"seed {seed}"


@pytest.mark.parametrize("rule", planted(), ids=lambda rule: rule.name)
def test_a_wrong_rule_is_found(rule: Rule) -> None:
    firings = 0
    for seed in range(FIRINGS):
        for make in (rule.sample, rule.near_miss):
            found = fire(rule, make(RandomChooser(seed)), seed)
            firings += bool(found.matches)
            if found.clashes:
                assert firings <= FIRINGS
                return
    pytest.fail(f"not found in {firings} firings")


def test_rules_are_small_and_named_once() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    for rule in RULES:
        assert len(OPERATOR.findall(rule.when)) <= 5, rule.name
        contraction = "(Sum" in rule.when and "(Mul" in rule.when
        assert not ("exp" in rule.when and contraction), rule.name
