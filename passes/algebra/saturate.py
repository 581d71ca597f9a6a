"""Rewrite a level-1 program into the cheapest equal one that the rules reach.

True afterwards: every output is what it was over the reals (`passes.validate` checks that); index
names are unique along every path; names may be new. A program to which no rule can apply is
returned as it is, without an import of the engine. So is one that terms cannot say, or whose
rewriting would lose a check; the note says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.tensor import Program
from tensorc.passes.algebra.decode import Lost, decode
from tensorc.passes.algebra.egraph import EngineFailed, Graph, Limits
from tensorc.passes.algebra.encode import encode
from tensorc.passes.algebra.encoded import Encoded
from tensorc.passes.algebra.exponentials import EXPONENTIALS
from tensorc.passes.algebra.extract import Extracted
from tensorc.passes.algebra.joins import with_joins
from tensorc.passes.algebra.renaming import Unsuitable
from tensorc.passes.algebra.rule import Rule, text_of
from tensorc.passes.algebra.terms import Call, Fold, Gather, Mul, Term
from tensorc.passes.algebra.worth import worth_encoding
from tensorc.passes.jobs import Run, here, saturated

MOST_NODES = 600  # terms of a program that is rewritten as a whole


@dataclass(frozen=True)
class Rewritten:
    """A rewritten program; what happened is in the rest, absent where nothing was tried."""

    program: Program
    note: str = ""
    encoded: Encoded | None = None
    graph: Graph | None = None
    extracted: Extracted | None = None
    fired: Mapping[str, int] = field(default_factory=dict[str, int])


def rewrite(
    program: Program,
    extents: Mapping[str, int],
    rules: Sequence[Rule] | None = None,
    limits: Limits | None = None,
    worth: float = 1.0,
    run: Run = here,
    hints: Mapping[str, int] | None = None,
    static: Iterable[str] = (),
) -> Rewritten:
    """The cheapest form of a canonical program that `rules` (by default those of `fast`, where one
    might apply) reach.

    `extents`: the extents and `const` integers of this compile, by name; `hints`: sizes of others,
    which decide nothing but what is cheaper. Forms are right at all sizes where no extent is 0.
    `worth`: the result has to cost less than this part of the source as written, else the source
    stays. `static`: parameters that are the same at every call, which may be joined ahead of it.
    `run` does the solvers' work, here or in another process; what it raises passes through.
    """
    if rules is None and not worth_encoding(program):
        return Rewritten(program)
    try:
        encoded = with_joins(encode(program, extents), static)
        sizes = sizes_of(encoded, {**(hints or {}), **extents})
    except (Unsuitable, KeyError) as reason:
        return Rewritten(program, f"not rewritten: {reason}")
    if 0 in sizes.values():
        return Rewritten(program, "not rewritten: an extent is 0")
    return _rewritten(encoded, sizes, rules, limits or Limits(), worth, run)


_KINDS = ("extent", "parameter")


def sizes_of(encoded: Encoded, extents: Mapping[str, int]) -> dict[str, int]:
    """The sizes of all indices of an encoded program. KeyError: an extent is not given."""
    known = {Symbol(name, kind): n for name, n in extents.items() for kind in _KINDS}
    return {name: evaluate(size, known) for name, size in encoded.extents.items()}


def sizes_of_program(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """The stated sizes of a program's indices, and those of `sizes` that it has."""
    stated = {n: size.constant for n, size in program.extents if size.constant is not None}
    return {**{name: sizes[name] for name, _ in program.extents if name in sizes}, **stated}


def _rewritten(
    encoded: Encoded,
    sizes: Mapping[str, int],
    rules: Sequence[Rule] | None,
    limits: Limits,
    worth: float,
    run: Run,
) -> Rewritten:
    from tensorc.passes.algebra.rules import FAST

    program, roots = encoded.program, [term for _, term in encoded.roots]
    if rules is None and not promising(roots):
        return Rewritten(program)
    if sum(1 for _ in postorder(roots)) > MOST_NODES:
        return Rewritten(program, f"not rewritten: more than {MOST_NODES} terms")
    table = text_of(FAST if rules is None else rules)
    try:
        graph, found = saturated(roots, encoded.facts(), table, limits, sizes, run)
    except (EngineFailed, ImportError) as reason:
        return Rewritten(program, f"not rewritten: {reason}")
    if found.cost >= worth * found.source:
        return Rewritten(program, graph.note, encoded, graph, found, graph.fired)
    try:
        made = decode(encoded, found.terms, sizes)
    except Lost as reason:
        return Rewritten(program, f"not rewritten: {reason}", encoded, graph, found)
    return Rewritten(made, graph.note, encoded, graph, found, graph.fired)


def promising(roots: Sequence[Term]) -> bool:
    """Whether rules can lead anywhere but back: there are two reductions to bring together, an
    exponential beside a reduction, a sum with a factor to take out, or a gathered row in it."""
    nodes = list(postorder(roots))
    folds = [item for item in nodes if isinstance(item, Fold)]
    powers = any(isinstance(item, Call) and item.name in EXPONENTIALS for item in nodes)
    rows = any(isinstance(item, Gather) for item in postorder(folds))
    taken = any(
        isinstance(f.body, Mul) and (len(f.body.args) > 2 or f.body.factor != 1) for f in folds
    )
    return len(folds) > 1 or bool(folds) and (powers or rows or taken)
