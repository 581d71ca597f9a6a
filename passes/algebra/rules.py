"""All tables of rules in one, in the order in which they are given to the e-graph."""

from __future__ import annotations

from tensorc.passes.algebra import (
    rules_cast,
    rules_index,
    rules_mask,
    rules_order,
    rules_ring,
    rules_scalar,
    rules_stability,
)
from tensorc.passes.algebra.rule import Kind, Rule

RULES: tuple[Rule, ...] = (
    *rules_ring.RULES,
    *rules_scalar.RULES,
    *rules_order.RULES,
    *rules_mask.RULES,
    *rules_index.RULES,
    *rules_cast.RULES,
    *rules_stability.RULES,
)

FAST: tuple[Rule, ...] = tuple(
    rule for rule in RULES if rule.kind in (Kind.EXACT, Kind.REASSOCIATING)
)
