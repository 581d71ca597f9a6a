"""einsum strings: NumPy's subscripts, and named ones, to a level-1 program.

Labels are integers inside, so there may be any number of them, of any alphabet. A program depends
on the subscripts, the operands' types, their ranks and where their sizes are 1: NumPy lets a
dimension of size 1 meet any size, which is a read at 0 here.

    "ij,jk->ik"   "...ii->...i"   "bhqd, bhkd -> bhqk"   "batch head q, batch head k -> q k"
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tensorc.ir.dtypes import BOOL, INTEGER, DType, settled
from tensorc.ir.functions import ANY, FUNCTIONS, SUM
from tensorc.ir.polynomial import extent, polynomial
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Declaration,
    Equation,
    Expr,
    Literal,
    Position,
    Program,
    Read,
    Reduce,
    Round,
    Tensor,
    value_type,
)

Label = Hashable
Labels = tuple[Label, ...]
ELLIPSIS = "..."


@dataclass(frozen=True)
class Subscripts:
    """Labels of every operand and of the result; ellipses are already labels of their own."""

    operands: tuple[Labels, ...]
    result: Labels


def parse(text: str, ranks: Sequence[int]) -> Subscripts:
    """Subscripts for operands of these ranks. ValueError, as NumPy raises, says what is wrong."""
    left, arrow, right = text.partition("->")
    if "->" in right:
        raise ValueError(f"einstein sum subscripts {text!r} have more than one '->'")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(
            f"einstein sum subscripts {text!r} name {len(terms)} operands; {len(ranks)} were given"
        )
    split = _words if _named(terms, ranks) else _letters
    result = split(right) if arrow else None
    return subscripts([split(term) for term in terms], result, ranks)


def _named(terms: Sequence[str], ranks: Sequence[int]) -> bool:
    """Names of several letters, where single letters do not fit the ranks and words do."""
    return not _fit(_letters, terms, ranks) and _fit(_words, terms, ranks)


def _fit(
    split: Callable[[str], tuple[Label, ...]], terms: Sequence[str], ranks: Sequence[int]
) -> bool:
    for term, rank in zip(terms, ranks, strict=True):
        labels = split(term)
        count = len(labels) - labels.count(ELLIPSIS)
        if count > rank or (ELLIPSIS not in labels and count != rank):
            return False
    return True


def _letters(term: str) -> tuple[Label, ...]:
    """Every character but a space is a label, as in NumPy."""
    parts = [p for w in term.replace("...", " ... ").split() for p in _characters(w)]
    return tuple(_label(part, term) for part in parts)


def _characters(word: str) -> list[str]:
    return [word] if word == ELLIPSIS else list(word)


def _words(term: str) -> tuple[Label, ...]:
    """Labels stand between spaces."""
    return tuple(_label(word, term) for word in term.replace("...", " ... ").split())


def _label(part: str, term: str) -> Label:
    if part != ELLIPSIS and not part.replace("_", "a").isalnum():
        raise ValueError(f"einstein sum subscript {part!r} in {term.strip()!r} is no label")
    return part


def subscripts(
    terms: Sequence[tuple[Label, ...]], result: tuple[Label, ...] | None, ranks: Sequence[int]
) -> Subscripts:
    """Expand ellipses; without a result, the labels seen once, sorted, after the ellipsis."""
    spans = [
        _span(term, rank, number)
        for number, (term, rank) in enumerate(zip(terms, ranks, strict=True))
    ]
    most = max(spans, default=0)
    expanded = tuple(_expand(term, span, most) for term, span in zip(terms, spans, strict=True))
    if result is None:
        result = _implicit(terms)
    elif most and ELLIPSIS not in result:
        raise ValueError("the result has no '...' for the broadcast dimensions of the operands")
    chosen = _expand(result, most, most)
    _check_result(chosen, expanded)
    return Subscripts(expanded, chosen)


def _span(term: tuple[Label, ...], rank: int, number: int) -> int:
    """How many dimensions the ellipsis of a term stands for."""
    dots = term.count(ELLIPSIS)
    if dots > 1:
        raise ValueError(f"operand {number} has more than one ellipsis in its subscripts")
    named = len(term) - dots
    if named > rank or (not dots and named != rank):
        raise ValueError(f"operand {number} has {rank} dimensions, its subscripts name {named}")
    return rank - named


def _expand(term: tuple[Label, ...], span: int, most: int) -> Labels:
    """The ellipsis as the last `span` of `most` broadcast labels."""
    out: list[Label] = []
    for label in term:
        if label == ELLIPSIS:
            out.extend((ELLIPSIS, place) for place in range(most - span, most))
        else:
            out.append(label)
    return tuple(out)


def _implicit(terms: Sequence[tuple[Label, ...]]) -> tuple[Label, ...]:
    counts = Counter(label for term in terms for label in term if label != ELLIPSIS)
    once = sorted((label for label, count in counts.items() if count == 1), key=_order)
    return ((ELLIPSIS,) if any(ELLIPSIS in term for term in terms) else ()) + tuple(once)


def _order(label: Label) -> tuple[int, int, str]:
    return (0, label, "") if isinstance(label, int) else (1, 0, str(label))


def _check_result(result: Labels, operands: Sequence[Labels]) -> None:
    known = {label for labels in operands for label in labels}
    repeated = [label for label, count in Counter(result).items() if count > 1]
    if repeated:
        raise ValueError(f"einstein sum subscript {repeated[0]!r} appears twice in the result")
    for label in result:
        if label not in known:
            raise ValueError(f"einstein sum subscript {label!r} of the result is on no operand")


def sizes_of(spec: Subscripts, shapes: Sequence[tuple[int, ...]]) -> dict[Label, int]:
    """The size of every label; 1 meets any other size of another operand. ValueError: two others,
    or two sizes along one diagonal."""
    sizes: dict[Label, int] = {}
    for number, (labels, shape) in enumerate(zip(spec.operands, shapes, strict=True)):
        own: dict[Label, int] = {}
        for label, size in zip(labels, shape, strict=True):
            if own.setdefault(label, size) != size:
                raise ValueError(
                    f"dimensions in operand {number} for collapsing index {_shown(label)!r} don't "
                    f"match ({own[label]} != {size})"
                )
            before = sizes.setdefault(label, size)
            if before != size and before != 1 and size != 1:
                raise ValueError(
                    f"operands could not be broadcast together: {_shown(label)} is {before} "
                    f"before and {size} in operand {number}"
                )
            sizes[label] = size if before == 1 else before
    return sizes


def _shown(label: Label) -> str:
    return f"dimension {label[1]} of the ellipsis" if isinstance(label, tuple) else str(label)


def program(
    spec: Subscripts, ones: Sequence[tuple[bool, ...]], sources: Sequence[DType], dtype: DType
) -> Program:
    """The level-1 program. `ones`: per operand and dimension, whether it is read at 0 because its
    size is 1 and its label's is not; `dtype`: the result's, in which the operands meet."""
    labels = dict.fromkeys(label for term in (*spec.operands, spec.result) for label in term)
    names = {label: f"i{number}" for number, label in enumerate(labels)}
    reads: list[Expr] = []
    parameters: list[Declaration] = []
    for number, (term, alone) in enumerate(zip(spec.operands, ones, strict=True)):
        dims = tuple(None if one else names[label] for label, one in zip(term, alone, strict=True))
        shape = tuple(polynomial(1) if dim is None else extent(dim) for dim in dims)
        tensor = Tensor(f"x{number}", sources[number], shape)
        zero = Literal(Fraction(0), INTEGER)
        parts = tuple(zero if dim is None else Position(dim) for dim in dims)
        parameters.append(Declaration(tensor, dims))
        reads.append(_operand(Read(tensor, parts), sources[number], dtype))
    left = tuple(names[label] for label in spec.result)
    bound = tuple(names[label] for label in labels if label not in spec.result)
    output = Tensor("y", dtype, tuple(extent(name) for name in left))
    body = _rounded(_reduced(_product(reads, dtype), bound, dtype), dtype)
    return Program(
        "einsum", tuple(parameters), (Declaration(output, left),),
        (Equation(output, left, body),), tuple((name, extent(name)) for name in names.values()),
    )  # fmt: skip


def _operand(read: Read, source: DType, dtype: DType) -> Expr:
    """An operand in the result's type; a narrower float widens by itself."""
    if source is dtype or (source.floating and dtype.floating and source.bits <= dtype.bits):
        return read
    return Cast(dtype, read)


def _product(reads: list[Expr], dtype: DType) -> Expr:
    if len(reads) == 1:
        return reads[0]
    return Apply(FUNCTIONS["and" if dtype is BOOL else "mul"], tuple(reads))


def _reduced(body: Expr, bound: tuple[str, ...], dtype: DType) -> Expr:
    if not bound:
        return body
    if dtype is BOOL:
        return Reduce(ANY, bound, body, None, None)
    # Integers wrap in the result's own type, whatever the order.
    return Reduce(SUM, bound, body, None, dtype if dtype.integral else None)


def _rounded(body: Expr, dtype: DType) -> Expr:
    return body if settled(value_type(body)) is dtype else Round(dtype, body)
