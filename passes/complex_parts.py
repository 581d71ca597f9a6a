"""Complex numbers as pairs of reals: afterwards no tensor and no expression is complex.

    y[i] = x[i] * w          with complex64 x, w, y
    y_re[i] = x_re[i] * w_re - x_im[i] * w_im
    y_im[i] = x_re[i] * w_im + x_im[i] * w_re

A real operand counts as a complex one with imaginary part 0, so infinities and NaN spread as in
NumPy. Not supported, told by Unavailable: `prod` and `bitcast`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from tensorc.errors import Unavailable
from tensorc.ir.dtypes import BOOL, F64, REAL, DType
from tensorc.ir.functions import FUNCTIONS, MEAN, SUM
from tensorc.ir.node import Node, postorder
from tensorc.ir.parts import part_names, part_type, tensors
from tensorc.ir.tensor import (
    Apply,
    Bitcast,
    Cast,
    Check,
    Declaration,
    Equation,
    Expr,
    Literal,
    Program,
    Read,
    Reduce,
    Round,
    Select,
    Table,
    Tensor,
    value_type,
)
from tensorc.passes.complex_functions import FORMULAS, Pair, both, literal, power, whole_power
from tensorc.passes.complex_zero import ZERO, call

MOST_POWER = 64
"""The largest whole exponent that is done by products, at most 12 of them."""


def complex_parts(program: Program) -> Program:
    """The program on parts; the same object if nothing in it is complex."""
    if not _has_complex(program):
        return program
    return _Parts(program).program()


def _has_complex(program: Program) -> bool:
    bodies = [equation.body for equation in program.equations]
    return any(tensor.dtype.complex for tensor in tensors(program)) or any(
        value_type(item).complex for item in postorder(bodies) if isinstance(item, Expr)
    )


class _Parts:
    """The parts of tensors and expressions of one program, each made once."""

    def __init__(self, source: Program) -> None:
        self.source = source
        self.names = part_names(source)
        self.pairs: dict[Expr, Pair] = {}
        self.reals: dict[Expr, Expr] = {}

    def program(self) -> Program:
        source = self.source
        equations = tuple(e for item in source.equations for e in self.equation(item))
        read = {item for item in postorder(e.body for e in equations) if isinstance(item, Read)}
        checks = (check for item in source.checks for check in self.check(item))
        return replace(
            source,
            parameters=tuple(d for item in source.parameters for d in self.declarations(item)),
            outputs=tuple(d for item in source.outputs for d in self.declarations(item)),
            equations=equations,
            tables=tuple(t for item in source.tables for t in self.table(item)),
            checks=tuple(check for check in checks if check.read in read),
            conditions=(),  # decided for the sizes at hand, and of no use to later passes
        )

    def tensors(self, tensor: Tensor) -> tuple[Tensor, ...]:
        if not tensor.dtype.complex:
            return (tensor,)
        kind = part_type(tensor.dtype)
        return tuple(Tensor(name, kind, tensor.shape) for name in self.names[tensor.name])

    def declarations(self, item: Declaration) -> list[Declaration]:
        return [replace(item, tensor=tensor) for tensor in self.tensors(item.tensor)]

    def equation(self, item: Equation) -> list[Equation]:
        made = self.tensors(item.tensor)
        bodies = self.pair(item.body) if len(made) == 2 else (self.real(item.body),)
        return [
            replace(item, tensor=tensor, body=body)
            for tensor, body in zip(made, bodies, strict=True)
        ]

    def table(self, item: Table) -> list[Table]:
        if not item.tensor.dtype.complex:
            return [item]
        pairs = [self.pair(value) for value in item.values]
        parts = zip(self.tensors(item.tensor), zip(*pairs, strict=True), strict=True)
        return [Table(tensor, values) for tensor, values in parts]

    def check(self, item: Check) -> list[Check]:
        reads = self.pair(item.read) if item.read.tensor.dtype.complex else (self.real(item.read),)
        return [replace(item, read=read) for read in reads if isinstance(read, Read)]

    def pair(self, item: Expr) -> Pair:
        """The parts of an expression; a real one has the imaginary part 0."""
        if not value_type(item).complex:
            return self.real(item), ZERO
        if item not in self.pairs:
            self.pairs[item] = self.split(item)
        return self.pairs[item]

    def split(self, item: Expr) -> Pair:
        match item:
            case Literal(value, _):
                return ZERO, Literal(value, REAL)
            case Read(tensor, subscripts):
                places = tuple(self.real(part) for part in subscripts)
                re, im = self.tensors(tensor)
                return Read(re, places), Read(im, places)
            case Select(condition, yes, no):
                test = self.real(condition)
                return both(lambda a, b: Select(test, a, b), self.pair(yes), self.pair(no))
            case Cast(dtype, arg):
                kind = part_type(dtype)
                re, im = self.pair(arg)
                return Cast(kind, re), Cast(kind, im)
            case Round(dtype, arg):
                kind = part_type(dtype)
                re, im = self.pair(arg)
                return Round(kind, re), Round(kind, im)
            case Reduce():
                return self.reduction(item)
            case Apply(function, (base, exponent)) if function.name == "pow":
                return self.power(base, exponent, part_type(value_type(item)))
            case Apply(function, (number, divisor)) if function.name == "div":
                return self.quotient(number, divisor, value_type(item))
            case Apply(function, args):
                return self.function(function.name, args)
            case _:
                raise Unavailable(_said(f"{type(item).__name__.lower()} of complex numbers"))

    def reduction(self, item: Reduce) -> Pair:
        if item.reducer not in (SUM, MEAN):
            raise Unavailable(_said(f"{item.reducer} of complex numbers"))
        where = None if item.where is None else self.real(item.where)
        kind = None if item.dtype is None else part_type(item.dtype)
        re, im = self.pair(item.body)
        return (
            Reduce(item.reducer, item.indices, re, where, kind),
            Reduce(item.reducer, item.indices, im, where, kind),
        )

    def function(self, name: str, args: Sequence[Expr]) -> Pair:
        formula = FORMULAS.get(name)
        if formula is None:
            raise Unavailable(_said(f"{name} of complex numbers"))
        first, *others = [self.pair(arg) for arg in args]
        if not others:
            return formula(first, first)
        for other in others:
            first = formula(first, other)
        return first

    def quotient(self, number: Expr, divisor: Expr, dtype: DType) -> Pair:
        """A quotient. Numbers of two types meet in the wider one before anything is computed: the
        formula divides parts of the divisor by each other."""
        (a, b), (c, d) = self.pair(number), self.pair(divisor)
        if not dtype.weak:
            a, b, c, d = (_as(part_type(dtype), part) for part in (a, b, c, d))
        return FORMULAS["div"]((a, b), (c, d))

    def power(self, base: Expr, exponent: Expr, kind: DType) -> Pair:
        """A power with parts of type `kind`: by products where the exponent is a whole literal,
        else in f64, since errors of the logarithm count by the exponent."""
        whole = _whole(exponent)
        if whole == 0:  # whatever the base is
            return Cast(kind, literal(1)), Cast(kind, literal(0))
        if whole is not None:
            return whole_power(self.pair(base), whole)
        (x, y), (c, d) = self.pair(base), self.pair(exponent)
        re, im = power((_as(F64, x), _as(F64, y)), (_as(F64, c), _as(F64, d)))
        return _as(kind, re), _as(kind, im)

    def real(self, item: Expr) -> Expr:
        """An expression that is not complex, with everything complex in it replaced."""
        if item not in self.reals:
            self.reals[item] = self.without(item)
        return self.reals[item]

    def without(self, item: Expr) -> Expr:
        match item:
            case Apply(function, args) if any(value_type(arg).complex for arg in args):
                return self.from_pairs(function.name, [self.pair(arg) for arg in args])
            case Cast(dtype, arg) if value_type(arg).complex:
                re, im = self.pair(arg)
                if dtype is BOOL:
                    return call("or", call("ne", re, ZERO), call("ne", im, ZERO))
                return Cast(dtype, re)
            case Bitcast(_, arg) if value_type(arg).complex:
                raise Unavailable(_said("bitcast of complex numbers"))
            case _:
                return self.rebuilt(item)

    def rebuilt(self, item: Expr) -> Expr:
        from tensorc.ir.node import rebuild

        def changed(child: Node) -> Node:
            return self.real(child) if isinstance(child, Expr) else child

        return rebuild(item, changed)

    def from_pairs(self, name: str, args: Sequence[Pair]) -> Expr:
        """Real values of complex arguments."""
        made: dict[str, Callable[[], Expr]] = {
            "real": lambda: args[0][0],
            "imag": lambda: args[0][1],
            "abs": lambda: FORMULAS["abs"](args[0], args[0])[0],
            "eq": lambda: call("and", *both(_function("eq"), args[0], args[1])),
            "ne": lambda: call("or", *both(_function("ne"), args[0], args[1])),
        }
        if name not in made:
            raise Unavailable(_said(f"{name} of complex numbers"))
        return made[name]()


def _whole(exponent: Expr) -> int | None:
    """The value of a literal that is a whole number of at most MOST_POWER, of either sign."""
    match exponent:
        case Apply(function, (arg,)) if function.name == "neg":
            found = _whole(arg)
            return None if found is None else -found
        case Literal(Fraction() as value, dtype) if not dtype.complex and value.denominator == 1:
            return int(value) if abs(value) <= MOST_POWER else None
        case _:
            return None


def _as(kind: DType, item: Expr) -> Expr:
    """The part in the type of the result: an integer is not narrowed on the way."""
    own = value_type(item)
    return item if own is kind or own.weak else Cast(kind, item)


def _function(name: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: Apply(FUNCTIONS[name], (a, b))


def _said(what: str) -> str:
    return f"{what} is not compiled in this version; .on('interpreter') computes it"
