"""Surface expressions to level-1 nodes: names resolved, sugar expanded, every type checked.

The builder works bottom-up over the surface tree without recursion and remembers each object, so a
traced tree that shares subtrees takes time linear in its distinct parts. It never stops at a
fault: it reports, gives None for the part, and stays silent about what contains it. Extents and
ranges are not its business (`lang.extents`, `lang.accesses`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Protocol

from tensorc.ir import syntax as s
from tensorc.ir import weak
from tensorc.ir.dtypes import BOOL, I64, INTEGER, REAL, DType, Kind, integer_range, settled
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
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.source import Diagnostic, Place
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
            for known in (value_type, free_indices, weak.integer):
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
        self.report(
            Diagnostic(
                "E214",
                f"nothing fixes |{name}|: no dimension and no index has this name",
                span,
                do=f"name a dimension {name}, or write {name}=size where {name} is bound",
            )
        )
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
        takes = f"{least} or more" if most is None else str(least)
        message = f"{item.name} takes {takes} argument{'s' if takes != '1' else ''}, {given} given"
        self.report(Diagnostic("E119", message, item.span, found=str(given), allowed=takes))
        return False

    def _inside(self, args: Sequence[Expr], span: Place) -> Expr | None:
        zero = Literal(weak.ZERO, INTEGER)
        low = self._apply("le", (zero, args[0]), span)
        high = self._apply("lt", (args[0], args[1]), span)
        return None if low is None or high is None else self._apply("and", (low, high), span)

    def _select(self, item: s.Call, args: Sequence[Expr]) -> Expr | None:
        condition, yes, no = args
        if not self._condition(condition, item.args[0].span):
            return None
        a, b = value_type(yes), value_type(no)
        dtype = joined(a, b)
        if dtype is None:
            self.report(_no_type(f"select(…, {a}, {b})", item.span))
            return None
        for arm, place in zip((yes, no), item.args[1:], strict=True):
            if not self._fits(arm, dtype, place.span):
                return None
        return Select(condition, yes, no)

    def _chain(self, item: s.Chain) -> Expr | None:
        args = self._args(item.args)
        if args is None:
            return None
        pairs = zip(item.operators, args, args[1:], strict=False)
        found = [self._apply(name, (a, b), item.span, item.args) for name, a, b in pairs]
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
            if not all([self._condition(a, at) for a, at in zip(args, spans, strict=True)]):
                return None
        if result_type(function, types) is None:
            self.report(_no_type(_spelled(function, types), span))
            return None
        if name == "pow" and types[0].integral and (weak.integer(args[1]) or 0) < 0:
            self.report(_negative_power(types[0], span))
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
        fault = literal_fault(expr, dtype, span)
        if fault is not None:
            self.report(fault)
        return fault is None

    def _condition(self, expr: Expr, span: Place) -> bool:
        dtype = value_type(expr)
        if dtype is BOOL:
            return True
        self.report(
            Diagnostic(
                "E223",
                f"a condition is a bool, this is {_article(dtype)}",
                span,
                found=str(dtype),
                allowed="bool",
                do="write x != 0",
            )
        )
        return False

    def _convert(self, item: s.Convert) -> Expr | None:
        arg = self.built(item.arg)
        if arg is None:
            return None
        own = value_type(arg)
        if not item.bits:
            return Cast(item.dtype, arg)
        stored = arg.tensor.dtype if isinstance(arg, Read) else settled(own)
        stored = arg.dtype if isinstance(arg, Cast) else stored
        if stored.bits != item.dtype.bits:
            message = f"bitcast from {stored} ({stored.bits} bits) to {item.dtype}"
            width = f"{item.dtype.bits} bits"
            do = "cast to a type of that width first"
            self.report(Diagnostic("E207", message, item.span, str(stored), width, do))
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
        if where is not None and item.where and not self._condition(where, item.where.span):
            return None
        if not self._reducible(item, value_type(body)):
            return None
        names = tuple(binding.name for binding in item.bindings)
        expr = Reduce(reducer, names, body, where, item.dtype)
        return expr if self._reduces(item, body, where) else None

    def _reduces(self, item: s.Reduction, body: Expr, where: Expr | None) -> bool:
        """Whether each reduced index stands once in the list and occurs in body or `where`."""
        inside = free_indices(body) | (free_indices(where) if where else frozenset[str]())
        twice = s.repeated(item.bindings)
        for binding in twice:
            message = f"{binding.name} stands twice in {item.reducer}[…]"
            self.report(Diagnostic("E203", message, binding.span, do="name each index once"))
        absent = [binding for binding in item.bindings if binding.name not in inside]
        for binding in absent:
            message = f"{binding.name} is reduced and does not occur in the body"
            do = f"leave it out, or multiply by |{binding.name}| if that is meant"
            self.report(Diagnostic("E219", message, binding.span, do=do))
        return not twice and not absent

    def _reducible(self, item: s.Reduction, dtype: DType) -> bool:
        reducer = REDUCERS[item.reducer]
        if reducer.name in ("any", "all") and dtype is not BOOL:
            return self._condition_of(item, dtype)
        if item.dtype is not None and not reducer.accumulates:
            message = f"{reducer} takes no accumulator type"
            allowed = "sum, prod, mean, logsumexp, softmax"
            self.report(Diagnostic("E207", message, item.span, str(item.dtype), allowed))
            return False
        if reduced_type(reducer, dtype, item.dtype) is None or not _accumulates(item.dtype, dtype):
            of = f" in {item.dtype}" if item.dtype else ""
            self.report(_no_type(f"{reducer} of {dtype}{of}", item.span))
            return False
        return True

    def _condition_of(self, item: s.Reduction, dtype: DType) -> bool:
        self.report(
            Diagnostic(
                "E223",
                f"{item.reducer} takes bools, this is {_article(dtype)}",
                item.body.span,
                found=str(dtype),
                allowed="bool",
                do="write x != 0",
            )
        )
        return False


def _accumulates(declared: DType | None, body: DType) -> bool:
    """Whether a body of this type may be converted to the declared accumulator: as a store."""
    return declared is None or stores(settled(body), declared)


def stores(value: DType, storage: DType) -> bool:
    """Whether a value may be stored as `storage` without a cast: never to a narrower kind."""
    order = {Kind.BOOL: 0, Kind.INT: 1, Kind.UINT: 1, Kind.FLOAT: 2, Kind.COMPLEX: 3}
    return order[value.kind] <= order[storage.kind]


def literal_fault(expr: Expr, dtype: DType, span: Place) -> Diagnostic | None:
    """E224 or E107 if a weak constant is not representable in the type that it meets."""
    if value_type(expr) is INTEGER and dtype.integral:
        number = weak.integer(expr)
        low, high = integer_range(settled(dtype))
        if number is not None and not low <= number <= high:
            return Diagnostic(
                "E224",
                f"{weak.short(number)} does not fit {dtype}",
                span,
                found=weak.short(number),
                allowed=f"{low} to {high}",
                do=f"cast the other side, or write {'i64' if I64 is not dtype else 'f64'}(…)",
            )
    if dtype.floating or dtype.complex:
        return _overflow(expr, settled(dtype), span)
    return None


def _overflow(expr: Expr, dtype: DType, span: Place) -> Diagnostic | None:
    if not isinstance(expr, Literal) or expr.dtype not in (REAL, INTEGER):
        return None
    if isinstance(expr.value, str) or abs(expr.value) < weak.overflow(dtype):
        return None
    text = weak.number(expr.value)
    part = weak.part(dtype)
    message = f"{text} is not representable in {part} (it rounds to inf)"
    allowed = f"below {weak.number(weak.overflow(dtype))}"
    return Diagnostic("E107", message, span, text, allowed, "write inf if infinity is meant")


def unknown_function(name: str, known: Iterable[str], kind: str, span: Place) -> Diagnostic:
    """E119 with the nearest name of that kind."""
    near = nearest(name, known)
    do = f"did you mean {near}?" if near else f"the {kind}s are {', '.join(sorted(known))}"
    return Diagnostic("E119", f"unknown {kind} {name}", span, found=name, do=do)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is spelled most like `name`, if one is."""
    found = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


