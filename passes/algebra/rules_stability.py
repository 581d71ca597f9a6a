"""Rules that bring exponentials into range, and the one law behind them.

They turn what overflows into what does not, so `fast` does not take them: it may not make a finite
value of an infinite one. They are for programs that ask for stable forms.
"""

from __future__ import annotations

from tensorc.ir.choose import Chooser, pick
from tensorc.passes.algebra.rule import MINUS, ONE, Kind, Rule, any_leaf, leaf, scaled
from tensorc.passes.algebra.terms import YES, Term, call, fold

_TOP = '(F1 "shift" (Max I c x))'


def _sum_of_exp(chooser: Chooser) -> Term:
    where = pick(chooser, (YES, leaf("?p", "k")))
    return fold("Sum", ["k"], call("exp", scaled(chooser, any_leaf(chooser, "x", ["k"]))), where)


def _sum_of_exp2(chooser: Chooser) -> Term:
    name = pick(chooser, ("exp2", "tanh"))
    return fold("Sum", ["k"], call(name, any_leaf(chooser, "x", ["k"])))


SHIFT_EXP_SUM = Rule(
    "shift-exp-sum", "sum_I exp(x) = exp(m) sum_I exp(x - m), with m = shift(max_I x)", Kind.RANGE,
    '(= t (Sum I c e)) (= e (F1 "exp" x)) (= one (sanctioned x))',
    f'(Mul {ONE} (multiset-of (F1 "exp" {_TOP}) (Sum I c (F1 "exp" '
    f"(Add (multiset-of x (Mul {MINUS} (multiset-of {_TOP}))))))))",
    _sum_of_exp, _sum_of_exp2,
)  # fmt: skip

RULES = (SHIFT_EXP_SUM,)
