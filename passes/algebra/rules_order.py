"""Rules of maxima and minima: positive factors and free summands come out, nests merge."""

from __future__ import annotations

from tensorc.ir.choose import Chooser, pick
from tensorc.passes.algebra.rule import (
    ONE,
    ZERO,
    Kind,
    Rule,
    any_leaf,
    constant,
    leaf,
    member,
    ratio,
    without,
)
from tensorc.passes.algebra.terms import YES, Mul, Term, add, fold, mul


def _where(chooser: Chooser) -> Term:
    return pick(chooser, (YES, leaf("?p", "k", "i")))


def _scaled(kind: str, chooser: Chooser) -> Term:
    return fold(kind, ["k"], Mul(ratio(chooser), (any_leaf(chooser, "x", ["k"]),)), _where(chooser))


def _negated(kind: str, chooser: Chooser) -> Term:
    return fold(kind, ["k"], Mul(-ratio(chooser), (any_leaf(chooser, "x", ["k"]),)))


def _constant_factor(kind: str, chooser: Chooser) -> Term:
    body = mul([any_leaf(chooser, "x", ["k"]), constant(chooser)])
    return fold(kind, ["k"], body, _where(chooser))


def _data_factor(kind: str, chooser: Chooser) -> Term:
    return fold(kind, ["k"], mul([any_leaf(chooser, "x", ["k"]), leaf("y", "i")]))


def _free_summand(kind: str, chooser: Chooser) -> Term:
    return fold(
        kind, ["k"], add([any_leaf(chooser, "x", ["k"]), any_leaf(chooser, "y", never="k")])
    )


def _bound_summands(kind: str, chooser: Chooser) -> Term:
    return fold(kind, ["k"], add([any_leaf(chooser, "x", ["k"]), any_leaf(chooser, "y", ["k"])]))


def _nest(kind: str, chooser: Chooser) -> Term:
    return fold(kind, ["k"], fold(kind, ["l"], any_leaf(chooser, "x", ["k", "l"])))


def _mixed_nest(kind: str, chooser: Chooser) -> Term:
    other = "Min" if kind == "Max" else "Max"
    return fold(kind, ["k"], fold(other, ["l"], any_leaf(chooser, "x", ["k", "l"])))


def _rules(kind: str) -> tuple[Rule, ...]:
    low = kind.lower()
    return (
        Rule(
            f"scale-{low}", f"{low}_I q x = q {low}_I x, where q > 0", Kind.EXACT,
            f"(= t ({kind} I c b)) (= b (Mul q ms)) (> q {ZERO}) (!= q {ONE})",
            f"(Mul q (multiset-of ({kind} I c (Mul {ONE} ms))))",
            lambda chooser: _scaled(kind, chooser), lambda chooser: _negated(kind, chooser),
        ),
        Rule(
            f"{low}-constant", f"{low}_I c x = c {low}_I x, where c is a positive constant",
            Kind.EXACT,
            f"(= t ({kind} I w b)) (= b (Mul q ms)) (> (multiset-length ms) 1) "
            f"{member('c', 'ms')} (= one (constant c))",
            f"(Mul {ONE} (multiset-of c ({kind} I w (Mul q (multiset-remove ms c)))))",
            lambda chooser: _constant_factor(kind, chooser),
            lambda chooser: _data_factor(kind, chooser),
        ),
        Rule(
            f"{low}-summand", f"{low}_I (x + y) = x + {low}_I y, where no index of I is free in x",
            Kind.REASSOCIATING,
            f"(= t ({kind} I (Yes) b)) (= b (Add ms)) (> (multiset-length ms) 1) "
            f"{member('x', 'ms')} {without('x', 'I')}",
            f"(Add (multiset-of x ({kind} I (Yes) (Add (multiset-remove ms x)))))",
            lambda chooser: _free_summand(kind, chooser),
            lambda chooser: _bound_summands(kind, chooser),
        ),
        Rule(
            f"merge-{low}", f"{low}_I {low}_J x = {low}_(I, J) x", Kind.EXACT,
            f"(= t ({kind} I (Yes) b)) (= b ({kind} J (Yes) x)) "
            "(= 0 (set-length (set-intersect I J)))",
            f"({kind} (set-union I J) (Yes) x)",
            lambda chooser: _nest(kind, chooser), lambda chooser: _mixed_nest(kind, chooser),
        ),
        Rule(
            f"{low}-of-same", f"{low}_I x = x, where no index of I is free in x", Kind.EXACT,
            f"(= t ({kind} I (Yes) x)) {without('x', 'I')}", "x",
            lambda chooser: fold(kind, ["k"], any_leaf(chooser, "x", never="k")),
            lambda chooser: fold(kind, ["k"], any_leaf(chooser, "x", ["k"])),
        ),
    )  # fmt: skip


RULES = (*_rules("Max"), *_rules("Min"))
