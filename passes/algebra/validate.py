"""Does a rewritten program compute what its source computes? Checked in exact arithmetic.

Both programs are read anew, at shrunken sizes, with the same random tensors in a chain of prime
fields (`passes.fields`), so the check shares the vocabulary of terms with the rewriting, but not
the e-graph, the extraction or the way back. PASS means equal at every sample, FAIL
names the output, UNDECIDED says what could not be compared. Rounding and range are not seen here.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tensorc.ir.accept import Outcome
from tensorc.ir.node import Node, children, postorder, rebuild
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.print_tensor import show
from tensorc.ir.tensor import Expr, Position, Program, Read, Reduce, free_indices, value_type
from tensorc.passes.algebra import fields
from tensorc.passes.algebra.apart import apart
from tensorc.passes.algebra.encode import encode
from tensorc.passes.algebra.encoded import LOG2E, Encoded
from tensorc.passes.algebra.evaluate_terms import LOG2E_VALUE, Sample, evaluate
from tensorc.passes.algebra.fields import NO, PRIMES, Undefined, Value
from tensorc.passes.algebra.renaming import Unsuitable, renamed
from tensorc.passes.algebra.terms import Fold, Leaf, Some, Term, leaves
from tensorc.passes.fusion.inline import Unfused

SAMPLES = 2  # of random values: one with shadows at random, one ascending
LARGEST = 1 << 16  # elements of an array
MOST_AXES = 32  # that NumPy broadcasts
REDRAWS = 6  # when a reciprocal of 0 occurs


@dataclass(frozen=True)
class Check:
    """The outcome and why; `output` names the first tensor that differs."""

    outcome: Outcome
    reason: str
    output: str = ""

    @property
    def passed(self) -> bool:
        """True for PASS alone."""
        return self.outcome is Outcome.PASS

    def __str__(self) -> str:
        return f"{self.outcome.value}: {self.reason}"


def validate(source: Program, result: Program, sizes: Mapping[str, int], seed: int = 1) -> Check:
    """Compare every output of two canonical programs. `sizes`: the extents of this compile, which
    only decide the signs of constants."""
    try:
        after, before = apart(result, source)
        left, right = encode(before, sizes, True), encode(after, sizes, True)
    except (Unsuitable, Unfused) as reason:
        return Check(Outcome.UNDECIDED, str(reason))
    wide = max((len(one) for item in (left, right) for one in _together(item)), default=0)
    if wide > MOST_AXES:
        return Check(Outcome.UNDECIDED, f"a term has {wide} indices, more than {MOST_AXES}")
    terms = {item.tensor.name: term for item, term in left.roots}
    others = {item.tensor.name: term for item, term in right.roots}
    names = [name for name in terms if name in others]
    outputs = {item.tensor.name for item in source.outputs}
    if outputs - set(names):
        return Check(Outcome.FAIL, "an output is missing", sorted(outputs - set(names))[0])
    lawful = _compared(left, right, names, seed, True)
    if lawful.outcome is not Outcome.UNDECIDED:
        return lawful
    # Logarithms that laws leave without a residue may still be equal as functions.
    plain = _compared(left, right, names, seed, False)
    return plain if plain.passed else lawful


def _compared(left: Encoded, right: Encoded, names: Sequence[str], seed: int, logs: bool) -> Check:
    terms = {item.tensor.name: term for item, term in left.roots}
    others = {item.tensor.name: term for item, term in right.roots}
    unknown: set[str] = set()
    for number in range(SAMPLES):
        chosen = [terms[name] for name in names], [others[name] for name in names]
        try:
            pairs = _values(left, right, *chosen, seed * SAMPLES + number, logs)
        except fields.TooLarge as reason:
            return Check(Outcome.UNDECIDED, f"too large to compare: {reason}")
        if pairs is None:
            return Check(Outcome.UNDECIDED, f"a division by 0 in each of {REDRAWS} samples")
        for name, a, b in zip(names, *pairs, strict=True):
            same = fields.agree(a, b)
            if same is False:
                return Check(Outcome.FAIL, f"{name} differs in sample {number}", name)
            if same is None:
                unknown.add(name)
    if unknown:
        what = ", ".join(sorted(unknown))
        return Check(Outcome.UNDECIDED, f"{what}: exponentials nest too deep for the fields")
    return Check(Outcome.PASS, f"equal in {SAMPLES} samples of three prime fields")


def _values(
    left: Encoded,
    right: Encoded,
    terms: Sequence[Term],
    others: Sequence[Term],
    seed: int,
    logs: bool,
) -> tuple[list[Value], list[Value]] | None:
    for redraw in range(REDRAWS):
        try:
            drawing = _Drawing(left, right, seed + 2 * SAMPLES * redraw)
            return (
                evaluate(terms, drawing.sample(left, terms, logs)),
                evaluate(others, drawing.sample(right, others, logs)),
            )
        except Undefined:
            continue
    return None


class _Drawing:
    """Random tensors that both programs share: by tensor, or by expression up to index names."""

    def __init__(self, left: Encoded, right: Encoded, seed: int) -> None:
        self.seed = seed
        sizes = dict.fromkeys([*left.extents.values(), *right.extents.values()])
        self.small: dict[Polynomial, int] = {
            size: min(size.constant, 3) if size.constant is not None else 2 + number % 2
            for number, size in enumerate(sizes)
        }
        for encoded in (left, right):
            for together in _together(encoded):
                self.shrink([encoded.extents[name] for name in sorted(together)])

    def shrink(self, sizes: Sequence[Polynomial]) -> None:
        """Make some of these extents 1, other ones in every sample, until arrays over all of them
        have at most LARGEST elements."""
        turn = self.seed % max(1, len(sizes))
        for size in [*sizes[turn:], *sizes[:turn]]:
            if math.prod(self.small[size] for size in sizes) <= LARGEST:
                return
            self.small[size] = min(1, self.small[size])

    def sample(self, encoded: Encoded, terms: Sequence[Term], logs: bool) -> Sample:
        """Values for the leaves of some terms of an encoded program."""
        sizes = {name: self.small[size] for name, size in encoded.extents.items()}
        values = {name: self.leaf(name, encoded, sizes) for name in [*leaves(terms), LOG2E.name]}
        return Sample(sizes, values, logs)

    def leaf(self, name: str, encoded: Encoded, sizes: Mapping[str, int]) -> Value:
        if name == LOG2E.name:
            return self.drawn("log2(e)", (), (), LOG2E_VALUE)
        if name[0] == "|":
            return fields.number(Fraction(sizes[name.strip("|")]))
        expr = encoded.leaves[name]
        shape, key = _anonymous(expr)
        if name in encoded.constants:
            return self.drawn(key, (), (), 0.75)
        value = self.drawn(key, shape, [sizes[axis] for axis in shape])
        if name in dict(encoded.permutations):
            (size,) = value.shadow.shape
            return replace(value, shadow=(np.arange(size)[::-1] + 0.5) / size)
        if value_type(expr).name == "bool":
            return fields.truth(value.axes, value.shadow > 0)
        return value

    def drawn(
        self, key: str, axes: Sequence[str], shape: Sequence[int], shadow: float | None = None
    ) -> Value:
        rng = np.random.default_rng([self.seed, zlib.crc32(key.encode())])
        residues = [rng.integers(1, prime, tuple(shape)) for prime in PRIMES]
        real = 2 * rng.random(tuple(shape)) - 0.9
        if self.seed % 2:
            real = np.sort(real.ravel()).reshape(tuple(shape))
        if shadow is not None:
            real = np.asarray(shadow)
        order = [list(axes).index(axis) for axis in sorted(axes)]
        arrays = tuple(array.transpose(order) for array in residues)
        return Value(tuple(sorted(axes)), arrays, NO, real.transpose(order))


def _together(encoded: Encoded) -> Iterator[frozenset[str]]:
    """The sets of indices over which a term has an array while it is evaluated."""
    axes: dict[Node, frozenset[str]] = {}
    for item in postorder([term for _, term in encoded.roots]):
        match item:
            case Leaf(name):
                expr = encoded.leaves.get(name)
                found = frozenset[str]() if expr is None else free_indices(expr)
            case _:
                found = frozenset[str]().union(*(axes[part] for part in children(item)))
        yield frozenset(name for name in found if name in encoded.extents)
        match item:
            case Fold(_, indices, _, _) | Some(indices, _):
                axes[item] = found - set(indices)
            case _:
                axes[item] = found


def _anonymous(expr: Expr) -> tuple[tuple[str, ...], str]:
    """The free indices of an expression in order of appearance, and its text without names.

    A read under bare indices is its tensor; bound indices are named after their reduction's height.
    """
    match expr:
        case Read(tensor, subscripts) if all(isinstance(sub, Position) for sub in subscripts):
            names = tuple(sub.index for sub in subscripts if isinstance(sub, Position))
            if len(set(names)) == len(names):
                return names, tensor.name
        case _:
            pass
    free = free_indices(expr)
    order = dict.fromkeys(
        item.index
        for item in postorder([expr])
        if isinstance(item, Position) and item.index in free
    )
    names = {index: f"_{number}" for number, index in enumerate(order)}
    return tuple(order), show(renamed(_with_plain_binders(expr), names, {}))


def _with_plain_binders(expr: Expr) -> Expr:
    """The expression with bound indices named after the height of their reduction."""
    made: dict[Node, Node] = {}
    height: dict[Node, int] = {}
    for item in postorder([expr]):
        inner = max((height[part] for part in children(item)), default=0)
        new = rebuild(item, lambda part: made[part])
        if isinstance(new, Reduce) and not new.reducer.keeps:
            inner += 1
            to = {index: f"@{inner}_{n}" for n, index in enumerate(new.indices)}
            where = None if new.where is None else renamed(new.where, to, {})
            body = renamed(new.body, to, {})
            new = Reduce(new.reducer, tuple(to.values()), body, where, new.dtype)
        made[item], height[item] = new, inner
    found = made[expr]
    assert isinstance(found, Expr)
    return found