def _without_subscripts(tensor: Tensor, span: Place) -> Diagnostic:
    dims = ", ".join(_dimension(part) for part in tensor.shape)
    message = f"{tensor.name} has {len(tensor.shape)} dimensions ({dims}) and no subscripts here"
    return Diagnostic("E115", message, span, do=f"write {tensor.name}[…] with one subscript each")


def _wrong_rank(tensor: Tensor, item: s.Access) -> Diagnostic:
    rank, given = len(tensor.shape), len(item.subscripts)
    dims = ", ".join(_dimension(part) for part in tensor.shape) or "a scalar"
    plural = "" if rank == 1 else "s"
    message = f"{tensor.name} has {rank} dimension{plural} ({dims}), {given} subscripts given"
    return Diagnostic("E204", message, item.span, found=str(given), allowed=str(rank))


def _dimension(extent: Polynomial) -> str:
    """A dimension as declared: n for |n|, else its size."""
    text = str(extent)
    return text[1:-1] if text.count("|") == 2 and text[0] == text[-1] == "|" else text


def _not_a_subscript(tensor: Tensor, dtype: DType, span: Place) -> Diagnostic:
    message = f"a subscript of {tensor.name} is an integer, this is {_article(dtype)}"
    do = "write select(…, 1, 0)" if dtype is BOOL else "write i64(…), which truncates"
    return Diagnostic("E207", message, span, str(dtype), "an integer", do)


def _no_type(what: str, span: Place) -> Diagnostic:
    return Diagnostic("E207", f"{what} has no type", span, do="cast one side")


def _negative_power(dtype: DType, span: Place) -> Diagnostic:
    message = f"{_article(dtype)} to a negative power has no integer value"
    return Diagnostic("E207", message, span, do="write f32(…) ** …, or a base with a point")


def _spelled(function: Function, types: Sequence[DType]) -> str:
    sign = SYMBOLS.get(function.name)
    if sign is None:
        return f"{function.name}({', '.join(map(str, types))})"
    if len(types) == 1:
        return f"{sign}{types[0]}" if len(sign) == 1 else f"{sign} {types[0]}"
    return f" {sign} ".join(map(str, types))


def _article(dtype: DType) -> str:
    names = {"integer": "an integer", "index": "an index", "real": "a real number"}
    names |= {"imaginary": "a complex number"}
    vowel = dtype.name[0] in "aiu8" or dtype.name.startswith("f")
    return names.get(dtype.name, f"{'an' if vowel else 'a'} {dtype}")
