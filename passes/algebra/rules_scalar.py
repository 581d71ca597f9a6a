"""Rules of scalar functions: exponentials, logarithms, reciprocals."""

from __future__ import annotations

from tensorc.ir.choose import Chooser, pick
from tensorc.passes.algebra.rule import (
    ONE,
    Kind,
    Rule,
    any_leaf,
    constant,
    leaf,
    member,
    ratio,
    scaled,
)
from tensorc.passes.algebra.terms import Mul, Term, add, call, fold, mul, neg

LOG2E = "log2(e)"  # the leaf that stands for log2(e), a constant


def _exp(chooser: Chooser) -> Term:
    return call("exp", scaled(chooser, any_leaf(chooser, "x")))


def _weight(chooser: Chooser) -> Term:
    scores = any_leaf(chooser, "x", ["k"])
    return call("exp", scaled(chooser, add([scores, neg(fold("Max", ["k"], scores))])))


def _two_exps(chooser: Chooser) -> Term:
    return mul([call("exp", any_leaf(chooser, "x")), call("exp", any_leaf(chooser, "y"))])


def _exp_and_exp2(chooser: Chooser) -> Term:
    return mul([call("exp2", any_leaf(chooser, "x")), call("tanh", any_leaf(chooser, "y"))])


def _recip_exp(chooser: Chooser) -> Term:
    return call("recip", call("exp", any_leaf(chooser, "x")))


def _recip_tanh(chooser: Chooser) -> Term:
    return call("recip", call("tanh", any_leaf(chooser, "x")))


def _recip_product(chooser: Chooser) -> Term:
    return call("recip", mul([any_leaf(chooser, "x"), any_leaf(chooser, "y")], ratio(chooser)))


def _recip_sum(chooser: Chooser) -> Term:
    return call("recip", add([any_leaf(chooser, "x"), any_leaf(chooser, "y")]))


def _log_product(chooser: Chooser) -> Term:
    positive = call("exp", any_leaf(chooser, "x"))
    return call("log", mul([positive, fold("Sum", ["k"], call("exp", leaf("y", "k")))]))


def _log_of_signs(chooser: Chooser) -> Term:
    return call("log", mul([any_leaf(chooser, "x"), any_leaf(chooser, "y")]))


def _log_exp(chooser: Chooser) -> Term:
    return call("log", call("exp", any_leaf(chooser, "x")))


def _log_exp2(chooser: Chooser) -> Term:
    return call("log", call("exp2", any_leaf(chooser, "x")))


def _shift_scaled(chooser: Chooser) -> Term:
    return call("shift", Mul(ratio(chooser), (any_leaf(chooser, "x"),)))


def _shift_negated(chooser: Chooser) -> Term:
    return pick(chooser, (call("shift", any_leaf(chooser, "x")), call("shift", neg(leaf("x")))))


EXP2 = Rule(
    # The product's rounding error grows with |x|; where x <= 0 it is below exp(x)'s own.
    "exp2", "exp(x) = exp2(log2(e) x), where x <= 0", Kind.REASSOCIATING,
    '(= t (F1 "exp" x)) (= one (nonpos x))',
    f'(F1 "exp2" (Mul {ONE} (multiset-of (Leaf "{LOG2E}") x)))',
    _weight, _exp,
    f'(set (free (Leaf "{LOG2E}")) (set-empty)) (set (constant (Leaf "{LOG2E}")) 1)',
)  # fmt: skip

JOIN_EXP = Rule(
    "join-exp", "exp(x) exp(y) = exp(x + y)", Kind.RANGE,
    f'(= t (Mul q ms)) {member("a", "ms")} {member("b", "ms")} (!= a b) '
    '(= a (F1 "exp" x)) (= b (F1 "exp" y))',
    "(Mul q (multiset-insert (multiset-remove (multiset-remove ms a) b) "
    '(F1 "exp" (Add (multiset-of x y)))))',
    _two_exps, _exp_and_exp2,
)  # fmt: skip

RECIP_EXP = Rule(
    "recip-exp", "1 / exp(x) = exp(-x)", Kind.RANGE,
    '(= t (F1 "recip" e)) (= e (F1 "exp" x))',
    '(F1 "exp" (Mul (bigrat (bigint -1) (bigint 1)) (multiset-of x)))',
    _recip_exp, _recip_tanh,
)  # fmt: skip

RECIP_PRODUCT = Rule(
    "recip-product", "1 / (q x y) = (1 / q) (1 / x) (1 / y)", Kind.RANGE,
    '(= t (F1 "recip" p)) (= p (Mul q ms)) (!= q (bigrat (bigint 0) (bigint 1))) '
    "(> (multiset-length ms) 0)",
    f'(Mul (/ {ONE} q) (unstable-multiset-map (unstable-fn "F1" "recip") ms))',
    _recip_product, _recip_sum,
)  # fmt: skip

LOG_PRODUCT = Rule(
    "log-product", "log(x y) = log(x) + log(y), where x and y are positive", Kind.RANGE,
    f'(= t (F1 "log" p)) (= p (Mul {ONE} ms)) (= 2 (multiset-length ms)) {member("x", "ms")} '
    f"{member('y', 'ms')} (!= x y) (= one (positive x)) (= two (positive y))",
    '(Add (multiset-of (F1 "log" x) (F1 "log" y)))',
    _log_product, _log_of_signs,
)  # fmt: skip

LOG_EXP = Rule(
    "log-exp", "log(exp(x)) = x", Kind.RANGE,
    '(= t (F1 "log" e)) (= e (F1 "exp" x))', "x",
    _log_exp, _log_exp2,
)  # fmt: skip

SCALE_SHIFT = Rule(
    "scale-shift", "shift(q x) = q shift(x), where q > 0: shift(x) is x where that is finite",
    Kind.EXACT,
    '(= t (F1 "shift" p)) (= p (Mul q ms)) (> q (bigrat (bigint 0) (bigint 1))) '
    f"(!= q {ONE})",
    f'(Mul q (multiset-of (F1 "shift" (Mul {ONE} ms))))',
    _shift_scaled, _shift_negated,
)  # fmt: skip

SHIFT_CONSTANT = Rule(
    "shift-constant", "shift(c x) = c shift(x), where c is a constant", Kind.EXACT,
    f'(= t (F1 "shift" p)) (= p (Mul q ms)) (> (multiset-length ms) 1) {member("c", "ms")} '
    "(= one (constant c))",
    f'(Mul {ONE} (multiset-of c (F1 "shift" (Mul q (multiset-remove ms c)))))',
    lambda chooser: call("shift", mul([leaf("x", "i"), constant(chooser)])),
    lambda chooser: call("shift", mul([leaf("x", "i"), any_leaf(chooser, "y")])),
)  # fmt: skip


RULES = (
    EXP2, JOIN_EXP, RECIP_EXP, RECIP_PRODUCT, LOG_PRODUCT, LOG_EXP, SCALE_SHIFT, SHIFT_CONSTANT,
)  # fmt: skip
