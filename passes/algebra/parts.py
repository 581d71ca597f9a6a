"""Long programs in parts, so that rewriting takes time in proportion to their length.

A program is cut between equations where few tensors cross. A part is a program whose outputs are
what later parts read, under names that say only where they first appear; so layers that repeat are
one part, rewritten once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from tensorc.ir.node import Node, postorder, rebuild
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import Check, Declaration, Equation, Expr, Program, Read, Tensor
from tensorc.passes.algebra.saturate import rewrite
from tensorc.passes.canonicalise import unique_names
from tensorc.passes.jobs import Run, here

SHORT, LONG = 8, 20  # equations of a part


@dataclass(frozen=True)
class Part:
    """A part under its own names, and the program's tensor of each of them."""

    program: Program
    tensors: Mapping[str, Tensor]


def in_parts(program: Program) -> list[Part]:
    """The parts of a program, in order; none of a short program."""
    if len(program.equations) <= LONG:
        return []
    ends = _ends(program)
    return [_part(program, a, b) for a, b in zip([0, *ends], ends, strict=False)]


@dataclass(frozen=True)
class Changed:
    """A rewritten program, and each part that changed with what it became: what has to be
    checked. A short program is its own part. `notes`: which limits ended the rewriting of parts."""

    program: Program
    parts: tuple[tuple[Program, Program], ...] = ()
    notes: tuple[str, ...] = ()


def rewrite_in_parts(
    program: Program,
    extents: Mapping[str, int],
    worth: float = 1.0,
    run: Run = here,
    hints: Mapping[str, int] | None = None,
    static: Iterable[str] = (),
) -> Changed:
    """`saturate.rewrite` with the rules of `fast`, part by part where a program is long."""

    notes: dict[str, None] = {}

    def rewritten(part: Program, same: Iterable[str]) -> Program:
        made = rewrite(part, extents, None, None, worth, run, hints, same)
        if made.graph is not None and made.graph.note:
            notes.setdefault(made.graph.note)
        return made.program

    found = in_parts(program)
    if not found:
        made = rewritten(program, static)
        return Changed(made, ((program, made),) if made is not program else (), tuple(notes))
    known: dict[tuple[Program, frozenset[str]], Program] = {}
    joined = _Joined(program)
    for part in found:
        same = frozenset(name for name, old in part.tensors.items() if old.name in set(static))
        if (part.program, same) not in known:
            known[part.program, same] = rewritten(part.program, same)
        joined.add(part, known[part.program, same])
    changed = tuple((old, new) for (old, _), new in known.items() if old is not new)
    return Changed(joined.program() if changed else program, changed, tuple(notes))


# --- cutting --------------------------------------------------------------------------------------


def _ends(program: Program) -> list[int]:
    """Where parts end: the fewest tensors cross there, and later rather than sooner."""
    count, ends = len(program.equations), list[int]()
    crossing = _crossing(program)
    while count - (start := ends[-1] if ends else 0) > LONG:
        ends.append(min(range(start + SHORT, start + LONG + 1), key=lambda n: (crossing[n], -n)))
    return [*ends, count]


def _crossing(program: Program) -> list[int]:
    """How many tensors defined before each place are read after it."""
    last: dict[str, int] = {}
    for number, equation in enumerate(program.equations):
        for name in _read([equation]):
            last[name] = number
    made = {item.tensor.name: number for number, item in enumerate(program.equations)}
    return [
        sum(made[name] < place <= last.get(name, -1) for name in made)
        for place in range(len(program.equations) + 1)
    ]


def _read(equations: Iterable[Equation]) -> dict[str, Tensor]:
    bodies = (equation.body for equation in equations)
    found = (item.tensor for item in postorder(bodies) if isinstance(item, Read))
    return {tensor.name: tensor for tensor in found}


