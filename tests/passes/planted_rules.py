"""Twenty rules that are wrong in one place each; the check of rules has to find every one."""

from __future__ import annotations

from dataclasses import replace

from tensorc.passes.algebra.rule import Rule
from tensorc.passes.algebra.rules import RULES

_BY_NAME = {rule.name: rule for rule in RULES}

# (rule, what is wrong, old text, new text); the text is that of `when` or of `then`.
PLANTS = (
    ("pull-factor", "the guard is gone", "(= 0 (set-length (set-intersect free_x I)))", ""),
    ("pull-factor", "the factor is lost", "(multiset-of x (Sum", "(multiset-of (Sum"),
    ("pull-number", "the number is squared", "(Mul q (multiset-of (Sum",
     "(Mul (* q q) (multiset-of (Sum"),
    ("pull-masked", "the mask is lost", "(Sum I c (Mul q", "(Sum I (Yes) (Mul q"),
    ("pull-masked", "the guard is gone", "(= 0 (set-length (set-intersect free_x I)))", ""),
    ("open-sum", "capture", "(= 0 (set-length (set-intersect f J)))", ""),
    ("open-sum", "the inner index stays", "(set-union I J)", "I"),
    ("merge-sums", "masks are ignored", "(Sum J (Yes) x)", "(Sum J mask x)"),
    ("flatten-product", "a number is lost", "(* q r)", "q"),
    ("flatten-sum", "a summand twice", "(multiset-remove ms x)", "ms"),
    ("factor", "the numbers change places", "(Mul q (multiset-remove as x))",
     "(Mul r (multiset-remove as x))"),
    ("collect", "one too few", "(+ q (bigrat (bigint 1) (bigint 1)))", "q"),
    ("factor-number", "any two numbers", "(= r (neg q))", "(!= r q)"),
    ("sum-of-same", "the extent is lost", "(multiset-of (Leaf (+ \"|\" (+ i \"|\"))) x)",
     "(multiset-of x)"),
    ("scale-max", "negative numbers too", "(> q (bigrat (bigint 0) (bigint 1)))", ""),
    ("max-constant", "any factor", "(= one (constant c))", ""),
    ("max-summand", "a summand is added twice", "(multiset-remove ms x)", "ms"),
    ("exp2", "the number is lost", "(multiset-of (Leaf \"log2(e)\") x)", "(multiset-of x)"),
    ("shift-exp-sum", "the sum is not rescaled", "(F1 \"exp\" (F1 \"shift\" (Max I c x))) (Sum",
     "(Sum"),
    ("cancel-permutation", "any subscript", "(= one (permutes p k))", ""),
    ("product-of-gather", "capture", "(set-not-contains f r)", ""),
    ("join-gathers", "other subscripts", "(= b (Gat r e y))", "(= b (Gat r f y))"),
)  # fmt: skip


def planted() -> list[Rule]:
    """The wrong rules; one that no longer applies to its rule's text is an error."""
    return [_planted(*plant) for plant in PLANTS]


def _planted(name: str, what: str, old: str, new: str) -> Rule:
    rule = _BY_NAME[name]
    when, then = rule.when.replace(old, new), rule.then.replace(old, new)
    if (when, then) == (rule.when, rule.then):
        raise ValueError(f"{name}: nothing to spoil ({what})")
    return replace(rule, name=f"{name}: {what}", when=when, then=then)
