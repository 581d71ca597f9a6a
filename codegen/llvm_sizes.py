"""Sizes, bounds and strides as LLVM IR: polynomials over extents, bases and what is in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from tensorc.codegen.llvm_builder import Builder, integer_of
from tensorc.codegen.llvm_functions import FUNCTIONS
from tensorc.codegen.llvm_scope import Scope
from tensorc.codegen.llvm_types import Operand
from tensorc.ir.dtypes import I64
from tensorc.ir.multiples import whole_blocks
from tensorc.ir.polynomial import Bound, Floor, Opaque, Polynomial, Symbol
from tensorc.ir.tensor import Expr


class Sizes:
    """`multiples`: what extents are known to be multiples of; `parameter`: the value of a `const`
    integer; `data`: that of an expression."""

    def __init__(
        self, b: Builder, scope: Scope, multiples: Mapping[str, int],
        parameter: Callable[[str], Operand], data: Callable[[Expr], Operand],
    ) -> None:  # fmt: skip
        self.b, self.scope, self.multiples = b, scope, multiples
        self.parameter, self.data = parameter, data

    def number(self, value: int) -> Operand:
        """A constant."""
        return self.b.const(value, I64)

    def value(self, item: Polynomial) -> Operand:
        """A bound or size at run time; a constant where all its symbols are static."""
        item = whole_blocks(item, self.multiples)
        total = self.number(0)
        for monomial, coefficient in item.terms:
            product = self.number(coefficient)
            for atom, power in monomial:
                for _ in range(power):
                    product = self.b.mul(product, self.atom(atom))
            total = self.b.add(total, product)
        return total

    def divides(self, block: int, item: Polynomial) -> bool:
        """Whether a size is known to be a multiple of a block."""
        number = integer_of(self.value(item))
        if number is not None:
            return number % block == 0
        return whole_blocks(item // block * block, self.multiples) is item

    def atom(self, atom: Symbol | Floor | Bound | Opaque) -> Operand:
        """One factor of a term."""
        match atom:
            case Symbol(name, "extent"):
                return self.scope.extents[name]
            case Symbol(name, "parameter"):
                return self.parameter(name)
            case Symbol(name, _):
                return self.scope.bases[name]
            case Floor(numerator, denominator):
                return self.floor(self.value(numerator), self.value(denominator))
            case Bound(which, args):
                values = [self.value(arg) for arg in args]
                total = values[0]
                for value in values[1:]:
                    total = self.b.extreme(which, total, value)
                return total
            case Opaque(expr):
                return self.data(cast(Expr, expr))  # a polynomial knows only that it is a node

    def floor(self, a: Operand, b: Operand) -> Operand:
        """Floor division; by 0 it is 0."""
        m, n = integer_of(a), integer_of(b)
        if m is not None and n:
            return self.number(m // n)
        if n is not None and n > 0 and n.bit_count() == 1:
            return self.b.op("ashr", a, self.number(n.bit_length() - 1))
        return FUNCTIONS["floordiv"](self.b, [a, b])

    def multiple(self, item: Operand, block: int, up: bool = False) -> Operand:
        """The last multiple of a block up to `item`, or the first from it on."""
        if block == 1:
            return item
        raised = self.b.add(item, self.number(block - 1)) if up else item
        return self.b.mul(self.floor(raised, self.number(block)), self.number(block))
