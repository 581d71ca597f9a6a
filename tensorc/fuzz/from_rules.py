"""Cases made from the left sides of the algebra's rules: what random programs seldom contain.

One or two samples of rules (or near misses) are joined and become an operator whose leaves are
tensors. Positions that a sample picks by data are brought into range by a remainder.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tensorc.fuzz.generate import RECIPES, Generated
from tensorc.ir.choose import Chooser, chance, pick
from tensorc.ir.dtypes import BOOL, F16, F32, I32, REAL, DType
from tensorc.ir.functions import ANY, FUNCTIONS, MAX, MIN, SUM
from tensorc.ir.node import Node, rebuild
from tensorc.ir.polynomial import extent
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Declaration,
    Equation,
    Expr,
    Extent,
    Literal,
    Position,
    Program,
    Read,
    Reduce,
    Select,
    Tensor,
    free_indices,
    value_type,
)
from tensorc.passes.algebra.rules import RULES
from tensorc.passes.algebra.terms import (
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
    add,
    call,
    fold,
    mul,
)

_CONSTANTS = {"c1": Fraction(3, 4), "c2": Fraction(5, 4)}
_REDUCERS = {"Sum": SUM, "Max": MAX, "Min": MIN}
_LOWEST = -(Fraction(2) ** 127) * (2 - Fraction(1, 2**23))
INDICES = ("i", "j", "k", "l")


def generate(chooser: Chooser) -> Generated:
    """A random case around a rule."""
    term = _sample(chooser)
    if chance(chooser, 5):
        term = _joined(chooser, term, _sample(chooser))
    maker = _Maker(F16 if chance(chooser, 3) else F32)
    body = maker.expr(term)
    body = body if value_type(body) is F32 else Cast(F32, body)
    program = maker.program(body)
    names = [item.tensor.name for item in program.parameters]
    floats = {item.tensor.name for item in program.parameters if item.tensor.dtype.floating}
    recipes = {n: pick(chooser, RECIPES) if n in floats else "small" for n in names}
    sizes = {name: pick(chooser, (1, 2, 3, 5, 8, 17)) for name, _ in program.extents}
    return Generated(program, sizes, recipes, dict.fromkeys(names, "dense"), "rules")


def _sample(chooser: Chooser) -> Term:
    rule = pick(chooser, RULES)
    return rule.near_miss(chooser) if chance(chooser, 2) else rule.sample(chooser)


def _joined(chooser: Chooser, a: Term, b: Term) -> Term:
    match chooser.integer(0, 3):
        case 0:
            return add([a, b])
        case 1:
            return mul([a, b])
        case 2:
            return mul([call("tanh", a), b])
        case _:
            return fold("Sum", [pick(chooser, INDICES)], mul([a, b]))


class _Maker:
    """Terms as expressions over tensors of one float type."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self.tensors: dict[str, Tensor] = {}

    def program(self, body: Expr) -> Program:
        """An operator with one output over the free indices of `body`."""
        free = sorted(free_indices(body))
        for name in INDICES:  # every extent is that of some parameter
            self.tensors.setdefault(f"s{name}", Tensor(f"s{name}", F32, (extent(name),)))
        y = Tensor("out", F32, tuple(extent(name) for name in free))
        parameters = tuple(
            Declaration(tensor, tuple(str(size).strip("|") for size in tensor.shape))
            for tensor in self.tensors.values()
        )
        output = Declaration(y, tuple(free))
        equation = Equation(y, tuple(free), body)
        extents = tuple((name, extent(name)) for name in INDICES)
        return Program("f", parameters, (output,), (equation,), extents)

    def expr(self, term: Term) -> Expr:
        """The expression of a term."""
        match term:
            case Leaf(name):
                return self.leaf(name)
            case Yes():
                return Literal(Fraction(1), BOOL)
            case Mul(factor, args):
                return self.product(factor, args)
            case Add(args):
                items = tuple(self.expr(arg) for arg in args)
                return items[0] if len(items) == 1 else Apply(FUNCTIONS["add"], items)
            case Fold(kind, indices, where, body):
                condition = None if isinstance(where, Yes) else self.expr(where)
                inside = self.strong(self.expr(body))
                over = [name for name in indices if name not in free_indices(inside)]
                if over:  # the language asks that what is summed over occurs
                    inside = Apply(FUNCTIONS["add"], (inside, *(self.zero(name) for name in over)))
                return Reduce(_REDUCERS[kind], indices, inside, condition, None)
            case Some(indices, where):
                return Reduce(ANY, indices, self.expr(where), None, None)
            case Call(name, args):
                return self.called(name, [self.strong(self.expr(arg)) for arg in args])
            case Choice(condition, yes, no):
                sides = [self.strong(self.expr(arg)) for arg in (yes, no)]
                return Select(self.expr(condition), *sides)
            case Rounded(_, arg):
                return self.expr(arg)
            case Gather(index, at, arg):
                place = Apply(FUNCTIONS["mod"], (self.expr(at), Extent(index)))
                return _placed(self.expr(arg), {index: place})

    def product(self, factor: Fraction, args: tuple[Term, ...]) -> Expr:
        items = [self.expr(arg) for arg in args]
        if factor != 1 or not items:
            items.append(Literal(abs(factor), REAL))
        made = items[0] if len(items) == 1 else Apply(FUNCTIONS["mul"], tuple(items))
        return Apply(FUNCTIONS["neg"], (made,)) if factor < 0 else made

    def called(self, name: str, args: list[Expr]) -> Expr:
        match name:
            case "recip":
                return Apply(FUNCTIONS["div"], (Literal(Fraction(1), REAL), *args))
            case "shift":
                return Apply(FUNCTIONS["max"], (*args, Literal(_LOWEST, REAL)))
            case _:
                return Apply(FUNCTIONS[name], tuple(args))

    def zero(self, index: str) -> Expr:
        """0 at every position of an index."""
        return Apply(FUNCTIONS["mul"], (Literal(Fraction(0), REAL), Position(index)))

    def strong(self, expr: Expr) -> Expr:
        return Cast(F32, expr) if value_type(expr).weak else expr

    def leaf(self, label: str) -> Expr:
        if label in _CONSTANTS:
            return Literal(_CONSTANTS[label], REAL)
        name, _, inside = label.partition("[")
        indices = tuple(inside.removesuffix("]").split(",")) if inside != "]" else ()
        dtype = BOOL if name[0] == "?" else I32 if name in ("P", "Q", "at") else self.dtype
        plain = f"{name.replace('?', 'where_').upper()}_{''.join(indices)}"
        shape = tuple(extent(index) for index in indices)
        tensor = self.tensors.setdefault(plain, Tensor(plain, dtype, shape))
        return Read(tensor, tuple(Position(index) for index in indices))


def _placed(expr: Expr, places: Mapping[str, Expr]) -> Expr:
    """`expr` with positions replaced; samples bind no index that a place depends on."""
    match expr:
        case Position(index):
            return places.get(index, expr)
        case Reduce(_, indices, _, _, _):
            left = {name: place for name, place in places.items() if name not in indices}
            return rebuild(expr, lambda item: _child(item, left))
        case _:
            return rebuild(expr, lambda item: _child(item, places))


def _child(item: Node, places: Mapping[str, Expr]) -> Node:
    return _placed(item, places) if isinstance(item, Expr) else item
