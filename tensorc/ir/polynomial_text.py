"""Polynomials in the language's own syntax."""

from __future__ import annotations

from tensorc.ir.polynomial import Atom, Floor, Monomial, Polynomial


def text(item: Polynomial) -> str:
    """The polynomial in the language's own syntax, `2*|h| + |r| // 2 - 1`."""
    if not item.terms:
        return "0"
    out = ""
    for monomial, coefficient in item.terms:
        body = _term(monomial, abs(coefficient), bare=bool(out) or coefficient > 0)
        if not out:
            out = f"-{body}" if coefficient < 0 else body
        else:
            out += f" {'-' if coefficient < 0 else '+'} {body}"
    return out


def _term(monomial: Monomial, coefficient: int, bare: bool) -> str:
    """`2*|h|`; a floor alone needs no parentheses where it is `bare` of a leading minus."""
    if bare and coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
        return str(monomial[0][0])
    factors = [_factor(atom) for atom, power in monomial for _ in range(power)]
    if coefficient != 1 or not factors:
        factors.insert(0, str(coefficient))
    return "*".join(factors)


def _factor(atom: Atom) -> str:
    return f"({atom})" if isinstance(atom, Floor) else str(atom)


def operand(item: Polynomial) -> str:
    """The polynomial as an operand of `//`: in parentheses unless it is one plain factor."""
    simple = len(item.terms) == 1 and item.terms[0][1] > 0
    single = (
        simple and (not item.terms[0][0] or item.terms[0][1] == 1) and len(item.terms[0][0]) < 2
    )
    plain = (power == 1 and not isinstance(atom, Floor) for atom, power in item.terms[0][0])
    one = single and all(plain)
    return str(item) if one else f"({item})"
