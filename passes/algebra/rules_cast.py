"""Rules of movable roundings: they commute with a positive factor of a whole row."""

from __future__ import annotations

from tensorc.ir.choose import Chooser
from tensorc.passes.algebra.rule import ONE, Kind, Rule, any_leaf, leaf, member
from tensorc.passes.algebra.rules_mask import NOTHING
from tensorc.passes.algebra.terms import Choice, Rounded, Term, add, call, fold, mul, neg


def _weights(indices: tuple[str, ...], row: str) -> Term:
    scores = leaf("x", *indices)
    return call("exp", add([scores, neg(fold("Max", [row], scores))]))


def _shares(chooser: Chooser) -> Term:
    weights = _weights(("i", "k"), "k")
    total = call("recip", fold("Sum", ["k"], weights))
    return Rounded("f16", mul([weights, total]))


def _weighted(chooser: Chooser) -> Term:
    weights = _weights(("i", "k"), "k")
    return Rounded("f16", mul([weights, any_leaf(chooser, "y", never="k")]))


def _rounded_select(chooser: Chooser) -> Term:
    return Rounded("f16", Choice(leaf("?p", "i"), any_leaf(chooser, "x"), NOTHING))


def _rounded_other(chooser: Chooser) -> Term:
    return Rounded("f16", Choice(leaf("?p", "i"), any_leaf(chooser, "x"), leaf("z", "i")))


ROUND_PAST_FACTOR = Rule(
    "round-past-factor",
    "round(x y) = x round(y), where x > 0 lacks an index of y, and y is within [0, 1]",
    Kind.REASSOCIATING,
    f"(= t (Rnd d p)) (= p (Mul {ONE} ms)) (= 2 (multiset-length ms)) {member('x', 'ms')} "
    f"{member('y', 'ms')} (!= x y) (= one (positive x)) "
    "(= two (unit y)) (= f (free x)) (= g (free y)) (= 0 (set-length (set-diff f g))) "
    "(< (set-length f) (set-length g))",
    f"(Mul {ONE} (multiset-of x (Rnd d y)))",
    _shares, _weighted,
)  # fmt: skip

ROUND_IN_SELECT = Rule(
    "round-in-select", "round(select(c, x, 0)) = select(c, round(x), 0)", Kind.EXACT,
    "(= t (Rnd d s)) (= s (Sel c x (Mul (bigrat (bigint 0) (bigint 1)) none))) "
    "(= 0 (multiset-length none))",
    "(Sel c (Rnd d x) (Mul (bigrat (bigint 0) (bigint 1)) none))",
    _rounded_select, _rounded_other,
)  # fmt: skip

RULES = (ROUND_PAST_FACTOR, ROUND_IN_SELECT)
