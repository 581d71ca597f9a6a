"""From traced trees to statements of bounded size: what is too deep or too large gets a name.

A loop in Python may nest an expression ten thousand deep, and using a value twice sixty times over
makes a tree of 2**60 terms. Both are small as graphs. Subtrees become equations of their own until
each statement is within `DEEP` and `LARGE`, far inside the limits of the text form (E104, E105).

A subtree is named only where that changes nothing: not in subscripts and conditions, which the
range prover reads; not a weak value, which takes its type from its context; and not under a guard
(`where`, `select`, the right of `and` and `or`), unless all its reads are by bare indices. All
walks are iterative, over distinct objects, in linear time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from tensorc.ir.expression import MOST_NESTED, MOST_TERMS
from tensorc.ir.functions import REDUCERS
from tensorc.ir.source import Place
from tensorc.ir.syntax import (
    Access,
    Binding,
    Call,
    Chain,
    Constant,
    Convert,
    Name,
    Reduction,
    SizeOf,
    Syntax,
)
from tensorc.lang.parse import MOST_STATEMENTS
from tensorc.lang.spot import raised
from tensorc.lang.surface import Statement
from tensorc.lang.value import Definition, Reading, Sized

DEEP, LARGE = 100, 4_000  # nesting and terms of one statement before parts of it are named
_WORTH = 16  # terms; a smaller part is never named to save size
_FLAT = frozenset(["add", "mul", "and", "or"])
_STRONG = frozenset(
    ["lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "xor", "inside", "isnan", "isinf"]
    + ["popcount", "exponent"]
)
_OWN_TYPE = frozenset(["shl", "shr", "ldexp"])  # the type of the first operand
_CAP = 1 << 40

T = TypeVar("T")


@dataclass(frozen=True)
class _Facts:
    """What holds of an object wherever it stands."""

    free: frozenset[str]
    weak: bool
    total: bool  # every read is by bare indices: in range at every point
    size: int  # terms of the expanded tree
    deep: int


@dataclass(frozen=True)
class _Cost:
    """Size and nesting of an object as it will be written, with named parts counted as reads."""

    size: int
    deep: int


class Statements:
    """The statements of one operator, in order; `add` appends one and the parts it needs first."""

    def __init__(self, fresh: Callable[[], str], named: Callable[[Definition], str]) -> None:
        """`fresh` gives an unused tensor name, `named` the final name of a definition."""
        self.done: list[Statement] = []
        self.sizes: dict[str, Syntax] = {}
        self._fresh, self._named = fresh, named
        self._facts: dict[int, _Facts] = {}
        self._cost: dict[int, _Cost] = {}
        self._lifted: dict[int, Access] = {}
        self._written: dict[tuple[int, bool], Syntax] = {}
        self._rank: dict[str, int] = {}

    def free(self, body: Syntax) -> frozenset[str]:
        """The free indices of a traced expression."""
        for item in _order(body, _parts, self._facts):
            self._facts[id(item)] = self._known(item)
        return self._facts[id(body)].free

    def add(self, name: str, stored: Statement, body: Syntax) -> None:
        """Append `stored` under `name` with `body`, after the parts of it that need names.

        Raises NotationError (E103, E104, E105) where naming parts is not possible.
        """
        self.free(body)
        self._price(body)
        self._append(replace(stored, name=name, body=self._convert(body)))

    def order(self, names: Iterable[str]) -> None:
        """Fix the order in which these indices stand in the dimensions of named parts."""
        for name in names:
            self._rank.setdefault(name, len(self._rank))

    def _append(self, statement: Statement) -> None:
        if len(self.done) == MOST_STATEMENTS:
            fields = {"file": "this function", "unit": "statements", "option": ""}
            size = len(self.done) + 1
            raise raised(
                "E103", statement.span, do="split it", size=size, limit=MOST_STATEMENTS, **fields
            )
        self.done.append(statement)

    def _known(self, item: Syntax) -> _Facts:
        below = [self._facts[id(part)] for part in _parts(item)]
        size = _terms(item, [part.size for part in below])
        deep = _nesting(item, [part.deep for part in below])
        return _Facts(self._free(item, below), _weak(item, below), _total(item, below), size, deep)

    def _free(self, item: Syntax, below: list[_Facts]) -> frozenset[str]:
        match item:
            case Name(name, _):
                self.order([name])
                if isinstance(item, Sized):
                    self.sizes.setdefault(name, item.size)
                return frozenset([name])
            case Reduction(reducer, bindings, _, _, _):
                for bound in bindings:
                    if bound.size is not None:
                        self.sizes.setdefault(bound.name, bound.size)
                inside = _union(below)
                kept = reducer in REDUCERS and REDUCERS[reducer].keeps
                return inside if kept else inside - {bound.name for bound in bindings}
            case _:
                return _union(below)

    def _price(self, root: Syntax) -> None:
        """Cost everything that is evaluated below `root`; name parts while over the bounds."""
        order = _order(root, lambda item: self._values(item), self._cost)
        free = _unguarded(root, order)
        for item in order:
            for part in _exact(item):
                self._limit(part, self._facts[id(part)].size, self._facts[id(part)].deep)
            cost = self._within(item, free)
            self._limit(item, cost.size, cost.deep)
            self._cost[id(item)] = cost

    def _values(self, item: Syntax) -> tuple[Syntax, ...]:
        """The parts evaluated as values that are not named yet."""
        return tuple(part for part, _ in _evaluated(item) if id(part) not in self._lifted)

    def _within(self, item: Syntax, free: set[int]) -> _Cost:
        """The cost of `item` after naming the parts that put it over the bounds."""
        parts = sorted(
            (part for part in self._values(item) if self._liftable(part, free)),
            key=lambda part: self._cost[id(part)].size,
        )
        cost = self._sum(item)
        while parts and cost.size > LARGE and self._cost[id(parts[-1])].size >= _WORTH:
            self._name(parts.pop())
            cost = self._sum(item)
        parts.sort(key=lambda part: self._cost[id(part)].deep)
        while parts and cost.deep > DEEP and self._cost[id(parts[-1])].deep > 1:
            self._name(parts.pop())
            cost = self._sum(item)
        return cost

    def _sum(self, item: Syntax) -> _Cost:
        exact = [self._facts[id(part)] for part in _exact(item)]
        values = [self._part(part) for part, _ in _evaluated(item)]
        size = _terms(item, [part.size for part in (*exact, *values)])
        nesting = [part.deep for part in values] + [part.deep for part in exact]
        flat = bool(values) and id(_evaluated(item)[0][0]) not in self._lifted
        return _Cost(size, _nesting(item, nesting, flat))

    def _part(self, part: Syntax) -> _Cost:
        name = self._lifted.get(id(part))
        return self._cost[id(part)] if name is None else _Cost(1, 2)

    def _liftable(self, part: Syntax, free: set[int]) -> bool:
        facts = self._facts[id(part)]
        return not facts.weak and (facts.total or id(part) in free)

    def _name(self, part: Syntax) -> None:
        """Make `part` an equation of its own, to be read wherever it is evaluated."""
        left = sorted(self._facts[id(part)].free, key=self._rank.__getitem__)
        name, place = self._fresh(), part.span
        bindings = tuple(Binding(item, self.sizes.get(item), place) for item in left)
        body = self._convert(part)
        self._append(Statement(name, None, bindings, body, place, place))
        reads = tuple(Name(item, place) for item in left)
        self._lifted[id(part)] = Access(name, reads, place)

    def _limit(self, item: Syntax, size: int, deep: int) -> None:
        do = "name a part of it: t = tc.let[i](...), then read t[i]"
        if size > MOST_TERMS:
            count = size if size < _CAP else f"over {_CAP}"
            raise raised("E105", item.span, do=do, count=count, limit=MOST_TERMS)
        if deep > MOST_NESTED:
            raise raised("E104", item.span, do=do, depth=deep, limit=MOST_NESTED)

    def _convert(self, root: Syntax) -> Syntax:
        """The final tree: names in place, parts that have names read, sums and products flat."""
        stack: list[tuple[Syntax, bool, bool]] = [(root, False, False)]
        while stack:
            item, exact, ready = stack.pop()
            if (id(item), exact) in self._written:
                continue
            if not exact and id(item) in self._lifted:
                self._written[id(item), exact] = self._lifted[id(item)]
                continue
            parts = self._kept(item, exact)
            if ready:
                self._written[id(item), exact] = self._rebuilt(item, parts)
                continue
            stack.append((item, exact, True))
            stack.extend((part, mode, False) for part, mode in parts)
        return self._written[id(root), False]

    def _kept(self, item: Syntax, exact: bool) -> list[tuple[Syntax, bool]]:
        """The parts that the final node has below it, and whether each must stand as it is."""
        if not (isinstance(item, Call) and item.name in _FLAT):
            read = {id(part) for part in _exact(item)}
            return [(part, exact or id(part) in read) for part in _parts(item)]
        spine: list[Syntax] = []
        left: Syntax = item
        while isinstance(left, Call) and left.name == item.name and not self._read(left, exact):
            spine.extend(reversed(left.args[1:]))
            left = left.args[0]
        return [(part, exact) for part in (left, *reversed(spine))]

    def _read(self, item: Syntax, exact: bool) -> bool:
        return not exact and id(item) in self._lifted

    def _rebuilt(self, item: Syntax, parts: list[tuple[Syntax, bool]]) -> Syntax:
        new = tuple(self._written[id(part), exact] for part, exact in parts)
        match item:
            case Reading(name, _, span, definition):
                return Access(name if definition is None else self._named(definition), new, span)
            case Access(name, _, span):
                return Access(name, new, span)
            case Sized(name, span):
                return Name(name, span)
            case Constant() | Name() | SizeOf():
                return item
            case Call(name, _, span):
                return Call(name, new, span)
            case Chain(operators, _, span):
                return Chain(operators, new, span)
            case Convert(dtype, _, bits, span):
                return Convert(dtype, new[0], bits, span)
            case Reduction(reducer, bindings, dtype, _, where, span):
                only = new[1] if where is not None else None
                return Reduction(reducer, bindings, dtype, new[0], only, span)


def _order(
    root: Syntax, below: Callable[[Syntax], tuple[Syntax, ...]], known: dict[int, T]
) -> list[Syntax]:
    """Every object below and with `root` that is not known yet, parts first."""
    seen: set[int] = set()
    order: list[Syntax] = []
    stack: list[tuple[Syntax, bool]] = [(root, False)]
    while stack:
        item, ready = stack.pop()
        if ready:
            order.append(item)
        elif id(item) not in seen and id(item) not in known:
            seen.add(id(item))
            stack.append((item, True))
            stack.extend((part, False) for part in reversed(below(item)))
    return order


def _unguarded(root: Syntax, order: list[Syntax]) -> set[int]:
    """The objects of a post-order that are evaluated at every point of their indices."""
    free = {id(root)}
    for item in reversed(order):
        if id(item) in free:
            free.update(id(part) for part, guarded in _evaluated(item) if not guarded)
    return free


def _parts(item: Syntax) -> tuple[Syntax, ...]:
    """The expressions below an object; sizes of bound indices stay as they are."""
    match item:
        case Constant() | Name() | SizeOf():
            return ()
        case Access(_, args, _) | Call(_, args, _) | Chain(_, args, _):
            return args
        case Convert(_, arg, _, _):
            return (arg,)
        case Reduction(_, _, _, body, where, _):
            return (body,) if where is None else (body, where)


def _exact(item: Syntax) -> tuple[Syntax, ...]:
    """The parts that the range prover reads: subscripts and conditions."""
    match item:
        case Access(_, args, _):
            return args
        case Call("select", args, _):
            return args[:1]
        case Reduction(_, _, _, _, where, _) if where is not None:
            return (where,)
        case _:
            return ()


def _evaluated(item: Syntax) -> list[tuple[Syntax, bool]]:
    """The other parts, and whether a condition decides if they are evaluated."""
    match item:
        case Call("select", args, _):
            return [(arg, True) for arg in args[1:]]
        case Call("and" | "or", args, _):
            return [(arg, place > 0) for place, arg in enumerate(args)]
        case Call(_, args, _) | Chain(_, args, _):
            return [(arg, False) for arg in args]
        case Convert(_, arg, _, _):
            return [(arg, False)]
        case Reduction(_, _, _, body, where, _):
            return [(body, where is not None)]
        case _:
            return []


def _terms(item: Syntax, below: list[int]) -> int:
    """Terms of the expanded tree over parts of these: leaves and reads, up to `_CAP`."""
    if isinstance(item, Access):
        return min(_CAP, 1 + sum(below) - len(below))
    return min(_CAP, max(1, sum(below)))


def _nesting(item: Syntax, below: list[int], flat: bool = True) -> int:
    """The nesting of an object over parts of these; a sum of sums on its left is one sum."""
    if not below:
        return 1
    match item:
        case Call(name, (Call(first, _, _), *_), _) if flat and name == first and name in _FLAT:
            return max([below[0], *(1 + part for part in below[1:])])
        case _:
            return 1 + max(below)


def _weak(item: Syntax, below: list[_Facts]) -> bool:
    """Whether the type depends on what the value meets: numbers, positions, extents alone."""
    match item:
        case Constant() | Name() | SizeOf():
            return True
        case Access() | Chain() | Convert() | Reduction():
            return False
        case Call(name, _, _) if name in _STRONG:
            return False
        case Call(name, _, _):
            first = 1 if name == "select" else 0
            last = first + 1 if name in _OWN_TYPE else None
            return all(part.weak for part in below[first:last])


def _total(item: Syntax, below: list[_Facts]) -> bool:
    if isinstance(item, Access) and not all(isinstance(part, Name) for part in item.subscripts):
        return False
    return all(part.total for part in below)


def _union(parts: list[_Facts]) -> frozenset[str]:
    """The union of free indices; a set that holds all others is shared, not copied."""
    largest: frozenset[str] = max((part.free for part in parts), key=len, default=frozenset())
    if all(part.free <= largest for part in parts):
        return largest
    return largest.union(*(part.free for part in parts))


def places(root: Syntax) -> list[Place]:
    """Every position in a tree."""
    return [item.span for item in _order(root, _parts, {})]
