"""What an expression reaches: reductions inside it, and the parts that lie outside of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tensorc.ir.node import Node, children, fact
from tensorc.ir.tensor import Expr, Reduce


def below(item: Node) -> list[Expr]:
    """The expressions directly below a node."""
    return [child for child in children(item) if isinstance(child, Expr)]


@fact
def reductions(expr: Expr) -> frozenset[Reduce]:
    """Every reduction in an expression, itself included."""
    own = (expr,) if isinstance(expr, Reduce) else ()
    return frozenset(own).union(*map(reductions, below(expr)))


def needed(roots: Iterable[Expr], known: Callable[[Expr], bool]) -> list[Reduce]:
    """Reductions inside `roots`, inner ones first; what is `known` is not entered."""
    return [item for item in _walk(roots, known) if isinstance(item, Reduce)]


def outside(expr: Expr) -> list[Expr]:
    """The parts of an expression that no reduction binds anything in, operands first."""
    found = _walk([expr], lambda item: isinstance(item, Reduce))
    return [item for item in found if not isinstance(item, Reduce)]


def _walk(roots: Iterable[Expr], stop: Callable[[Expr], bool]) -> Iterator[Expr]:
    """Every expression once, operands first; where it stops, nothing is given nor entered."""
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(root, False) for root in reversed(list(roots))]
    while stack:
        item, done = stack.pop()
        if done:
            yield item
        elif item not in seen and not stop(item):
            seen.add(item)
            stack.append((item, True))
            stack.extend((child, False) for child in reversed(below(item)))
