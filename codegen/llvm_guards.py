"""Guards of expressions: which ones matter, and what is evaluated whichever way a select goes.

A read that might leave its tensor is evaluated under a mask, so the same expression under two masks
is code twice, and again in every select around it. What both sides of a select evaluate on every
path is therefore evaluated before it, under the select's own mask, and found again under narrower
ones: code grows with the distinct parts of an expression, not with the ways through it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tensorc.ir.affine import is_whole
from tensorc.ir.node import Node, children, postorder
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import Apply, Expr, Read, Select, value_type


class Guards:
    """What is known of the expressions of one kernel; `shapes` are the extents of its indices."""

    def __init__(self, shapes: Mapping[str, Polynomial]) -> None:
        self.shapes = shapes
        self._matter: dict[Node, bool] = {}
        self._wider: dict[str, str] = {}

    def matter(self, expr: Expr) -> bool:
        """Whether the expression reads something that needs a guard."""
        if expr not in self._matter:
            for item in postorder([expr]):
                if isinstance(item, Expr) and item not in self._matter:
                    own = isinstance(item, Read) and not is_whole(item, self.shapes)
                    self._matter[item] = own or any(map(self._matter.get, children(item)))
        return self._matter[expr]

    def narrowed(self, mask: str, narrower: str) -> None:
        """Note that the mask `narrower` holds nowhere but where `mask` does ("": everywhere)."""
        if narrower != mask:
            self._wider.setdefault(narrower, mask)

    def wider(self, mask: str) -> Iterator[str]:
        """The mask, and those that it narrows: what is known under them is known under it."""
        yield mask
        while mask in self._wider:
            mask = self._wider[mask]
            yield mask

    def shared(self, yes: Expr, no: Expr) -> list[Expr]:
        """What both sides evaluate on every path and has reads that need a guard, parts first;
        weak values excepted, whose type their context tells."""
        if not (self.matter(yes) and self.matter(no)):
            return []
        other = self._surely(no)
        common = [item for item in self._surely(yes) if item in other]
        return [item for item in reversed(common) if not value_type(item).weak]

    def _surely(self, expr: Expr) -> dict[Expr, None]:
        """The expressions that matter among those evaluated whenever `expr` is."""
        found: dict[Expr, None] = {}
        waiting = [expr]
        while waiting:
            item = waiting.pop()
            if item in found or not self.matter(item):
                continue
            found[item] = None
            match item:
                case Select(condition, _, _):
                    waiting.append(condition)
                case Apply(function, args) if function.name in ("and", "or"):
                    waiting.append(args[0])
                case _:
                    waiting += [part for part in children(item) if isinstance(part, Expr)]
        return found
