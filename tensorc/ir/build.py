"""Surface expressions to level-1 nodes: names resolved, sugar expanded, every type checked.

The builder works bottom-up over the surface tree without recursion and remembers each object, so a
traced tree that shares subtrees takes time linear in its distinct parts. It never stops at a
fault: it reports, gives None for the part, and stays silent about what contains it. Extents and
ranges are not its business (`lang.extents`, `lang.accesses`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from tensorc.ir import syntax as s
from tensorc.ir import weak
from tensorc.ir.diagnostics import fault
from tensorc.ir.dtypes import BOOL, INTEGER, DType, settled
from tensorc.ir.functions import (
    CALLABLE,
    FUNCTIONS,
    REDUCERS,
    SUGAR,
    SYMBOLS,
    Function,
    Typing,
    reduced_type,
    result_type,
)
from tensorc.ir.intervals import interval
from tensorc.ir.source import Diagnostic, Place
from tensorc.ir.stores import accumulates, literal_fault, storage_of
from tensorc.ir.tensor import (
    Apply,
    Bitcast,
    Cast,
    Expr,
    Extent,
    Literal,
    Position,
    Read,
    Reduce,
    Select,
    Tensor,
    free_indices,
    joined,
    operand_types,
    value_type,
)
from tensorc.ir.wording import article, dimensions, nearest

ON_BOOLS = {"bitand": "and", "bitor": "or", "bitxor": "xor", "invert": "not"}
Report = Callable[[Diagnostic], None]


class Scope(Protocol):
    """What names mean at this point of an operator."""

    def tensor(self, name: str) -> Tensor | None:
        """The tensor of this name that may be read here."""
        ...

    def index(self, name: str) -> bool:
        """Whether the name is an index of the operator."""
        ...

    def missing(self, name: str, span: Place, bare: bool) -> Diagnostic:
        """The fault to report for a name that is neither; `bare`: without subscripts."""
        ...


class Builder:
    """Builds expressions in one scope, reporting faults as it goes."""

    def __init__(self, scope: Scope, report: Report) -> None:
        self.scope = scope
        self.report = report
        self._done: dict[int, tuple[s.Syntax, Expr | None]] = {}

    def build(self, root: s.Syntax) -> Expr | None:
        """The node of `root`; None if a fault below it was reported."""
        for item in s.postorder(root):
            if id(item) not in self._done:
                self._done[id(item)] = item, self._checked(item)
        return self._done[id(root)][1]

    def built(self, item: s.Syntax) -> Expr | None:
        """The node of an object already built; None if it had a fault or was never built."""
        known = self._done.get(id(item))
        return known[1] if known is not None else None

    def _checked(self, item: s.Syntax) -> Expr | None:
        expr = self._node(item)
        if expr is not None:
            for known in (value_type, free_indices, weak.integer, interval):
                known(expr)  # remembered on the node: never deep, since its parts are known
        return expr

    def _node(self, item: s.Syntax) -> Expr | None:
        match item:
            case s.Constant(literal, _):
                return literal
            case s.Name(name, span):
                return self._name(name, span)
            case s.SizeOf(name, span):
                return self._size(name, span)
            case s.Access():
                return self._access(item)
            case s.Call():
                return self._call(item)
            case s.Chain():
                return self._chain(item)
            case s.Convert():
                return self._convert(item)
            case s.Reduction():
                return self._reduction(item)

    def _args(self, items: Sequence[s.Syntax]) -> tuple[Expr, ...] | None:
        """The nodes of `items`, or None if one of them had a fault."""
        found = [self.built(item) for item in items]
        known = tuple(expr for expr in found if expr is not None)
        return known if len(known) == len(found) else None

    def _name(self, name: str, span: Place) -> Expr | None:
        if self.scope.index(name):
            return Position(name)
        tensor = self.scope.tensor(name)
        if tensor is None:
            self.report(self.scope.missing(name, span, bare=True))
            return None
        if tensor.shape:
            self.report(_without_subscripts(tensor, span))
            return None
        return Read(tensor, ())

    def _size(self, name: str, span: Place) -> Expr | None:
        if self.scope.index(name):
            return Extent(name)
        self.report(fault("E214.unknown", span, index=name))
        return None

    def _access(self, item: s.Access) -> Expr | None:
        tensor = self.scope.tensor(item.name)
        if tensor is None:
            self.report(self.scope.missing(item.name, item.span, bare=False))
            return None
        if len(item.subscripts) != len(tensor.shape):
            self.report(_wrong_rank(tensor, item))
            return None
        args = self._args(item.subscripts)
        if args is None:
            return None
        for sub, arg in zip(item.subscripts, args, strict=True):
            if not value_type(arg).integral:
                self.report(_not_a_subscript(tensor, value_type(arg), sub.span))
                return None
        return Read(tensor, args)

    def _call(self, item: s.Call) -> Expr | None:
        args = self._args(item.args)
        if not self._arity(item) or args is None:
            return None
        match item.name:
            case "pos":
                return args[0]
            case "clamp":
                low = self._apply("max", args[:2], item.span)
                return low and self._apply("min", (low, args[2]), item.span)
            case "inside":
                return self._inside(args, item.span)
            case "select":
                return self._select(item, args)
            case _:
                return self._apply(item.name, args, item.span, item.args)

    def _arity(self, item: s.Call) -> bool:
        """Whether the function exists and takes so many arguments; reports if not."""
        if item.name in SUGAR | {"pos"}:
            least = most = {"clamp": 3, "inside": 2, "select": 3, "pos": 1}.get(item.name, 1)
        elif item.name in FUNCTIONS:
            least, most = FUNCTIONS[item.name].least, FUNCTIONS[item.name].most
        else:
            self.report(unknown_function(item.name, CALLABLE | SUGAR, "function", item.span))
            return False
        given = len(item.args)
        if least <= given and (most is None or given <= most):
            return True
        takes = f"{least} or more arguments" if most is None else f"{least} arguments"
        takes = "1 argument" if least == most == 1 else takes
        self.report(fault("E119.arity", item.span, name=item.name, takes=takes, count=given))
        return False

    def _inside(self, args: Sequence[Expr], span: Place) -> Expr | None:
        zero = Literal(weak.ZERO, INTEGER)
        low = self._apply("le", (zero, args[0]), span)
        high = self._apply("lt", (args[0], args[1]), span)
        return None if low is None or high is None else self._apply("and", (low, high), span)

    def _select(self, item: s.Call, args: Sequence[Expr]) -> Expr | None:
        condition, yes, no = args
        if not self._condition(condition, "select", item.args[0].span):
            return None
        a, b = value_type(yes), value_type(no)
        dtype = joined(a, b)
        if dtype is None:
            self.report(fault("E207.function", item.span, function="select", types=f"{a} and {b}"))
            return None
        for arm, place in zip((yes, no), item.args[1:], strict=True):
            if not self._fits(arm, dtype, place.span):
                return None
        return Select(condition, yes, no)

    def _chain(self, item: s.Chain) -> Expr | None:
        args = self._args(item.args)
        if args is None:
            return None
        found = [
            self._apply(name, args[at : at + 2], item.span, item.args[at : at + 2])
            for at, name in enumerate(item.operators)
        ]
        known = tuple(expr for expr in found if expr is not None)
        if len(known) < len(found):
            return None
        return known[0] if len(known) == 1 else Apply(FUNCTIONS["and"], known)

    def _apply(
        self, name: str, args: Sequence[Expr], span: Place, places: Sequence[s.Syntax] = ()
    ) -> Expr | None:
        types = [value_type(arg) for arg in args]
        if name in ON_BOOLS and all(dtype is BOOL for dtype in types):
            name = ON_BOOLS[name]
        function = FUNCTIONS[name]
        if function.typing is Typing.LOGIC:
            spans = [place.span for place in places] or [span] * len(args)
            if not all([self._condition(a, name, at) for a, at in zip(args, spans, strict=True)]):
                return None
        if result_type(function, types) is None:
            self.report(_no_type(function, types, span))
            return None
        if name == "pow" and types[0].integral and (weak.integer(args[1]) or 0) < 0:
            self.report(fault("E207.power", span, exponent=weak.integer(args[1])))
            return None
        expr = Apply(function, tuple(args))
        return expr if self._operands_fit(expr, span, places) else None

    def _operands_fit(self, expr: Apply, span: Place, places: Sequence[s.Syntax]) -> bool:
        spans = [place.span for place in places] or [span] * len(expr.args)
        if value_type(expr).weak or all(not value_type(arg).weak for arg in expr.args):
            return True
        wanted = operand_types(expr, settled(value_type(expr)))
        return all(
            [self._fits(a, t, at) for a, t, at in zip(expr.args, wanted, spans, strict=False)]
        )

    def _fits(self, expr: Expr, dtype: DType, span: Place) -> bool:
        """Whether a weak constant is representable where it meets `dtype`; reports if not."""
        wrong = literal_fault(expr, dtype, span)
        if wrong is not None:
            self.report(wrong)
        return wrong is None

    def _condition(self, expr: Expr, what: str, span: Place) -> bool:
        dtype = value_type(expr)
        if dtype is not BOOL:
            self.report(fault("E223", span, what=what, dtype=article(dtype)))
        return dtype is BOOL

    def _convert(self, item: s.Convert) -> Expr | None:
        arg = self.built(item.arg)
        if arg is None:
            return None
        if not item.bits:
            return Cast(item.dtype, arg)
        stored = storage_of(arg)
        if stored.bits != item.dtype.bits:
            self.report(fault("E207.bitcast", item.span, stored=stored, dtype=item.dtype))
            return None
        return Bitcast(item.dtype, arg)

    def _reduction(self, item: s.Reduction) -> Expr | None:
        reducer = REDUCERS.get(item.reducer)
        if reducer is None:
            self.report(unknown_function(item.reducer, REDUCERS, "reduction", item.span))
            return None
        body = self.built(item.body)
        where = self.built(item.where) if item.where is not None else None
        if body is None or (item.where is not None and where is None):
            return None
        if where is not None and item.where:
            if not self._condition(where, "where", item.where.span):
                return None
        if not self._reducible(item, body):
            return None
        names = tuple(binding.name for binding in item.bindings)
        expr = Reduce(reducer, names, body, where, item.dtype)
        return expr if self._reduces(item, body, where) else None

    def _reduces(self, item: s.Reduction, body: Expr, where: Expr | None) -> bool:
        """Whether each reduced index stands once in the list and occurs in body or `where`."""
        inside = free_indices(body) | (free_indices(where) if where else frozenset[str]())
        twice = s.repeated(item.bindings)
        for binding in twice:
            at = binding.span
            self.report(fault("E203.reduction", at, index=binding.name, reducer=item.reducer))
        absent = [binding for binding in item.bindings if binding.name not in inside]
        for binding in absent:
            self.report(fault("E219", binding.span, index=binding.name))
        return not twice and not absent

    def _reducible(self, item: s.Reduction, body: Expr) -> bool:
        reducer, dtype = REDUCERS[item.reducer], value_type(body)
        if reducer.name in ("any", "all"):
            return self._condition(body, reducer.name, item.body.span)
        if item.dtype is not None and not reducer.accumulates:
            self.report(fault("E207.accumulator", item.span, reducer=reducer))
            return False
        fits = item.dtype is None or accumulates(reducer, dtype, item.dtype)
        if reduced_type(reducer, dtype, item.dtype) is None or not fits:
            kind = article(dtype) if item.dtype is None else f"{article(dtype)} into {item.dtype}"
            self.report(fault("E207.function", item.span, function=reducer, types=kind))
            return False
        return True


def unknown_function(name: str, known: Iterable[str], kind: str, span: Place) -> Diagnostic:
    """E119 with the nearest name of that kind."""
    near = nearest(name, known)
    do = f"did you mean {near}?" if near else f"the {kind}s are {', '.join(sorted(known))}"
    return fault("E119", span, kind=kind, name=name, do=do)


def _without_subscripts(tensor: Tensor, span: Place) -> Diagnostic:
    rank, dims = len(tensor.shape), dimensions(tensor)
    return fault("E115.rank", span, name=tensor.name, rank=rank, dims=dims)


def _wrong_rank(tensor: Tensor, item: s.Access) -> Diagnostic:
    rank, count = len(tensor.shape), len(item.subscripts)
    dims = dimensions(tensor) or "a scalar"
    return fault("E204.rank", item.span, name=tensor.name, rank=rank, dims=dims, count=count)


def _not_a_subscript(tensor: Tensor, dtype: DType, span: Place) -> Diagnostic:
    do = "write select(..., 1, 0)" if dtype is BOOL else "write i64(...), which truncates"
    return fault("E207.subscript", span, name=tensor.name, dtype=article(dtype), do=do)


def _no_type(function: Function, types: Sequence[DType], span: Place) -> Diagnostic:
    sign = SYMBOLS.get(function.name)
    if sign is None or len(types) != 2:
        words = " and ".join(dict.fromkeys(map(article, types)))
        return fault("E207.function", span, function=sign or function.name, types=words)
    a, b = types
    power = function.name == "bitxor" and (a.floating or b.floating)
    do = "a power is written **" if power else ""
    return fault("E207", span, do=do, a=a, operator=sign, b=b)
