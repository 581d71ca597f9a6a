"""Rules of the ring: products, sums, and what may be taken out of a sum over indices."""

from __future__ import annotations

from fractions import Fraction

from tensorc.ir.choose import Chooser, pick
from tensorc.passes.algebra.rule import (
    MINUS,
    ONE,
    ZERO,
    Kind,
    Rule,
    any_leaf,
    extent,
    factors,
    leaf,
    member,
    ratio,
    without,
)
from tensorc.passes.algebra.terms import Add, Mul, Term, add, call, fold, mul

# --- samples ------------------------------------------------------------------------------------


def _nested_product(chooser: Chooser) -> Term:
    inner = mul([any_leaf(chooser, "a"), any_leaf(chooser, "b")], ratio(chooser))
    return mul([inner, any_leaf(chooser, "z")], pick(chooser, (Fraction(1), Fraction(3))))


def _number_times(chooser: Chooser) -> Term:
    return Mul(ratio(chooser), (Mul(ratio(chooser), ()), any_leaf(chooser, "z")))


def _sum_in_product(chooser: Chooser) -> Term:
    return mul([add([any_leaf(chooser, "a"), any_leaf(chooser, "b")]), any_leaf(chooser, "z")])


def _product_in_sum(chooser: Chooser) -> Term:
    return add([mul([any_leaf(chooser, "a"), any_leaf(chooser, "b")]), any_leaf(chooser, "z")])


def _nested_sum(chooser: Chooser) -> Term:
    return add([add([any_leaf(chooser, "a"), any_leaf(chooser, "b")]), any_leaf(chooser, "z")])


def _bare(chooser: Chooser) -> Term:
    return Mul(Fraction(1), (any_leaf(chooser, "a"),))


def _scaled(chooser: Chooser) -> Term:
    return Mul(ratio(chooser), (any_leaf(chooser, "a"),))


def _free_factor(chooser: Chooser) -> Term:
    return fold("Sum", ["k"], mul([any_leaf(chooser, "x", never="k"), *factors(chooser, ["k"])]))


def _bound_factors(chooser: Chooser) -> Term:
    bound = [any_leaf(chooser, "x", ["k"]), any_leaf(chooser, "y", ["k"])]
    return fold("Sum", ["k"], mul(bound))


def _number_inside(chooser: Chooser) -> Term:
    where = pick(chooser, (fold("Sum", ["k"], leaf("y", "k")).where, leaf("?p", "k")))
    return fold("Sum", ["k"], mul(factors(chooser, ["k"]), ratio(chooser)), where)


def _number_in_a_maximum(chooser: Chooser) -> Term:
    return fold("Max", ["k"], mul(factors(chooser, ["k"]), -ratio(chooser)))


def _sum_of_sums(chooser: Chooser) -> Term:
    return fold("Sum", ["k"], fold("Sum", ["l"], any_leaf(chooser, "x", ["k", "l"])))


def _sum_of_masked_sums(chooser: Chooser) -> Term:
    inner = fold("Sum", ["l"], any_leaf(chooser, "x", ["k", "l"]), leaf("?p", "k", "l"))
    return fold("Sum", ["k"], inner)


def _contraction_of_contractions(chooser: Chooser) -> Term:
    inner = fold("Sum", ["l"], mul([leaf("a", "i", "l"), leaf("b", "k", "l")], ratio(chooser)))
    return fold("Sum", ["k"], mul([inner, any_leaf(chooser, "z", ["k"], never="l")]))


def _captured_contraction(chooser: Chooser) -> Term:
    inner = fold("Sum", ["l"], mul([leaf("a", "i", "l"), leaf("b", "k", "l")]))
    return fold("Sum", ["k"], mul([inner, any_leaf(chooser, "z", ["k", "l"])]))


def _common_factor(chooser: Chooser) -> Term:
    common = any_leaf(chooser, "x")
    left = mul([common, any_leaf(chooser, "a")], ratio(chooser))
    return add([left, mul([common, any_leaf(chooser, "b")])])


def _no_common_factor(chooser: Chooser) -> Term:
    left = mul([any_leaf(chooser, "x"), any_leaf(chooser, "a")], ratio(chooser))
    return add([left, mul([any_leaf(chooser, "y"), any_leaf(chooser, "b")])])


