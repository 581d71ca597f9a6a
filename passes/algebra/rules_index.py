"""Rules of gathers: sums pass them, a permutation of a summed index cancels, and
what is a part of a tensor may be read from it."""

from __future__ import annotations

from tensorc.ir.choose import Chooser
from tensorc.passes.algebra.rule import ONE, Kind, Rule, any_leaf, leaf, member, without
from tensorc.passes.algebra.terms import Gather, Rounded, Term, fold, mul


def _rows(chooser: Chooser) -> Term:
    return Gather("l", leaf("at", "i"), any_leaf(chooser, "x", ["l", "k"], never="i"))


def _gathered_rows(chooser: Chooser) -> Term:
    return fold("Sum", ["k"], _rows(chooser))


def _gathered_by_sum(chooser: Chooser) -> Term:
    return fold("Sum", ["k"], Gather("l", leaf("at", "k"), leaf("x", "l", "i")))


def _product_of_rows(chooser: Chooser) -> Term:
    return fold("Sum", ["k"], mul([_rows(chooser), any_leaf(chooser, "y", ["k"], never="l")]))


def _product_captured(chooser: Chooser) -> Term:
    return fold("Sum", ["k"], mul([_rows(chooser), any_leaf(chooser, "y", ["k", "l"])]))


def _same_gathers(chooser: Chooser) -> Term:
    parts = [any_leaf(chooser, name, ["l"], never="k") for name in "xy"]
    return mul([Gather("l", leaf("P", "k"), part) for part in parts])


def _other_gathers(chooser: Chooser) -> Term:
    parts = [any_leaf(chooser, name, ["l"], never="k") for name in "xy"]
    places = (leaf("P", "k"), leaf("Q", "k"))
    return mul([Gather("l", at, part) for at, part in zip(places, parts, strict=True)])


def _permuted(chooser: Chooser) -> Term:
    return fold("Sum", ["k"], Gather("l", leaf("P", "k"), any_leaf(chooser, "x", ["l"], never="k")))


def _not_permuted(chooser: Chooser) -> Term:
    return fold(
        "Sum", ["k"], Gather("l", leaf("at", "k"), any_leaf(chooser, "x", ["l"], never="k"))
    )


def _multiplied_part(chooser: Chooser) -> Term:
    return mul([leaf("part", "k"), any_leaf(chooser, "y", ["k"], never="l")])


def _no_part(chooser: Chooser) -> Term:
    return mul([leaf("x", "k"), any_leaf(chooser, "y", ["k"], never="l")])


def _rounded_row(chooser: Chooser) -> Term:
    return Rounded("f16", _rows(chooser))


def _rounded_table(chooser: Chooser) -> Term:
    return Gather("l", leaf("at", "i"), Rounded("f16", any_leaf(chooser, "x", ["l"], never="i")))


SUM_OF_GATHER = Rule(
    "sum-of-gather", "sum_I x[e] = (sum_I x)[e], where no index of I is free in e", Kind.EXACT,
    f"(= t (Sum I (Yes) g)) (= g (Gat r e x)) {without('e', 'I')} (set-not-contains I r)",
    "(Gat r e (Sum I (Yes) x))",
    _gathered_rows, _gathered_by_sum,
)  # fmt: skip

PRODUCT_OF_GATHER = Rule(
    "product-of-gather", "sum_I x[e] y = (sum_I x y)[e], where y lacks the gathered index",
    Kind.EXACT,
    f"(= t (Sum I (Yes) b)) (= b (Mul q ms)) (= 2 (multiset-length ms)) {member('g', 'ms')} "
    f"(= g (Gat r e x)) {without('e', 'I')} (set-not-contains I r) "
    f"{member('y', 'ms')} (!= y g) (= f (free y)) "
    "(set-not-contains f r)",
    "(Gat r e (Sum I (Yes) (Mul q (multiset-of x y))))",
    _product_of_rows, _product_captured,
)  # fmt: skip

JOIN_GATHERS = Rule(
    "join-gathers", "x[e] y[e] = (x y)[e]", Kind.EXACT,
    f"(= t (Mul q ms)) {member('a', 'ms')} {member('b', 'ms')} (!= a b) "
    "(= a (Gat r e x)) (= b (Gat r e y))",
    f"(Mul q (multiset-insert (multiset-remove (multiset-remove ms a) b) "
    f"(Gat r e (Mul {ONE} (multiset-of x y)))))",
    _same_gathers, _other_gathers,
)  # fmt: skip

CANCEL_PERMUTATION = Rule(
    "cancel-permutation", "sum_k x[p(k)] = sum_r x[r], where p permutes k and k is not free in x",
    Kind.REASSOCIATING,
    "(= t (Sum I (Yes) g)) (= g (Gat r p x)) (= 1 (set-length I)) (= k (set-get I 0)) "
    f"(= one (permutes p k)) {without('x', 'I')}",
    "(Sum (set-of r) (Yes) x)",
    _permuted, _not_permuted,
)  # fmt: skip

PART_OF_JOIN = Rule(
    "part-of-join", "w = W[e], where w is the part of W that e picks", Kind.EXACT,
    "(= t (Leaf n)) (part t w)", "w",
    _multiplied_part, _no_part,
)  # fmt: skip

ROUND_OF_GATHER = Rule(
    "round-of-gather", "round(x[e]) = round(x)[e]", Kind.EXACT,
    "(= t (Rnd d g)) (= g (Gat r e x))", "(Gat r e (Rnd d x))",
    _rounded_row, _rounded_table,
)  # fmt: skip

RULES = (
    SUM_OF_GATHER, PRODUCT_OF_GATHER, JOIN_GATHERS, CANCEL_PERMUTATION, PART_OF_JOIN,
    ROUND_OF_GATHER,
)  # fmt: skip
