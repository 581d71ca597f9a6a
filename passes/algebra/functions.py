"""Functions of level 1 on terms: which of them terms have, and what arithmetic becomes."""

from __future__ import annotations

from fractions import Fraction

from tensorc.passes.algebra.terms import Call, Mul, Term, add, call, mul, neg

FUNCTIONS = frozenset(
    "exp exp2 log log2 sqrt rsqrt sin cos tanh sigmoid erf expm1 log1p abs sign floor ceil round "
    "pow".split()
)  # fmt: skip
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_TWO = Mul(Fraction(2), ())


def function(name: str, args: list[Term]) -> Term:
    """A function of terms; a square is a product, however the exponent is written."""
    return mul([args[0]] * 2) if name == "pow" and args[1] is _TWO else call(name, *args)


def arithmetic(name: str, args: list[Term]) -> Term:
    """A sum, product, difference, quotient, maximum or minimum of terms."""
    match name:
        case "add":
            return add(args)
        case "mul":
            return mul(args)
        case "sub":
            return add([args[0], neg(args[1])])
        case "neg":
            return neg(args[0])
        case "div":
            return mul([args[0], call("recip", args[1])])
        case _:
            found = args[0]
            for arg in args[1:]:
                found = Call(name, (found, arg))
            return found