def _shared_pair(chooser: Chooser) -> Term:
    pair = [leaf("a", "i", "k"), leaf("b", "k", "l")]
    sums = [
        fold("Sum", ["k", "l"], mul([*pair, any_leaf(chooser, name, ["l"], never="k")]))
        for name in ("x", "y")
    ]
    return add([call("tanh", part) for part in sums])


def _shared_alone(chooser: Chooser) -> Term:
    one = [leaf("a", "i", "k"), leaf("b", "k", "l"), any_leaf(chooser, "x", ["k", "l"])]
    other = [leaf("a", "i", "k"), leaf("c", "k", "l"), any_leaf(chooser, "y", ["l"])]
    return add([call("tanh", fold("Sum", ["k", "l"], mul(args))) for args in (one, other)])


def _sum_of_one(chooser: Chooser) -> Term:
    return Add((any_leaf(chooser, "x"),))


def _two_sums(chooser: Chooser) -> Term:
    common = any_leaf(chooser, "x", ["k"])
    bodies = [mul([common, any_leaf(chooser, name)]) for name in ("a", "b")]
    return add([fold("Sum", ["k"], body) for body in bodies])


def _sums_over_others(chooser: Chooser) -> Term:
    common = any_leaf(chooser, "x", ["k", "l"])
    pair = [("k", leaf("a", "k")), ("l", leaf("b", "l"))]
    return add([fold("Sum", [index], mul([common, other])) for index, other in pair])


def _common_number(chooser: Chooser) -> Term:
    number = ratio(chooser)
    left = Mul(number, tuple(factors(chooser, ["i"])))
    return add([left, Mul(-number, (any_leaf(chooser, "b"),))])


def _no_common_number(chooser: Chooser) -> Term:
    left = Mul(ratio(chooser), (any_leaf(chooser, "a"),))
    return add([left, Mul(Fraction(-7), (any_leaf(chooser, "b"),))])


def _twice(chooser: Chooser) -> Term:
    term = any_leaf(chooser, "x")
    return add([term, Mul(ratio(chooser), (term,)), any_leaf(chooser, "z")])


def _not_twice(chooser: Chooser) -> Term:
    return add([any_leaf(chooser, "x"), Mul(ratio(chooser), (any_leaf(chooser, "z"),))])


def _free_summand(chooser: Chooser) -> Term:
    return fold("Sum", ["k"], add([any_leaf(chooser, "x", never="k"), leaf("y", "k", "i")]))


def _bound_summand(chooser: Chooser) -> Term:
    return fold("Sum", ["k"], add([any_leaf(chooser, "x", ["k"]), leaf("y", "k", "i")]))


def _of_nothing_bound(chooser: Chooser) -> Term:
    return fold("Sum", ["k"], call("tanh", any_leaf(chooser, "x", never="k")))


def _of_something_bound(chooser: Chooser) -> Term:
    return fold("Sum", ["k"], call("tanh", any_leaf(chooser, "x", ["k"])))


# --- the table ----------------------------------------------------------------------------------

FLATTEN_PRODUCT = Rule(
    "flatten-product", "x (y z) = x y z", Kind.REASSOCIATING,
    f"(= t (Mul q ms)) {member('x', 'ms')} (= x (Mul r ns)) (> (multiset-length ns) 0)",
    "(Mul (* q r) (multiset-sum (multiset-remove ms x) ns))",
    _nested_product, _sum_in_product,
)  # fmt: skip

ABSORB_NUMBER = Rule(
    "absorb-number", "q (r) x = (q r) x, where r is a number", Kind.REASSOCIATING,
    f"(= t (Mul q ms)) {member('x', 'ms')} (= x (Mul r none)) (= 0 (multiset-length none))",
    "(Mul (* q r) (multiset-remove ms x))",
    _number_times, _nested_product,
    "(subsume (Mul q ms))",
)  # fmt: skip

FLATTEN_SUM = Rule(
    "flatten-sum", "x + (y + z) = x + y + z", Kind.REASSOCIATING,
    f"(= t (Add ms)) {member('x', 'ms')} (= x (Add ns))",
    "(Add (multiset-sum (multiset-remove ms x) ns))",
    _nested_sum, _product_in_sum,
)  # fmt: skip

