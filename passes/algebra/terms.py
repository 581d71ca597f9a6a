"""Terms of the algebra: what equality saturation rewrites, between level 1 and the e-graph.

A term is a map from the positions of its free indices to a real number (conditions: to a truth).
Products and sums have any number of arguments, in one order; a product carries its exact rational
coefficient. Everything that no rule looks into is a `Leaf`, a name for a level-1 expression.
Nothing here knows types, machines or costs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from fractions import Fraction

from tensorc.ir.node import Node, fact, node, postorder


@node
class Leaf(Node):
    """An expression that no rule looks into, by name; `|i|` is the extent of index i."""

    name: str


@node
class Yes(Node):
    """The condition that always holds."""


@node
class Mul(Node):
    """factor * the product of `args`, in the order of `key`."""

    factor: Fraction
    args: tuple[Term, ...]


@node
class Add(Node):
    """The sum of `args`, in the order of `key`."""

    args: tuple[Term, ...]


@node
class Fold(Node):
    """The sum, maximum or minimum ("Sum", "Max", "Min") of `body` over `indices` where `where`."""

    kind: str
    indices: tuple[str, ...]
    where: Term
    body: Term


@node
class Some(Node):
    """Whether `where` holds at any point of `indices`."""

    indices: tuple[str, ...]
    where: Term


@node
class Call(Node):
    """A scalar function of one or two arguments."""

    name: str
    args: tuple[Term, ...]


@node
class Choice(Node):
    """`yes` where `condition` holds, else `no`."""

    condition: Term
    yes: Term
    no: Term


@node
class Rounded(Node):
    """A movable rounding to the storage type of that name."""

    dtype: str
    arg: Term


@node
class Gather(Node):
    """`arg` at position `at` of `index`."""

    index: str
    at: Term
    arg: Term


Term = Leaf | Yes | Mul | Add | Fold | Some | Call | Choice | Rounded | Gather

ONE = Fraction(1)
YES = Yes()


_LONG = 96  # characters from which a key is cut and ends in a digest


@fact
def key(term: Term) -> str:
    """A short text that orders arguments; equal only for equal terms."""
    text = _text(term)
    if len(text) < _LONG:
        return text
    return f"{text[:32]}#{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"


def _text(term: Term) -> str:
    match term:
        case Leaf(name):
            return name
        case Yes():
            return "true"
        case Mul(factor, args):
            return f"({factor}*{'*'.join(map(key, args))})"
        case Add(args):
            return f"({'+'.join(map(key, args))})"
        case Fold(kind, indices, where, body):
            return f"{kind}[{','.join(indices)}]({key(body)}|{key(where)})"
        case Some(indices, where):
            return f"any[{','.join(indices)}]({key(where)})"
        case Call(name, args):
            return f"{name}({','.join(map(key, args))})"
        case Choice(condition, yes, no):
            return f"select({key(condition)},{key(yes)},{key(no)})"
        case Rounded(dtype, arg):
            return f"{dtype}({key(arg)})"
        case Gather(index, at, arg):
            return f"at[{index}={key(at)}]({key(arg)})"


def mul(args: Iterable[Term], factor: Fraction = ONE) -> Term:
    """The product in order, its numbers in the factor; one bare argument is itself."""
    args = list(args)
    for arg in args:
        factor *= arg.factor if isinstance(arg, Mul) and not arg.args else 1
    args = [arg for arg in args if not isinstance(arg, Mul) or arg.args]
    ordered = tuple(sorted(args, key=key))
    return ordered[0] if len(ordered) == 1 and factor == 1 else Mul(factor, ordered)


def add(args: Iterable[Term]) -> Term:
    """The sum in order; one argument is itself."""
    ordered = tuple(sorted(args, key=key))
    return ordered[0] if len(ordered) == 1 else Add(ordered)


def fold(kind: str, indices: Iterable[str], body: Term, where: Term = YES) -> Fold:
    """A reduction with its indices in order."""
    return Fold(kind, tuple(sorted(indices)), where, body)


def call(name: str, *args: Term) -> Call:
    """A scalar function."""
    return Call(name, args)


def neg(term: Term) -> Term:
    """-term."""
    return Mul(Fraction(-1), (term,))


def leaves(terms: Iterable[Term]) -> list[str]:
    """The names of all leaves, each once, in order of appearance."""
    return list(dict.fromkeys(item.name for item in postorder(terms) if isinstance(item, Leaf)))


def size(terms: Iterable[Term]) -> int:
    """How many different nodes the terms have together."""
    return sum(1 for _ in postorder(terms))


def free(term: Term, of_leaf: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The free indices of a term, given those of its leaves."""
    known: dict[Node, frozenset[str]] = {}
    for item in postorder([term]):
        known[item] = _free(item, of_leaf, known)
    return known[term]


def _free(
    item: Node, of_leaf: Mapping[str, frozenset[str]], known: Mapping[Node, frozenset[str]]
) -> frozenset[str]:
    match item:
        case Leaf(name):
            return of_leaf[name]
        case Mul(_, args) | Add(args) | Call(_, args):
            return frozenset[str]().union(*(known[arg] for arg in args))
        case Fold(_, indices, where, body):
            return (known[where] | known[body]) - set(indices)
        case Some(indices, where):
            return known[where] - set(indices)
        case Choice(condition, yes, no):
            return known[condition] | known[yes] | known[no]
        case Rounded(_, arg):
            return known[arg]
        case Gather(index, at, arg):
            return known[at] | (known[arg] - {index})
        case _:
            return frozenset()
