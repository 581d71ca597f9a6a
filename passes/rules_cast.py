"""Rules of movable roundings: a declared rounding commutes with a positive factor of a whole row."""

from __future__ import annotations

from tensorc.ir.choose import Chooser
from tensorc.passes.rule import MINUS, ONE, Kind, Rule, any_leaf, leaf, member
from tensorc.passes.terms import Rounded, Term, add, call, fold, mul, neg


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

RULES = (ROUND_PAST_FACTOR,)