BARE_PRODUCT = Rule(
    "bare-product", "1 x = x", Kind.EXACT,
    f"(= t (Mul {ONE} ms)) (= 1 (multiset-length ms)) {member('x', 'ms')}", "x",
    _bare, _scaled,
)  # fmt: skip

PULL_FACTOR = Rule(
    "pull-factor", "sum_I x y = x sum_I y, where no index of I is free in x", Kind.REASSOCIATING,
    f"(= t (Sum I (Yes) b)) (= b (Mul q ms)) (> (multiset-length ms) 1) {member('x', 'ms')} "
    f"{without('x', 'I')}",
    f"(Mul {ONE} (multiset-of x (Sum I (Yes) (Mul q (multiset-remove ms x)))))",
    _free_factor, _bound_factors,
)  # fmt: skip

PULL_NUMBER = Rule(
    "pull-number", "sum_I q x = q sum_I x", Kind.REASSOCIATING,
    f"(= t (Sum I c b)) (= b (Mul q ms)) (!= q {ONE})",
    f"(Mul q (multiset-of (Sum I c (Mul {ONE} ms))))",
    _number_inside, _number_in_a_maximum,
)  # fmt: skip

MERGE_SUMS = Rule(
    "merge-sums", "sum_I sum_J x = sum_(I, J) x, where I and J are disjoint", Kind.REASSOCIATING,
    "(= t (Sum I (Yes) b)) (= b (Sum J (Yes) x)) (= 0 (set-length (set-intersect I J)))",
    "(Sum (set-union I J) (Yes) x)",
    _sum_of_sums, _sum_of_masked_sums,
)  # fmt: skip

OPEN_SUM = Rule(
    "open-sum", "sum_I x sum_J y = sum_(I, J) x y, where no index of J is in I or free in x",
    Kind.REASSOCIATING,
    f"(= t (Sum I (Yes) b)) (= b (Mul q ms)) {member('s', 'ms')} (= s (Sum J (Yes) y)) "
    "(= 0 (set-length (set-intersect I J))) (= rest (multiset-remove ms s)) "
    '(= fs (unstable-multiset-map (unstable-fn "free") rest)) '
    "(= (multiset-length rest) (multiset-length fs)) "
    '(= f (unstable-multiset-reduce (unstable-fn "set-union") (set-empty) fs)) '
    "(= 0 (set-length (set-intersect f J)))",
    "(Sum (set-union I J) (Yes) (Mul q (multiset-insert rest y)))",
    _contraction_of_contractions, _captured_contraction,
)  # fmt: skip

FACTOR = Rule(
    "factor", "q x a + r x b = x (q a + r b)", Kind.REASSOCIATING,
    f"(= t (Add ms)) {member('a', 'ms')} {member('b', 'ms')} (!= a b) "
    f"(= a (Mul q as)) (= b (Mul r bs)) {member('x', 'as')} (= at_other (at bs x)) "
    "(> (multiset-length as) 1) (> (multiset-length bs) 1)",
    "(Add (multiset-insert (multiset-remove (multiset-remove ms a) b) "
    f"(Mul {ONE} (multiset-of x (Add (multiset-of (Mul q (multiset-remove as x)) "
    "(Mul r (multiset-remove bs x))))))))",
    _common_factor, _no_common_factor,
)  # fmt: skip

JOIN_SUMS = Rule(
    "join-sums", "sum_I x a + sum_I x b = sum_I x (a + b)", Kind.REASSOCIATING,
    f"(= t (Add ms)) {member('a', 'ms')} {member('b', 'ms')} (!= a b) "
    f"(= a (Sum I c xa)) (= b (Sum I c xb)) (= xa (Mul {ONE} as)) (= xb (Mul {ONE} bs)) "
    f"{member('x', 'as')} (= at_other (at bs x)) (> (multiset-length as) 1) "
    "(> (multiset-length bs) 1)",
    "(Add (multiset-insert (multiset-remove (multiset-remove ms a) b) (Sum I c "
    f"(Mul {ONE} (multiset-of x (Add (multiset-of (Mul {ONE} (multiset-remove as x)) "
    f"(Mul {ONE} (multiset-remove bs x)))))))))",
    _two_sums, _sums_over_others,
)  # fmt: skip

BARE_SUM = Rule(
    "bare-sum", "the sum of one term is the term", Kind.EXACT,
    f"(= t (Add ms)) (= 1 (multiset-length ms)) {member('x', 'ms')}", "x",
    _sum_of_one, _not_twice,
)  # fmt: skip

