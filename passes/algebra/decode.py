"""Terms as level 1: equations for what is worth a name, expressions for the rest.

A term becomes an equation of its own if it is a rounding, if two equations use it and it holds a
reduction, or if a loop around it would compute it again: a reduction, or a product's factor with a
costly function, that does not depend on every index of the loops around it and cannot move out of
them. A product of many factors is contracted in its cheapest order. What a declared name stood for
keeps that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from tensorc.ir import constants
from tensorc.ir.dtypes import BOOL, BY_NAME, F32, F64, REAL, settled
from tensorc.ir.functions import ANY, FUNCTIONS, MAX, MIN, SUM
from tensorc.ir.node import Node, children, postorder
from tensorc.ir.rounding import LARGEST
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Check,
    Equation,
    Expr,
    Extent,
    Literal,
    Position,
    Program,
    Read,
    Reduce,
    Round,
    Select,
    Tensor,
    value_type,
)
from tensorc.passes.algebra import terms as t
from tensorc.passes.algebra.encode import LOG2E, Encoded
from tensorc.passes.algebra.order_terms import ordered
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
from tensorc.passes.canonicalise import call, integer, unique_names

_REDUCERS = {"Sum": SUM, "Max": MAX, "Min": MIN}
_COSTLY = frozenset("exp exp2 log log2 tanh sigmoid erf sin cos pow".split())


class Lost(Exception):
    """A read whose subscript the kernel has to check is gone; the program stays as it was."""


def decode(encoded: Encoded, roots: Sequence[Term], sizes: Mapping[str, int]) -> Program:
    """The encoded program with its roots as these terms."""
    in_order = ordered(encoded, roots, sizes)
    return _Decoder(encoded, in_order).program()


# --- equations ----------------------------------------------------------------------------------


@dataclass
class _Body:
    """One equation in the making: what it defines, and under which indices."""

    tensor: Tensor
    indices: tuple[str, ...]
    term: Term
    source: Equation | None


@dataclass
class _Decoder:
    encoded: Encoded
    roots: list[Term]
    cuts: dict[Term, _Body] = field(default_factory=dict[Term, _Body])
    rows: dict[str, list[tuple[Read, int]]] = field(
        default_factory=dict[str, list[tuple[Read, int]]]
    )

    def __post_init__(self) -> None:
        self.depth = 0  # reductions around what is being written
        self.free_of = self.encoded.free()
        self.extents = self.encoded.extents
        program = self.encoded.program
        named = (*program.parameters, *program.outputs, *program.tables)
        kept = (equation for equation, _ in self.encoded.roots)
        self.taken = {item.tensor.name for item in (*named, *kept)} | set(self.extents)
        self.order = list(self.extents)

    def program(self) -> Program:
        """All equations, each after what it reads."""
        self.choose_cuts()
        made = [
            _Body(equation.tensor, equation.indices, root, equation)
            for (equation, _), root in zip(self.encoded.roots, self.roots, strict=True)
        ]
        equations = [self.equation(body) for body in (*self.cuts.values(), *made)]
        source = self.encoded.program
        program = replace(
            source, equations=tuple(_sorted(equations)), extents=tuple(self.extents.items())
        )
        return unique_names(replace(program, checks=tuple(self.checks(program))))

    # which terms are equations

    def choose_cuts(self) -> None:
        """Cut until no rule asks for another cut."""
        waiting = True
        while waiting:
            waiting = False
            users: dict[Term, set[int]] = {}
            bodies = [
                (frozenset(equation.indices), root)
                for (equation, _), root in zip(self.encoded.roots, self.roots, strict=True)
            ] + [(frozenset(body.indices), body.term) for body in self.cuts.values()]
            lefts = [item.indices for item, _ in self.encoded.roots]
            lefts += [body.indices for body in self.cuts.values()]
            for number, (left, root) in enumerate(bodies):
                for term, wanted in self.walk(root, left):
                    users.setdefault(term, set()).add(number)
                    if term not in self.cuts and (wanted or self.shared(term, users[term])):
                        waiting |= self.cut(term, lefts[number])

    def shared(self, term: Term, users: set[int]) -> bool:
        return len(users) > 1 and isinstance(term, Fold)

    def walk(self, root: Term, left: frozenset[str]) -> Iterable[tuple[Term, bool]]:
        """The terms of one equation, each with whether it has to be a name."""
        seen: set[tuple[Term, frozenset[str]]] = set()
        body = root.arg if isinstance(root, Rounded) and root in self.cuts else root
        stack: list[tuple[Term, frozenset[str], bool]] = [(body, frozenset(), True)]
        while stack:
            term, loops, top = stack.pop()
            if (term, loops) in seen or isinstance(term, Leaf | Yes):
                continue
            seen.add((term, loops))
            yield term, not top and self.wanted(term, left, loops)
            if term in self.cuts and not top:
                continue
            inner = loops | set(term.indices) if isinstance(term, Fold | Some) else loops
            for part in children(term):
                assert isinstance(part, Term)
                stack.append((part, inner, False))
                if isinstance(term, Gather) and part is term.arg and not isinstance(part, Leaf):
                    yield part, True
                if isinstance(term, Mul) and inner and self.repeated(part, left | inner):
                    yield part, True

    def wanted(self, term: Term, left: frozenset[str], loops: frozenset[str]) -> bool:
        match term:
            case Rounded():
                return True
            case Fold():
                return bool(self.free(term) & loops)
            case _:
                return False

    def repeated(self, term: Term, loops: frozenset[str]) -> bool:
        """Whether loops around a costly factor would compute it again and again."""
        names = self.free(term)
        costly = any(isinstance(item, Call) and item.name in _COSTLY for item in self.inside(term))
        return costly and bool(names) and names < loops

    def inside(self, term: Term) -> Iterable[Node]:
        """The nodes of a term, not those behind names and reductions."""
        stack: list[Node] = [term]
        while stack:
            item = stack.pop()
            yield item
            if item not in self.cuts and not isinstance(item, Fold | Some | Rounded):
                stack.extend(children(item))

    def cut(self, term: Term, user: tuple[str, ...]) -> bool:
        """Give a term a name; False if it may have none. Its indices are in the order of its
        `user`, whose last one stays last, so that both walk neighbours."""
        if term in self.cuts or isinstance(term, Leaf | Yes):
            return False
        order = [*user[:-1], *(name for name in self.order if name not in user[-1:]), *user[-1:]]
        indices = tuple(sorted(self.free(term), key=order.index))
        dtype = BY_NAME[term.dtype] if isinstance(term, Rounded) else self.encoded.dtype
        shape = tuple(self.extents[index] for index in indices)
        self.cuts[term] = _Body(Tensor(self.name(term), dtype, shape), indices, term, None)
        return True

    def free(self, term: Term) -> frozenset[str]:
        return t.free(term, self.free_of)

    def name(self, term: Term) -> str:
        """The program's name for a term, if it has one that is free; else a new one."""
        known = self.encoded.names.get(term)
        if known is not None and known not in self.taken:
            self.taken.add(known)
            return known
        number = 1
        while f"t{number}" in self.taken:
            number += 1
        self.taken.add(f"t{number}")
        return f"t{number}"

    # what the equations say

    def equation(self, body: _Body) -> Equation:
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
        scale = _constant(factor, number, under, bool(above))
        return _quotient(above, scale, below)

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
            return call("neg", _joined("add", minus))
        value = _joined("add", plus)
        for item in minus:
            value = call("sub", value, item)
        return value

    def row(self, index: str, at: Expr, arg: Term) -> Expr:
        """`arg` at a row: the read itself, or a read of the tensor of all rows."""
        if arg in self.cuts:
            body = self.cuts[arg]
            found = Read(
                body.tensor, tuple(at if name == index else Position(name) for name in body.indices)
            )
            if index in body.indices:
                self.rows.setdefault(index, []).append((found, body.indices.index(index)))
            return found
        assert isinstance(arg, Leaf)
        old = self.encoded.leaves[arg.name]
        assert isinstance(old, Read)
        return Read(
            old.tensor,
            tuple(
                at if isinstance(sub, Position) and sub.index == index else sub
                for sub in old.subscripts
            ),
        )

    # checks

    def checks(self, program: Program) -> Iterable[Check]:
        """The program's checks for every form that their reads took."""
        present = {
            item
            for item in postorder(equation.body for equation in program.equations)
            if isinstance(item, Read)
        }
        for check in self.encoded.program.checks:
            forms = {check.read} | self.encoded.reads.get(check.read, set())
            found = [(read, check.axis) for read in sorted(forms & present, key=repr)]
            found += self.gathered_checks(check, present)
            if not found and not self.always_inside(check):
                raise Lost(f"a check of {check.read.tensor.name}")
            yield from (replace(check, read=read, axis=axis) for read, axis in found)

    def always_inside(self, check: Check) -> bool:
        """Whether the checked subscript permutes the positions of its dimension."""
        return any(
            (check.read, check.axis) in self.encoded.gathers[index]
            for index in self.encoded.permuted
        )

    def gathered_checks(self, check: Check, present: set[Read]) -> list[tuple[Read, int]]:
        """Reads at the checked position: of rows that now stand for the checked read's."""
        indices = [
            index
            for index, origins in self.encoded.gathers.items()
            if (check.read, check.axis) in origins
        ]
        rows = [row for index in indices for row in self.rows.get(index, [])]
        return [(read, axis) for read, axis in dict.fromkeys(rows) if read in present]