def _part(program: Program, start: int, end: int) -> Part:
    own = program.equations[start:end]
    made = {item.tensor.name: item for item in own}
    read = _read(own)
    before = {item.tensor.name: item for item in program.equations[:start]}
    wanted = {item.tensor.name for item in program.outputs} | set(_read(program.equations[end:]))
    given = [item for item in program.parameters if item.tensor.name in read]
    given += [
        Declaration(item.tensor, item.indices) for name, item in before.items() if name in read
    ]
    whole = replace(
        program,
        name="part",
        parameters=tuple(given),
        outputs=tuple(
            Declaration(item.tensor, item.indices) for item in own if item.tensor.name in wanted
        ),
        tables=tuple(table for table in program.tables if table.tensor.name in read),
        checks=tuple(check for check in program.checks if _reads(own, check)),
        divisors=(),
        warnings=(),
    )
    order = [*read.values(), *(item.tensor for item in made.values())]
    names = {tensor: f"x{n}" for n, tensor in enumerate(dict.fromkeys(order))}
    to = {tensor: replace_name(tensor, name) for tensor, name in names.items()}
    part = renamed_tensors(replace(whole, equations=own), to)
    return Part(part, {names[tensor]: tensor for tensor in names})


def _reads(equations: Iterable[Equation], check: Check) -> bool:
    return any(item is check.read for item in postorder(e.body for e in equations))


def replace_name(tensor: Tensor, name: str) -> Tensor:
    """The same tensor under another name."""
    return Tensor(name, tensor.dtype, tensor.shape)


def renamed_tensors(program: Program, to: Mapping[Tensor, Tensor]) -> Program:
    """The program with other tensors for some."""

    def moved(expr: Expr) -> Expr:
        known: dict[Node, Node] = {}
        for item in postorder([expr]):
            made = rebuild(item, lambda child: known.get(child, child))
            known[item] = to.get(item, item) if isinstance(item, Tensor) else made
        found = known[expr]
        assert isinstance(found, Expr)
        return found

    def declared(items: Iterable[Declaration]) -> tuple[Declaration, ...]:
        return tuple(replace(item, tensor=to.get(item.tensor, item.tensor)) for item in items)

    return replace(
        program,
        parameters=declared(program.parameters),
        outputs=declared(program.outputs),
        equations=tuple(
            replace(item, tensor=to.get(item.tensor, item.tensor), body=moved(item.body), span=None)
            for item in program.equations
        ),
        tables=tuple(
            replace(item, tensor=to.get(item.tensor, item.tensor)) for item in program.tables
        ),
        checks=tuple(_moved_check(check, moved) for check in program.checks),
    )


def _moved_check(check: Check, moved: Callable[[Expr], Expr]) -> Check:
    read = moved(check.read)
    assert isinstance(read, Read)
    return replace(check, read=read)


# --- joining --------------------------------------------------------------------------------------


class _Joined:
    """Parts put together again, what they added under names that are free."""

    def __init__(self, source: Program) -> None:
        self.source = source
        self.equations: list[Equation] = []
        self.checks: list[Check] = []
        self.extents: dict[str, Polynomial] = dict(source.extents)
        named = (*source.parameters, *source.outputs, *source.equations, *source.tables)
        self.taken = {item.tensor.name for item in named}

    def add(self, part: Part, made: Program) -> None:
        """What a part became, its names as in the program, its new ones as they are free."""
        if any(self.extents.get(name, size) is not size for name, size in made.extents):
            made = part.program  # a new index is called like another one
        own = (*made.parameters, *made.tables, *made.equations)
        moved = renamed_tensors(made, {item.tensor: self.named(part, item.tensor) for item in own})
        self.extents.update(made.extents)
        self.equations += moved.equations
        self.checks += moved.checks

    def named(self, part: Part, tensor: Tensor) -> Tensor:
        old = part.tensors.get(tensor.name)
        return replace_name(tensor, self.fresh() if old is None else old.name)

    def fresh(self) -> str:
        number = 1
        while f"t{number}" in self.taken:
            number += 1
        self.taken.add(f"t{number}")
        return f"t{number}"

    def program(self) -> Program:
        """The whole program."""
        made = replace(
            self.source,
            equations=tuple(self.equations),
            extents=tuple(self.extents.items()),
            checks=tuple(self.checks),
        )
        return unique_names(made)