FACTOR_NUMBER = Rule(
    "factor-number", "q x - q y = q (x - y)", Kind.REASSOCIATING,
    f"(= t (Add ms)) (= 2 (multiset-length ms)) {member('a', 'ms')} (= a (Mul q as)) "
    f"(> q {ZERO}) (!= q {ONE}) {member('b', 'ms')} (!= a b) (= b (Mul r bs)) (= r (neg q))",
    f"(Mul q (multiset-of (Add (multiset-of (Mul {ONE} as) (Mul {MINUS} bs)))))",
    _common_number, _no_common_number,
)  # fmt: skip

COLLECT = Rule(
    "collect", "x + q x = (1 + q) x", Kind.REASSOCIATING,
    f"(= t (Add ms)) {member('x', 'ms')} {member('y', 'ms')} (!= x y) (= y (Mul q ns)) "
    f"(= 1 (multiset-length ns)) (= at_other (at ns x)) (!= q (- {ZERO} {ONE}))",
    f"(Add (multiset-insert (multiset-remove (multiset-remove ms x) y) (Mul (+ q {ONE}) ns)))",
    _twice, _not_twice,
)  # fmt: skip

SPLIT_SUMMAND = Rule(
    "split-summand", "sum_i (x + y) = |i| x + sum_i y, where i is not free in x",
    Kind.CANCELLING,
    f"(= t (Sum I (Yes) b)) (= b (Add ms)) (= 1 (set-length I)) (= i (set-get I 0)) "
    f"(> (multiset-length ms) 1) {member('x', 'ms')} {without('x', 'I')}",
    f"(Add (multiset-of (Mul {ONE} (multiset-of {extent('i')} x)) "
    "(Sum I (Yes) (Add (multiset-remove ms x)))))",
    _free_summand, _bound_summand,
    f"(set (free {extent('i')}) (set-empty)) (set (constant {extent('i')}) 1)",
)  # fmt: skip

SUM_OF_SAME = Rule(
    "sum-of-same", "sum_i x = |i| x, where i is not free in x", Kind.REASSOCIATING,
    "(= t (Sum I (Yes) x)) (= 1 (set-length I)) (= i (set-get I 0)) " + without("x", "I"),
    f"(Mul {ONE} (multiset-of {extent('i')} x))",
    _of_nothing_bound, _of_something_bound,
    f"(set (free {extent('i')}) (set-empty)) (set (constant {extent('i')}) 1)",
)  # fmt: skip


SHARE_PAIR = Rule(
    "share-pair",
    "sum_(I, K) a b x = sum_I x sum_K a b, where no index of K is free in x, and another sum "
    "multiplies a by b",
    Kind.REASSOCIATING,
    "(= t (Sum I (Yes) m)) (= m (Mul q ms)) (= u (Sum J (Yes) n)) (= n (Mul r ns)) (!= t u) "
    f"{member('a', 'ms')} {member('b', 'ms')} (!= a b) (= at_c (at ns a)) (= at_d (at ns b)) "
    "(= rest (multiset-remove (multiset-remove ms a) b)) (> (multiset-length rest) 0) "
    '(= fs (unstable-multiset-map (unstable-fn "free") rest)) '
    "(= (multiset-length rest) (multiset-length fs)) (= fa (free a)) (= fb (free b)) "
    '(= f (unstable-multiset-reduce (unstable-fn "set-union") (set-empty) fs)) '
    "(= K (set-diff (set-intersect I (set-intersect fa fb)) f)) (> (set-length K) 0)",
    f"(Sum (set-diff I K) (Yes) (Mul q (multiset-insert rest (Sum K (Yes) (Mul {ONE} "
    "(multiset-of a b))))))",
    _shared_pair, _shared_alone, pair=True,
)  # fmt: skip

RULES = (
    BARE_PRODUCT, BARE_SUM, ABSORB_NUMBER, FLATTEN_PRODUCT, FLATTEN_SUM, PULL_NUMBER,
    PULL_FACTOR, MERGE_SUMS, OPEN_SUM, SUM_OF_SAME, SPLIT_SUMMAND, JOIN_SUMS, FACTOR,
    FACTOR_NUMBER, COLLECT, SHARE_PAIR,
)  # fmt: skip
