"""From traced trees to statements of bounded size: what is too deep or too large gets a name.

A loop in Python may nest an expression ten thousand deep, and using a value twice sixty times over
makes a tree of 2**60 terms. Both are small as graphs. Subtrees become equations of their own until
each statement is within `NESTED` and `TERMS`, far inside the limits of the text form (E104, E105),
so that the program prints and reads back. Which subtrees may is said in `lang.facts`. All is
iterative and linear in the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tensorc.ir.expression import MOST_NESTED, MOST_TERMS
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
from tensorc.lang import facts
from tensorc.lang.facts import CAP, FLAT, Facts, Zone, Zones
from tensorc.lang.parse import MOST_STATEMENTS
from tensorc.lang.spot import raised
from tensorc.lang.surface import Statement
from tensorc.lang.tensors import Definition, Reading, Sized

NESTED, TERMS = 100, 4_000  # of one statement, before parts of it are named
_SHARED = 64  # terms from which a part used twice is named, once a statement is over `TERMS`
_WORTH = 16  # terms; a smaller part is never named to save terms
_DO = "name a part of it: t = tc.let[i](...), then read t[i]"


@dataclass(frozen=True)
class _Cost:
    """Terms and nesting as written, with parts that have a name counted as reads."""

    terms: int
    nesting: int


class Statements:
    """The statements of one operator, in order; `add` appends one and the parts it needs first."""

    def __init__(self, fresh: Callable[[], str], named: Callable[[Definition], str]) -> None:
        """`fresh` gives an unused tensor name, `named` the final name of a definition."""
        self.done: list[Statement] = []
        self.sizes: dict[str, Syntax] = {}
        self._fresh, self._named = fresh, named
        self._facts: dict[int, Facts] = {}
        self._zones: Zones = {}
        self._cost: dict[int, _Cost] = {}
        self._lifted: set[int] = set()
        self._written: dict[tuple[int, bool], Syntax] = {}
        self._rank: dict[str, int] = {}

    def order(self, names: Iterable[str]) -> None:
        """Fix the order in which these indices stand in the dimensions of named parts."""
        for name in names:
            self._rank.setdefault(name, len(self._rank))

    def free(self, body: Syntax) -> frozenset[str]:
        """The free indices of a traced expression."""
        for item in facts.objects(body, facts.below, self._facts):
            self._zones[id(item)] = zones = facts.zones(item)
            parts = [self._facts[id(part)] for part, _ in zones]
            self._facts[id(item)] = facts.facts(item, parts)
            self._note(item)
        return self._facts[id(body)].free

    def add(self, statement: Statement, body: Syntax) -> None:
        """Append `statement` with the traced `body`, after the parts of it that need names.

        Raises NotationError (E103, E104, E105) where naming parts does not help.
        """
        self.free(body)
        known = self._facts[id(body)]
        if known.terms > TERMS or known.nesting > NESTED:
            self._price(body)
        self._append(replace(statement, body=self._final(body)))

    def _note(self, item: Syntax) -> None:
        """Remember the sizes that indices carry, and the order in which names appear."""
        if isinstance(item, Name):
            self.order([item.name])
        if isinstance(item, Sized):
            self.sizes.setdefault(item.name, item.size)
        if isinstance(item, Reduction):
            sized = {bound.name: bound.size for bound in item.bindings if bound.size is not None}
            self.sizes = {**sized, **self.sizes} if sized else self.sizes

    def _append(self, statement: Statement) -> None:
        self.done.append(statement)
        count = len(self.done)
        if count > MOST_STATEMENTS:
            fields = {"file": "this function", "unit": "statements", "option": ""}
            place, limit = statement.span, MOST_STATEMENTS
            raise raised("E103", place, do="split it", size=count, limit=limit, **fields)

    # Which parts need names.

    def _price(self, root: Syntax) -> None:
        """Cost everything that is evaluated below `root`; name parts while over the bounds."""
        order = facts.objects(root, self._unnamed, self._cost)
        always = facts.always(root, order, self._zones)
        uses = Counter(id(part) for item in order for part in self._unnamed(item))
        for item in order:
            for part, zone in self._zones[id(item)]:
                if zone is Zone.EXACT:
                    _limit(part, self._facts[id(part)].terms, self._facts[id(part)].nesting)
            self._cost[id(item)] = cost = self._within(item, always)
            _limit(item, cost.terms, cost.nesting)
            if cost.terms >= _SHARED and uses[id(item)] > 1 and self._may(item, always):
                self._name(item)

    def _unnamed(self, item: Syntax) -> list[Syntax]:
        zones = self._zones[id(item)]
        evaluated = [part for part, zone in zones if zone is not Zone.EXACT]
        return [part for part in evaluated if id(part) not in self._lifted]

    def _within(self, item: Syntax, always: set[int]) -> _Cost:
        """The cost of `item`, after naming the parts that put it over the bounds."""
        known = self._facts[id(item)]
        if (id(item), False) in self._written:  # by a statement that was within the bounds
            return _Cost(known.terms, known.nesting)
        cost = self._sum(item)
        if cost.terms <= TERMS and cost.nesting <= NESTED:
            return cost
        parts = {id(part): part for part in self._unnamed(item) if self._may(part, always)}
        costs = {part: self._cost[part] for part in parts}
        for part in sorted(parts, key=lambda part: costs[part].terms, reverse=True):
            if cost.terms > TERMS and costs[part].terms >= _WORTH:
                self._name(parts[part])
                cost = self._sum(item)
        for part in sorted(parts, key=lambda part: costs[part].nesting, reverse=True):
            if cost.nesting > NESTED <= costs[part].nesting and part not in self._lifted:
                self._name(parts[part])
                cost = self._sum(item)
        return cost

    def _sum(self, item: Syntax) -> _Cost:
        zones = self._zones[id(item)]
        known = [self._as_written(part, zone) for part, zone in zones]
        flat = bool(zones) and id(zones[0][0]) not in self._lifted
        return _Cost(
            facts.terms(item, [part.terms for part in known]),
            facts.nesting(item, [part.nesting for part in known], flat),
        )

    def _as_written(self, part: Syntax, zone: Zone) -> _Cost | Facts:
        if zone is Zone.EXACT:
            return self._facts[id(part)]
        return _Cost(1, 2) if id(part) in self._lifted else self._cost[id(part)]

    def _may(self, part: Syntax, always: set[int]) -> bool:
        """Whether `part` may become an equation of its own."""
        known = self._facts[id(part)]
        return not known.weak and (known.total or id(part) in always)

    def _name(self, part: Syntax) -> None:
        """Make `part` an equation, to be read wherever it is evaluated from here on."""
        place, name = part.span, self._fresh()
        left = sorted(self._facts[id(part)].free, key=self._rank.__getitem__)
        bindings = tuple(Binding(index, self.sizes.get(index), place) for index in left)
        self._append(Statement(name, None, bindings, self._final(part), place, place))
        self._lifted.add(id(part))
        self._written[id(part), False] = reading(name, bindings, place)

    # Final trees. The flag tells a subtree that stands as it is from one with named parts.

    def _final(self, root: Syntax) -> Syntax:
        """The tree with final names, reads of named parts, and sums and products flat."""
        stack: list[tuple[Syntax, bool, bool]] = [(root, False, False)]
        while stack:
            item, exact, ready = stack.pop()
            if (id(item), exact) in self._written:
                continue
            parts = self._kept(item, exact)
            if ready:
                new = tuple(self._written[id(part), mode] for part, mode in parts)
                self._written[id(item), exact] = self._rebuilt(item, new)
            else:
                stack.append((item, exact, True))
                stack.extend((part, mode, False) for part, mode in parts)
        return self._written[id(root), False]

    def _kept(self, item: Syntax, exact: bool) -> list[tuple[Syntax, bool]]:
        """What the final node has below it."""
        if not (isinstance(item, Call) and item.name in FLAT):
            return [(part, exact or zone is Zone.EXACT) for part, zone in self._zones[id(item)]]
        tail: list[Syntax] = []
        left: Syntax = item
        while isinstance(left, Call) and left.name == item.name:
            if left is not item and not exact and id(left) in self._lifted:
                break
            tail.extend(reversed(left.args[1:]))
            left = left.args[0]
        return [(part, exact) for part in (left, *reversed(tail))]

    def _rebuilt(self, item: Syntax, new: tuple[Syntax, ...]) -> Syntax:
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


def reading(name: str, left: tuple[Binding, ...], place: Place) -> Access:
    """The read of a tensor at its own indices."""
    return Access(name, tuple(Name(bound.name, place) for bound in left), place)


def _limit(item: Syntax, terms: int, nesting: int) -> None:
    if terms > MOST_TERMS:
        count = terms if terms < CAP else f"over {CAP}"
        raise raised("E105", item.span, do=_DO, count=count, limit=MOST_TERMS)
    if nesting > MOST_NESTED:
        raise raised("E104", item.span, do=_DO, depth=nesting, limit=MOST_NESTED)
