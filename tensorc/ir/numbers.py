"""Number tokens to exact literals, and exact literals to the shortest text that reads back.

Decimals are the exact fractions of their text. Beyond the user's forms the compiler writes exact
fractions as `1/3'` (imaginary: `1/3'j`) and integers of more than 40 digits as `123...'`.
"""

from __future__ import annotations

import re
from fractions import Fraction

from tensorc.ir.diagnostics import fault
from tensorc.ir.dtypes import BOOL, IMAGINARY, INTEGER, REAL
from tensorc.ir.source import Diagnostic, Place
from tensorc.ir.tensor import Literal

MOST_DIGITS = 40
# Above LARGEST a real rounds to inf in f64, below SMALLEST to 0: half a unit in the last place
# beyond the largest finite number (2**1024 - 2**971) and under the smallest (2**-1074).
LARGEST = Fraction(2**1024 - 2**970)
SMALLEST = Fraction(1, 2**1075)

WORDS: dict[str, Literal] = {
    "inf": Literal("inf", REAL),
    "nan": Literal("nan", REAL),
    "pi": Literal("pi", REAL),
    "true": Literal(Fraction(1), BOOL),
    "false": Literal(Fraction(0), BOOL),
}
_DECIMAL = re.compile(r"(?P<digits>[0-9]+(?:\.[0-9]*)?)(?:[eE](?P<power>[+-]?[0-9]+))?(?P<j>[jJ])?")
_HEX = re.compile(
    r"0[xX](?P<digits>[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?)(?:[pP](?P<power>[+-]?[0-9]+))?"
)
_EXACT = re.compile(r"([0-9]+)(?:/([0-9]+))?'(j)?")


def read_number(text: str, where: Place) -> Literal | Diagnostic:
    """The literal that a number token spells, or its fault (E107)."""
    exact = _EXACT.fullmatch(text)
    if exact:
        return _exact(*exact.groups())
    found, base = _DECIMAL.fullmatch(text), 10
    if not found:
        found, base = _HEX.fullmatch(text), 16
    leading = text[:2].isdigit() and text[0] == "0" and not text.strip("0").startswith(".")
    if not found or (leading and text.strip("0")):
        do = f"write {text.lstrip('0')}" if found else ""
        return fault("E107.form", where, literal=_cut(text), do=_cut(do))
    digits, power = found["digits"], found["power"]
    count = len(digits.replace(".", ""))
    if count > MOST_DIGITS:
        return fault("E107.digits", where, literal=_cut(text), digits=count)
    real = "." in digits or power is not None
    value = _value(digits, power, base)
    if not isinstance(value, Fraction):
        return fault("E107", where, literal=_cut(text), dtype="f64", value=value)
    imaginary = base == 10 and found["j"]
    return Literal(value, IMAGINARY if imaginary else REAL if real else INTEGER)


def _exact(numerator: str, denominator: str | None, imaginary: str | None) -> Literal:
    dtype = IMAGINARY if imaginary else REAL if denominator else INTEGER
    return Literal(Fraction(int(numerator), int(denominator or 1)), dtype)


def _value(digits: str, power: str | None, base: int) -> Fraction | str:
    """The exact value, or what it would round to in f64: "inf" or "0"."""
    whole, _, part = digits.partition(".")
    mantissa = int(whole + part, base)
    if mantissa == 0:
        return Fraction(0)
    step = 2 if base == 16 else 10
    exponent = int((power or "0")[:12]) - len(part) * (4 if base == 16 else 1)
    if abs(exponent) > 2000:  # far out of range either way; never compute the power
        return "inf" if exponent > 0 else "0"
    value = Fraction(mantissa) * Fraction(step) ** exponent
    return "inf" if value >= LARGEST else "0" if value <= SMALLEST else value


def _cut(text: str) -> str:
    return text if len(text) <= 48 else f"{text[:45]}..."


def show_number(value: Fraction, real: bool) -> str:
    """A number of at least 0, as the shortest text that reads back as exactly it.

    A decimal if it has at most 17 digits, else a hexadecimal float, else any decimal of at most
    40 digits, else a fraction `1/3'`. With `real` the text is a real's: it has a point or power.
    """
    if not real:
        text = str(value.numerator)
        return text if len(text) <= MOST_DIGITS else f"{text}'"
    in_range = value == 0 or SMALLEST < value < LARGEST
    decimal = _decimal(value) if in_range else None
    if decimal and len(decimal[0]) <= 17:
        return _positional(*decimal)
    hexadecimal = _hexadecimal(value) if in_range else None
    if hexadecimal:
        return hexadecimal
    if decimal and len(decimal[0]) <= MOST_DIGITS:
        return _positional(*decimal)
    return f"{value.numerator}/{value.denominator}'"


def _decimal(value: Fraction) -> tuple[str, int] | None:
    """(digits, power) with value = digits * 10**power, if the value is a finite decimal."""
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        return None
    places = max(twos, fives)
    digits = str(value.numerator * 10**places // value.denominator)
    short = digits.rstrip("0") or "0"
    return short, len(digits) - len(short) - places


def _positional(digits: str, power: int) -> str:
    """The decimal with a point where it is short, else with a power of ten."""
    point = len(digits) + power  # digits before the point
    if -4 < point <= 16:
        if power >= 0:
            return f"{digits}{'0' * power}.0"
        padded = digits.rjust(1 - power, "0")
        return f"{padded[:power]}.{padded[power:]}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1}"


def _hexadecimal(value: Fraction) -> str | None:
    """A hexadecimal float, for a fraction over a power of two of at most 64 significant bits."""
    denominator = value.denominator
    if denominator & (denominator - 1):
        return None
    shift = (value.numerator & -value.numerator).bit_length() - 1
    mantissa = value.numerator >> shift
    if mantissa.bit_length() > 64:
        return None
    return f"0x{mantissa:x}p{shift - denominator.bit_length() + 1}"
