"""The ways to compute each class of an e-graph, priced: what extraction chooses from.

A sum over a product is one option, a contraction, priced with its best order of factors. Numerics
are a hard filter here: there is no option for an exponential whose argument is neither known to be
at most 0 nor that of an exponential of the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorc.passes.algebra import costs
from tensorc.passes.algebra.contraction_order import Names, points
from tensorc.passes.algebra.egraph import ENode, Graph
from tensorc.passes.algebra.exponentials import EXPONENTIALS


@dataclass(frozen=True)
class Option:
    """One way to compute a class: the classes that it needs, its own cost, and how it is built.

    `product`: the product inside a contraction, whose class it passes by."""

    node: ENode
    needs: tuple[int, ...]
    cost: int
    product: ENode | None = None


def priced(graph: Graph, sizes: Mapping[str, int], ordered: bool = True) -> dict[int, list[Option]]:
    """The options of each class, without those that numerics forbid, cheapest first. `ordered`:
    the factors of a sum are contracted in their best order, not all at every point."""
    pricer = _Pricer(graph, sizes, ordered)
    return {number: pricer.options(number) for number in graph.classes}


class _Pricer:
    def __init__(self, graph: Graph, sizes: Mapping[str, int], ordered: bool) -> None:
        self.graph, self.sizes, self.ordered = graph, sizes, ordered

    def options(self, number: int) -> list[Option]:
        """Every allowed way to compute a class; none needs the class itself."""
        found: list[Option] = []
        for item in self.graph.classes[number]:
            found += self.forms(number, item)
        unique: dict[tuple[object, ...], Option] = {}
        for option in sorted(found, key=lambda o: (o.cost, repr(o.node), repr(o.product))):
            if number not in option.needs:
                unique.setdefault((option.needs, option.node.operator), option)
        return list(unique.values())

    def forms(self, number: int, item: ENode) -> list[Option]:
        if item.operator == "F1" and item.data[0] in EXPONENTIALS:
            return self.exponential(number, item)
        found = [Option(item, distinct(item.args), self.own(number, item))]
        if item.operator == "Sum":
            found += self.contractions(number, item)
        return found

    def exponential(self, number: int, item: ENode) -> list[Option]:
        (arg,) = item.args
        safe = arg in self.graph.nonpos
        if not safe and arg not in self.graph.sanctioned:
            return []
        extra = 0 if safe else costs.UNSTABLE * points(self.free(number), self.sizes)
        return [Option(item, item.args, self.own(number, item) + extra)]

    def contractions(self, number: int, item: ENode) -> list[Option]:
        """A sum over each product in its body's class."""
        (indices,), (where, body) = item.data, item.args
        assert isinstance(indices, tuple)
        found: list[Option] = []
        for product in self.graph.classes[body]:
            few = 2 <= len(product.args) < 3
            if product.operator != "Mul" or not (few or self.ordered and len(product.args) > 2):
                continue
            factors = [self.free(arg) for arg in product.args if self.free(arg)]
            cost = costs.contraction(
                factors, self.free(number), frozenset(indices), self.free(where), self.sizes
            )
            cost += self.masked(where, frozenset(indices).union(*factors))
            found.append(Option(item, distinct((where, *product.args)), cost, product))
        return found

    def has(self, number: int, operator: str) -> bool:
        """Whether a class has such a node."""
        return any(node.operator == operator for node in self.graph.classes[number])

    def plain(self, number: int) -> bool:
        """Whether a class has a leaf that reads no data."""
        return any(
            node.operator == "Leaf" and "[" not in str(node.data[0])
            for node in self.graph.classes[number]
        )

    def masked(self, where: int, inside: Names) -> int:
        """What a condition adds to a reduction: nothing if it compares positions alone, as whole
        tiles then hold or do not."""
        return (
            0
            if self.has(where, "Yes") or self.plain(where)
            else costs.MASKED * points(inside | self.free(where), self.sizes)
        )

    def own(self, number: int, item: ENode) -> int:
        """What the node itself costs, its arguments given."""
        names = self.free(number)
        match item.operator:
            case "Leaf" if number in self.graph.copied:
                return costs.copied(names, self.sizes)
            case "Leaf" | "Yes":
                return 0
            case "Gat" if self.plain(item.args[0]) and number not in self.graph.roots:
                return 1 if self.has(item.args[1], "Rnd") else 2  # better rounded in the store
            case "Mul":
                return costs.elementwise(names, self.product(item), self.sizes)
            case "Add":
                return costs.elementwise(names, len(item.args) - 1, self.sizes)
            case "Sum" | "Max" | "Min" | "Some":
                (indices,) = item.data
                assert isinstance(indices, tuple)
                inside = names.union(*(self.free(arg) for arg in item.args)) | set(indices)
                mask = self.masked(item.args[0], inside) if item.operator != "Some" else 0
                return points(inside, self.sizes) + mask + costs.reduced(names, self.sizes)
            case "F1" | "F2":
                each = costs.FUNCTION.get(str(item.data[0]), costs.OTHER)
                if item.args[0] in self.graph.constants:
                    return 0
                return costs.elementwise(names, each, self.sizes)
            case _:
                return costs.elementwise(names, 1, self.sizes)

    def product(self, item: ENode) -> int:
        """Multiplications per point: all constants are one number."""
        data = [arg for arg in item.args if arg not in self.graph.constants]
        number = item.data[0] not in (1, -1) or len(data) < len(item.args)
        return max(0, len(data) - 1) + int(number and bool(data))

    def free(self, number: int) -> frozenset[str]:
        return self.graph.free.get(number, frozenset())


def distinct(items: tuple[int, ...]) -> tuple[int, ...]:
    """Each item once, in order."""
    return tuple(dict.fromkeys(items))
