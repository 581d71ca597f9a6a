"""An order of an e-graph's nodes that depends on what they are, not on when they were made.

The engine numbers classes as it goes, so their numbers depend on what ran before it. Here each
class gets a label from its nodes and the labels of their arguments, again and again until no more
classes can be told apart; nodes, and the members of products and sums, are sorted by labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

Node = tuple[str, tuple[Any, ...], tuple[Any, ...]]  # operator, data, argument classes
Nodes = Mapping[Any, Sequence[Node]]

ROUNDS = 16  # of labels; deeper classes that still look alike keep the engine's order
_BAGS = ("Mul", "Add")


def in_order(nodes: Nodes, tops: Sequence[Any]) -> dict[Any, list[Node]]:
    """The nodes of all classes that the tops need, in the order of labels."""
    found = {item: nodes[item] for item in _reachable(nodes, tops)}
    label = _labels(found)

    def ordered(node: Node) -> Node:
        operator, data, args = node
        if operator in _BAGS:
            args = tuple(sorted(args, key=lambda arg: (label[arg], arg)))
        return operator, data, args

    def rank(node: Node) -> tuple[str, str, int, list[bytes], tuple[Any, ...]]:
        operator, data, args = node
        return operator, repr(data), len(args), [label[arg] for arg in args], args

    return {top: sorted(map(ordered, items), key=rank) for top, items in found.items()}


def _reachable(nodes: Nodes, tops: Sequence[Any]) -> list[Any]:
    seen: dict[Any, None] = {}
    waiting = list(reversed(tops))
    while waiting:
        item = waiting.pop()
        if item not in seen:
            seen[item] = None
            waiting.extend(arg for _, _, args in nodes[item] for arg in args)
    return list(seen)


def _labels(nodes: Nodes) -> dict[Any, bytes]:
    """A label for each class; equal ones look alike as far as `ROUNDS` levels down."""
    plain = {
        item: [(f"{operator} {data!r} ".encode(), operator in _BAGS, args)
               for operator, data, args in items]
        for item, items in nodes.items()
    }  # fmt: skip
    label, apart = dict.fromkeys(nodes, b""), 1
    for _ in range(ROUNDS):
        made: dict[Any, bytes] = {}
        for item, items in plain.items():
            texts: list[bytes] = []
            for text, bag, args in items:
                below = [label[arg] for arg in args]
                texts.append(text + b"".join(sorted(below) if bag else below))
            made[item] = blake2b(b"|".join(sorted(texts)), digest_size=8).digest()
        label, before, apart = made, apart, len(set(made.values()))
        if apart == before:
            break
    return label
