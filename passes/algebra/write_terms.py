"""Terms as expressions and equations of level 1; what is cut off is read by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from tensorc.ir import constants
from tensorc.ir.dtypes import BOOL, F32, F64, REAL, settled
from tensorc.ir.functions import ANY, FUNCTIONS, MAX, MIN, SUM
from tensorc.ir.rounding import LARGEST
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Equation,
    Expr,
    Extent,
    Literal,
    Position,
    Read,
    Reduce,
    Round,
    Select,
    value_type,
)
from tensorc.passes.algebra import terms as t
from tensorc.passes.algebra.cuts import Body
from tensorc.passes.algebra.encoded import LOG2E, Encoded
from tensorc.passes.algebra.quotients import constant, joined, quotient
from tensorc.passes.algebra.terms import (
    YES,
    Add,
    Call,
    Choice,
    Fold,
    Gather,
    Leaf,
    Mul,
    Rounded,
    Some,
    Term,
    Yes,
    mul,
)
from tensorc.passes.canonicalise import call, integer

_REDUCERS = {"Sum": SUM, "Max": MAX, "Min": MIN}


class Writer:
    """Writes the terms of one program. `rows`: by the index of gathered rows, the reads of tensors
    of all rows that were written, each with the axis of the picked position."""

    def __init__(self, encoded: Encoded, cuts: Mapping[Term, Body]) -> None:
        self.encoded, self.cuts = encoded, cuts
        self.free_of = encoded.free()
        self.depth = 0  # reductions around what is being written
        self.rows: dict[str, list[tuple[Read, int]]] = {}

    def equation(self, body: Body) -> Equation:
        term = body.term
        if body.source is None and isinstance(term, Rounded):
            value = self.strong(self.expr(term.arg, None))
        else:
            value = self.expr(term, term)
        if body.source is not None:
            value = self.as_stored(value, body.source)
        elif body.tensor.dtype is not settled(value_type(value)):
            value = Round(body.tensor.dtype, value)
        return Equation(body.tensor, body.indices, value, body.source.span if body.source else None)

    def as_stored(self, value: Expr, source: Equation) -> Expr:
        """The body of an equation of the program, in its old value type."""
        inside = source.body.arg if isinstance(source.body, Round) else source.body
        own = settled(value_type(inside))
        if settled(value_type(value)) is not own:
            value = Cast(own, value)
        return Round(source.tensor.dtype, value) if isinstance(source.body, Round) else value

    def strong(self, expr: Expr) -> Expr:
        """An exact constant in the program's type; anything else as it is."""
        return Cast(self.encoded.dtype, expr) if value_type(expr).weak else expr

    def together(self, items: list[Expr]) -> list[Expr]:
        """Operands of which one has the program's type: constants alone would be folded by the laws
        of constants. Rather one that the type holds exactly."""
        if not items or not all(value_type(item).weak for item in items):
            return items
        first = next((n for n, item in enumerate(items) if self.holds(item)), 0)
        return [self.strong(item) if n == first else item for n, item in enumerate(items)]

    def holds(self, constant: Expr) -> bool:
        """Whether the program's type has the value of a constant."""
        value = constants.fold(constant, {})
        return value is not None and value == constants.cast(value, self.encoded.dtype, True)

    def expr(self, term: Term, top: Term | None) -> Expr:
        """A term as an expression; what has a name, other than `top`, is read."""
        if term in self.cuts and term is not top:
            body = self.cuts[term]
            return Read(body.tensor, tuple(Position(index) for index in body.indices))
        match term:
            case Leaf(name):
                return self.leaf(name)
            case Yes():
                return Literal(Fraction(1), BOOL)
            case Mul(factor, args):
                return self.product(factor, args)
            case Add(args):
                return self.total(args)
            case Fold(_, (), _, body):  # over nothing
                return self.expr(body, None)
            case Fold(kind, indices, where, body):
                self.depth += 1
                inside = self.strong(self.expr(body, None))
                self.depth -= 1
                condition = None if where is YES else self.expr(where, None)
                return Reduce(_REDUCERS[kind], indices, inside, condition, None)
            case Some(indices, where):
                return Reduce(ANY, indices, self.expr(where, None), None, None)
            case Call(name, args):
                return self.called(name, [self.expr(arg, None) for arg in args])
            case Choice(condition, yes, no):
                sides = self.together([self.expr(arg, None) for arg in (yes, no)])
                return Select(self.expr(condition, None), *sides)
            case Rounded():
                raise ValueError("a rounding without a name")
            case Gather(index, at, arg):
                return self.row(index, self.expr(at, None), arg)

    def leaf(self, name: str) -> Expr:
        if name == LOG2E.name:
            return call("div", integer(1), call("log", integer(2)))
        if name[0] == "|":
            return Extent(name.strip("|"))
        return self.encoded.leaves[name]

    def called(self, name: str, args: list[Expr]) -> Expr:
        if name == "recip":
            return call("div", integer(1), args[0])
        if name == "shift":
            highest = Fraction(LARGEST[F64 if self.encoded.dtype is F64 else F32])
            return call("max", args[0], Literal(-highest, REAL))
        return Apply(FUNCTIONS[name], tuple(self.together(args)))

    def product(self, factor: Fraction, args: Sequence[Term]) -> Expr:
        """Data times one exact constant, over what is divided by."""
        above: list[Expr] = []
        below: list[Expr] = []
        number: list[Expr] = []
        under: list[Expr] = []
        for arg in args:
            divides = isinstance(arg, Call) and arg.name == "recip" and arg not in self.cuts
            value = self.expr(arg.args[0] if divides and isinstance(arg, Call) else arg, None)
            weak = value_type(value).weak and not t.free(arg, self.free_of)
            (under if weak else below).append(value) if divides else (
                number if weak else above
            ).append(value)
        if self.depth and above:  # a loop's divisor is inverted before the loop
            above += [call("div", integer(1), item) for item in below]
            below = []
        scale = constant(factor, number, under, bool(above))
        return quotient(above, scale, below)

    def total(self, args: Sequence[Term]) -> Expr:
        """Summands with a negative number are subtracted."""
        plus: list[Expr] = []
        minus: list[Expr] = []
        for arg in args:
            if isinstance(arg, Mul) and arg.factor < 0 and arg not in self.cuts:
                minus.append(self.expr(mul(arg.args, -arg.factor), None))
            else:
                plus.append(self.expr(arg, None))
        items = self.together([*plus, *minus])
        plus, minus = items[: len(plus)], items[len(plus) :]
        if not plus:
            return call("neg", joined("add", minus))
        value = joined("add", plus)
        for item in minus:
            value = call("sub", value, item)
        return value

    def viewed(self, arg: Term) -> Read:
        """A tensor, or a view of one."""
        if isinstance(arg, Gather):
            return self.row(arg.index, self.expr(arg.at, None), arg.arg)
        assert isinstance(arg, Leaf)
        old = self.encoded.leaves[arg.name]
        assert isinstance(old, Read)
        return old

    def row(self, index: str, at: Expr, arg: Term) -> Read:
        """`arg` at a row: the read itself, or a read of the tensor of all rows."""
        if arg in self.cuts:
            body = self.cuts[arg]
            found = Read(
                body.tensor, tuple(at if name == index else Position(name) for name in body.indices)
            )
            if index in body.indices:
                self.rows.setdefault(index, []).append((found, body.indices.index(index)))
            return found
        old = self.viewed(arg)
        return Read(
            old.tensor,
            tuple(
                at if isinstance(sub, Position) and sub.index == index else sub
                for sub in old.subscripts
            ),
        )
