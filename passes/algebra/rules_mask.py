"""Rules of masks: what a select makes zero is not summed, and factors pass the masks of sums."""

from __future__ import annotations

from fractions import Fraction

from tensorc.ir.choose import Chooser
from tensorc.passes.algebra.rule import ONE, ZERO, Kind, Rule, any_leaf, leaf, member, without
from tensorc.passes.algebra.terms import Choice, Mul, Term, fold, mul

NOTHING = Mul(Fraction(0), ())  # the number 0, as 1 and every other number is a product of nothing
_NOTHING = f"(Mul {ZERO} (multiset-of))"


def _selected(chooser: Chooser) -> Term:
    choice = Choice(any_leaf(chooser, "?p", ["k"]), any_leaf(chooser, "x"), NOTHING)
    return fold("Sum", ["k"], mul([choice, any_leaf(chooser, "y")]))


def _selected_otherwise(chooser: Chooser) -> Term:
    choice = Choice(leaf("?p", "k"), any_leaf(chooser, "x"), any_leaf(chooser, "z"))
    return fold("Sum", ["k"], mul([choice, any_leaf(chooser, "y")]))


def _bare_select(chooser: Chooser) -> Term:
    return fold("Sum", ["k"], Choice(leaf("?p", "k"), any_leaf(chooser, "x", ["k"]), NOTHING))


def _bare_select_otherwise(chooser: Chooser) -> Term:
    other = any_leaf(chooser, "z")
    return fold("Sum", ["k"], Choice(leaf("?p", "k"), any_leaf(chooser, "x", ["k"]), other))


def _masked_factor(chooser: Chooser) -> Term:
    body = mul([any_leaf(chooser, "x", never="k"), any_leaf(chooser, "y", ["k"])])
    return fold("Sum", ["k"], body, any_leaf(chooser, "?p", ["k"]))


def _masked_bound(chooser: Chooser) -> Term:
    body = mul([any_leaf(chooser, "x", ["k"]), any_leaf(chooser, "y", ["k"])])
    return fold("Sum", ["k"], body, any_leaf(chooser, "?p", ["k"]))


SELECT_TO_WHERE = Rule(
    "select-to-where", "sum_I select(c, x, 0) y = sum_I (x y where c)", Kind.REASSOCIATING,
    f"(= t (Sum I (Yes) b)) (= b (Mul q ms)) {member('s', 'ms')} (= s (Sel c x {_NOTHING}))",
    "(Sum I c (Mul q (multiset-insert (multiset-remove ms s) x)))",
    _selected, _selected_otherwise,
)  # fmt: skip

BARE_SELECT_TO_WHERE = Rule(
    "bare-select-to-where", "sum_I select(c, x, 0) = sum_I (x where c)", Kind.EXACT,
    f"(= t (Sum I (Yes) s)) (= s (Sel c x {_NOTHING}))", "(Sum I c x)",
    _bare_select, _bare_select_otherwise,
)  # fmt: skip

PULL_MASKED = Rule(
    "pull-masked",
    "sum_I (x y where c) = select(any_I c, x sum_I (y where c), 0), no index of I free in x",
    Kind.REASSOCIATING,
    f"(= t (Sum I c b)) (!= c (Yes)) (= b (Mul q ms)) (> (multiset-length ms) 1) "
    f"{member('x', 'ms')} {without('x', 'I')}",
    f"(Sel (Some I c) (Mul {ONE} (multiset-of x (Sum I c (Mul q (multiset-remove ms x))))) "
    f"{_NOTHING})",
    _masked_factor, _masked_bound,
)  # fmt: skip

RULES = (SELECT_TO_WHERE, BARE_SELECT_TO_WHERE, PULL_MASKED)
