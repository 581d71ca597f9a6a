"""Terms and e-nodes on exact values: one meaning for both, over `passes.fields`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tensorc.ir.node import Node, children, postorder
from tensorc.passes.algebra import fields
from tensorc.passes.algebra.egraph import ENode, Graph
from tensorc.passes.algebra.facts import Facts
from tensorc.passes.algebra.fields import NO, PRIMES, Value
from tensorc.passes.algebra.terms import (
    Add,
    Call,
    Choice,
    Fold,
    Gather,
    Leaf,
    Mul,
    Rounded,
    Some,
    Term,
    Yes,
    leaves,
)

_COMPARE: dict[str, np.ufunc] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
Datum = Fraction | str | tuple[str, ...]  # what an operator has beside its arguments
LOG2E_VALUE = 1.4426950408889634


@dataclass(frozen=True)
class Sample:
    """Random values of leaves, and the sizes of indices. `logs`: logarithms obey their laws; else
    they are functions without laws, which have residues."""

    sizes: Mapping[str, int]
    leaves: Mapping[str, Value]
    logs: bool = False


def draw(
    names: Sequence[str], facts: Facts, sizes: Mapping[str, int], seed: int, logs: bool = False
) -> Sample:
    """Values for leaves: reals around 1, residues from whole fields, conditions that are mixed.

    Even seeds draw shadows at random, odd ones ascending along every axis.
    """
    rng = np.random.default_rng(seed)
    places = dict(facts.permutations)
    parts = {name: whole for name, whole in facts.parts if name in names}
    every = dict.fromkeys([*names, *leaves(parts.values())])
    values = {name: _leaf(name, facts, sizes, rng, seed, places.get(name)) for name in every}
    for name, whole in parts.items():
        (values[name],) = evaluate([whole], Sample(sizes, values))
    return Sample(sizes, values, logs)


def _leaf(
    name: str, facts: Facts, sizes: Mapping[str, int], rng: np.random.Generator, seed: int,
    permuted: str | None,
) -> Value:  # fmt: skip
    axes = tuple(sorted(facts.free[name]))
    shape = tuple(sizes[axis] for axis in axes)
    if name[0] == "|":
        return fields.number(Fraction(sizes[name.strip("|")]))
    residues = tuple(rng.integers(1, prime, shape) for prime in PRIMES)
    if name[0] == "?":
        return fields.truth(axes, rng.random(shape) < 0.6)
    shadow = rng.random(shape)
    if permuted is not None:
        shadow = (rng.permutation(shape[0]) + 0.5) / shape[0]
    elif name in facts.constants:
        shadow = np.asarray(LOG2E_VALUE if name.startswith("log2(e") else 0.25 + float(shadow))
    elif seed % 2:
        shadow = np.sort(shadow.ravel()).reshape(shape) - 0.4
    else:
        shadow = 2 * shadow - 0.9
    return Value(axes, residues, NO, shadow)


def evaluate(terms: Sequence[Term], sample: Sample) -> list[Value]:
    """The value of each term. Undefined where a reciprocal of 0 occurs."""
    known: dict[Node, Value] = {}
    nodes = list(postorder(terms))
    whole = set(terms) | {
        part for item in nodes for part in children(item) if part is not _factors(item)
    }
    for item in nodes:
        assert isinstance(item, Term)
        body = _factors(item)
        if body is not None and isinstance(item, Fold):
            over = [(name, sample.sizes[name]) for name in item.indices]
            known[item] = fields.contracted([known[arg] for arg in body.args], body.factor, over)
        elif item in whole:
            operator, data, args = taken_apart(item)
            known[item] = compute(operator, data, [known[arg] for arg in args], sample)
    return [known[term] for term in terms]


def _factors(item: Node) -> Mul | None:
    """The product of three or more factors that a sum without a condition is over: it need not be
    formed at every point."""
    match item:
        case Fold("Sum", _, Yes(), Mul() as body) if len(body.args) > 2:
            return body
        case _:
            return None


def taken_apart(item: Term) -> tuple[str, tuple[Datum, ...], tuple[Term, ...]]:
    """Operator, data and arguments of a term, as e-nodes have them."""
    match item:
        case Leaf(name):
            return "Leaf", (name,), ()
        case Yes():
            return "Yes", (), ()
        case Mul(factor, args):
            return "Mul", (factor,), args
        case Add(args):
            return "Add", (), args
        case Fold(kind, indices, where, body):
            return kind, (indices,), (where, body)
        case Some(indices, where):
            return "Some", (indices,), (where,)
        case Call(name, args):
            return f"F{len(args)}", (name,), args
        case Choice(condition, yes, no):
            return "Sel", (), (condition, yes, no)
        case Rounded(dtype, arg):
            return "Rnd", (dtype,), (arg,)
        case Gather(index, at, arg):
            return "Gat", (index,), (at, arg)


def compute(operator: str, data: tuple[Datum, ...], args: Sequence[Value], sample: Sample) -> Value:
    """One operator on values."""
    match operator, data:
        case "Leaf", (str(name),):
            return sample.leaves[name]
        case "Yes", _:
            return fields.truth((), np.asarray(True))
        case "Mul", (Fraction() as factor,):
            return fields.product(args, factor)
        case "Add", _:
            return fields.total(args)
        case "Sum" | "Max" | "Min" | "Some", (tuple() as names,):
            over = [(name, sample.sizes[name]) for name in names]
            return _fold(operator, args, over)
        case "F1", (str(name),):
            return _function(name, args[0], sample)
        case "F2", ("max" | "min" as name,):
            axes, (a, b) = fields.align(args)
            first = a.shadow >= b.shadow if name == "max" else a.shadow <= b.shadow
            return fields.either(fields.truth(axes, first), a, b)
        case "F2", (str(name),) if name in _COMPARE:
            axes, (a, b) = fields.align(args)
            return fields.truth(axes, _COMPARE[name](a.shadow, b.shadow))
        case "F2", (str(name),):
            return fields.opaque(name, args)
        case "Sel", _:
            return fields.either(*args)
        case "Rnd", _:
            return args[0]
        case "Gat", (str(index),):
            return _gather(index, args[0], args[1], sample.sizes[index])
        case _:
            raise ValueError(f"{operator} {data} has no value")


def _fold(operator: str, args: Sequence[Value], over: Sequence[tuple[str, int]]) -> Value:
    if operator == "Sum":
        return fields.summed(args[1], args[0], over)
    if operator == "Some":
        body = fields.truth((), np.asarray(True))
        counted = fields.summed(Value((), NO, NO, np.ones(())), args[0], over)
        return fields.truth(counted.axes, counted.shadow * body.shadow > 0)
    return fields.extreme(args[1], args[0], over, operator == "Max")


def _function(name: str, arg: Value, sample: Sample) -> Value:
    match name:
        case "recip":
            return fields.reciprocal(arg)
        case "shift":
            return arg
        case "exp":
            return fields.exponential(arg)
        case "exp2":
            base = sample.leaves.get("log2(e)")
            if base is None:
                return fields.opaque(name, [arg])
            return fields.exponential(fields.product([arg, fields.reciprocal(base)], Fraction(1)))
        case "log" if sample.logs:
            return fields.logarithm(arg)
        case _:
            return fields.opaque(name, [arg])


def _gather(index: str, at: Value, body: Value, size: int) -> Value:
    """`body` where `index` is the position that `at`, a number within [0, 1), stands for."""
    if index not in body.axes:
        return body
    position = np.floor(np.mod(at.shadow, 1.0) * size).astype(int)
    place = body.axes.index(index)
    rest = tuple(axis for axis in body.axes if axis != index)
    axes = tuple(sorted({*rest, *at.axes}))
    where = fields.expanded(fields.truth(at.axes, position), axes).shadow

    def taken(array: np.ndarray) -> np.ndarray:
        rows = np.moveaxis(array, place, -1)
        missing = tuple(n for n, axis in enumerate(axes) if axis not in rest)
        rows = np.expand_dims(rows, missing)
        shape = np.broadcast_shapes(rows.shape[:-1], where.shape)
        full = np.broadcast_to(rows, (*shape, size))
        spot = np.broadcast_to(where, shape)[..., None]
        return np.take_along_axis(full, spot, -1)[..., 0]

    full = fields.mapped(body, lambda array: np.broadcast_to(array, body.shadow.shape), body.axes)
    return fields.mapped(full, taken, axes)


def disagreements(graph: Graph, sample: Sample) -> tuple[list[tuple[int, ENode, ENode]], int]:
    """Nodes of one class with different values: (class, a node, another), and how many nodes
    could not be compared."""
    values: dict[int, tuple[ENode, Value]] = {}
    clashes: list[tuple[int, ENode, ENode]] = []
    changed = True
    pending = [(number, item) for number, items in graph.classes.items() for item in items]
    unknown = 0
    while pending and changed:
        changed, left = False, list[tuple[int, ENode]]()
        for number, item in pending:
            if any(arg not in values for arg in item.args):
                left.append((number, item))
                continue
            changed = True
            found = compute(item.operator, item.data, [values[a][1] for a in item.args], sample)
            if number not in values:
                values[number] = (item, found)
                continue
            same = fields.agree(values[number][1], found)
            unknown += same is None
            if same is False:
                clashes.append((number, values[number][0], item))
        pending = left
    return clashes, unknown + len(pending)


def named(graph: Graph) -> list[str]:
    """The names of all leaves of a graph."""
    found = [n.data[0] for nodes in graph.classes.values() for n in nodes if n.operator == "Leaf"]
    return sorted({str(name) for name in found})


def names_of(terms: Sequence[Term]) -> list[str]:
    """The names of all leaves of terms."""
    return leaves(terms)