def _constant(factor: Fraction, above: list[Expr], below: list[Expr], data: bool) -> Expr | None:
    """factor * above / below as one exact expression; None for 1, if there is data to stand."""
    if not above and not below and _is_short(factor):
        return None if factor == 1 and data else _number(factor)
    top = [*above]
    if abs(factor.numerator) != 1 or not top and (not data or below):
        top = [_number(abs(Fraction(factor.numerator))), *top]
    bottom = [*below] + ([_number(Fraction(factor.denominator))] if factor.denominator != 1 else [])
    if not top:
        return None if factor > 0 and not bottom else _signed(integer(1), bottom, factor < 0)
    return _signed(_joined("mul", top), bottom, factor < 0)


def _is_short(value: Fraction) -> bool:
    """Whether a number has at most 12 digits behind the point."""
    return 10**12 % value.denominator == 0


def _number(value: Fraction) -> Literal | Apply:
    """A number with a short decimal form."""
    exact = value.denominator == 1 and abs(value) < 1 << 31
    made = integer(abs(value.numerator)) if exact else Literal(abs(value), REAL)
    return call("neg", made) if value < 0 else made


def _signed(value: Expr, bottom: list[Expr], negative: bool) -> Expr:
    made = call("div", value, _joined("mul", bottom)) if bottom else value
    return call("neg", made) if negative else made


def _quotient(above: list[Expr], scale: Expr | None, below: list[Expr]) -> Expr:
    items = [*above] if scale is None else [*above, scale]
    value = _joined("mul", items) if items else integer(1)
    for item in below:
        value = call("div", value, item)
    return value


def _joined(name: str, items: list[Expr]) -> Expr:
    return items[0] if len(items) == 1 else Apply(FUNCTIONS[name], tuple(items))


def _sorted(equations: Sequence[Equation]) -> Iterable[Equation]:
    """Each equation after those that it reads, else in order."""
    by_name = {equation.tensor.name: equation for equation in equations}
    done: dict[str, Equation] = {}
    for equation in equations:
        stack = [(equation, False)]
        while stack:
            item, ready = stack.pop()
            if item.tensor.name in done:
                continue
            if ready:
                done[item.tensor.name] = item
                continue
            stack.append((item, True))
            for read in postorder([item.body]):
                if isinstance(read, Read) and read.tensor.name in by_name:
                    stack.append((by_name[read.tensor.name], False))
    return done.values()
