"""Terms, facts, e-graphs and what was extracted from them as JSON and back: what saturation in
another process is asked and what it answers.

Terms are a table of nodes, each after its arguments, so depth costs nothing. Reading accepts what
writing makes; anything else is a ValueError, a KeyError or a TypeError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, cast

from tensorc.ir.node import Node, fields_of, postorder
from tensorc.ir.strict_json import Json
from tensorc.passes.algebra import terms as made
from tensorc.passes.algebra.egraph import ENode, Graph
from tensorc.passes.algebra.extract import Extracted
from tensorc.passes.algebra.facts import Facts
from tensorc.passes.algebra.terms import Term

_CLASSES: Mapping[str, Callable[..., Node]] = {
    one.__name__: one
    for one in (
        made.Leaf,
        made.Yes,
        made.Mul,
        made.Add,
        made.Fold,
        made.Some,
        made.Call,
        made.Choice,
        made.Rounded,
        made.Gather,
    )
}


def terms_to_json(terms: Sequence[Term]) -> Json:
    """Nodes as [class, fields...], and the places of `terms` among them. A field that is a node is
    its place, one that is a number is its text in a list."""
    place: dict[Node, int] = {}
    nodes: list[Json] = []
    for item in postorder(terms):
        nodes.append([type(item).__name__, *(_field(value, place) for value in fields_of(item))])
        place[item] = len(place)
    return {"nodes": nodes, "terms": [place[term] for term in terms]}


def _field(value: object, place: Mapping[Node, int]) -> Json:
    match value:
        case Node():
            return place[value]
        case Fraction():
            return [str(value)]
        case tuple():
            return {"all": [_field(part, place) for part in cast("tuple[object, ...]", value)]}
        case str():
            return value
        case _:
            raise TypeError(f"{value!r} stands in no term")


def terms_from_json(found: Any) -> tuple[Term, ...]:
    """The inverse; equal terms are one node."""
    nodes: list[Node] = []
    for kind, *fields in found["nodes"]:
        nodes.append(_CLASSES[kind](*(_read_field(value, nodes) for value in fields)))
    return tuple(cast(Term, nodes[place]) for place in found["terms"])


def _read_field(value: Any, nodes: Sequence[Node]) -> object:
    match value:
        case int():
            return nodes[value]
        case [str(number)]:
            return Fraction(number)
        case {"all": parts}:
            return tuple(_read_field(part, nodes) for part in parts)
        case str():
            return value
        case _:
            raise ValueError(f"{value!r} is no field of a term")


def facts_to_json(facts: Facts) -> Json:
    """What is known of leaves."""
    return {
        "free": {name: sorted(indices) for name, indices in facts.free.items()},
        "constants": sorted(facts.constants),
        "permutations": [list(pair) for pair in sorted(facts.permutations)],
        "sanctioned": terms_to_json(facts.sanctioned),
        "parts": [name for name, _ in facts.parts],
        "wholes": terms_to_json([whole for _, whole in facts.parts]),
        "copied": sorted(facts.copied),
    }


def facts_from_json(found: Any) -> Facts:
    """The inverse."""
    return Facts(
        {name: frozenset(indices) for name, indices in found["free"].items()},
        frozenset(found["constants"]),
        frozenset((name, index) for name, index in found["permutations"]),
        terms_from_json(found["sanctioned"]),
        tuple(zip(found["parts"], terms_from_json(found["wholes"]), strict=True)),
        frozenset(found["copied"]),
    )


def graph_to_json(graph: Graph) -> Json:
    """Classes in their order, and what is known of them."""
    return {
        "classes": [[n, [_enode(item) for item in items]] for n, items in graph.classes.items()],
        "roots": list(graph.roots),
        "free": [[number, sorted(indices)] for number, indices in sorted(graph.free.items())],
        "nonpos": sorted(graph.nonpos),
        "constants": sorted(graph.constants),
        "sanctioned": sorted(graph.sanctioned),
        "copied": sorted(graph.copied),
        "fired": [[rule, count] for rule, count in graph.fired.items()],
        "rows": graph.rows,
        "note": graph.note,
        "source": graph_to_json(graph.source) if graph.source is not None else None,
    }


def graph_from_json(found: Any) -> Graph:
    """The inverse."""
    return Graph(
        {number: tuple(map(_read_enode, items)) for number, items in found["classes"]},
        tuple(found["roots"]),
        {number: frozenset(indices) for number, indices in found["free"]},
        frozenset(found["nonpos"]),
        frozenset(found["constants"]),
        frozenset(found["sanctioned"]),
        frozenset(found["copied"]),
        dict(found["fired"]),
        found["rows"],
        found["note"],
        graph_from_json(found["source"]) if found["source"] is not None else None,
    )


def _enode(item: ENode) -> Json:
    return [item.operator, [_datum(value) for value in item.data], list(item.args)]


def _datum(value: Fraction | str | tuple[str, ...]) -> Json:
    match value:
        case Fraction():
            return {"number": str(value)}
        case str():
            return value
        case names:
            return list(names)


def _read_enode(found: Any) -> ENode:
    operator, data, args = found
    return ENode(operator, tuple(_read_data(data)), tuple(args))


def _read_data(data: Iterable[Any]) -> Iterable[Fraction | str | tuple[str, ...]]:
    for value in data:
        match value:
            case {"number": text}:
                yield Fraction(text)
            case str():
                yield value
            case names:
                yield tuple(names)


def extracted_to_json(found: Extracted) -> Json:
    """The chosen terms and what was counted on the way."""
    return {
        "terms": terms_to_json(found.terms),
        "numbers": [found.cost, found.optimal, found.greedy, found.source, found.contracted],
    }


def extracted_from_json(found: Any) -> Extracted:
    """The inverse."""
    return Extracted(terms_from_json(found["terms"]), *found["numbers"])
