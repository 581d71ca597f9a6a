"""Terms as level 1: a program of equations from the terms that rewriting chose.

`cuts` says which terms get a name, `write_terms` how each is written; a product of many factors is
contracted in its cheapest order. Here the program is put together, with the checks that its reads
need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tensorc.ir.node import postorder
from tensorc.ir.tensor import Check, Equation, Program, Read
from tensorc.passes.algebra.cuts import Body, cuts
from tensorc.passes.algebra.encoded import Encoded
from tensorc.passes.algebra.order_terms import ordered
from tensorc.passes.algebra.terms import Term
from tensorc.passes.algebra.write_terms import Writer
from tensorc.passes.canonicalise import unique_names


class Lost(Exception):
    """A read whose subscript the kernel has to check is gone; the program stays as it was."""


def decode(encoded: Encoded, roots: Sequence[Term], sizes: Mapping[str, int]) -> Program:
    """The encoded program with its roots as these terms: each equation after what it reads."""
    in_order = ordered(encoded, roots, sizes)
    found = cuts(encoded, in_order)
    writer = Writer(encoded, found)
    made = [
        Body(equation.tensor, equation.indices, root, equation)
        for (equation, _), root in zip(encoded.roots, in_order, strict=True)
    ]
    equations = [writer.equation(body) for body in (*found.values(), *made)]
    equations = [*_joins(encoded, equations), *equations]
    program = replace(
        encoded.program,
        equations=tuple(_sorted(equations)),
        extents=tuple(encoded.extents.items()),
    )
    return unique_names(replace(program, checks=tuple(_checks(encoded, writer, program))))


def _joins(encoded: Encoded, equations: Sequence[Equation]) -> Iterable[Equation]:
    """The joined tensors that equations read."""
    bodies = [equation.body for equation in equations]
    read = {item.tensor for item in postorder(bodies) if isinstance(item, Read)}
    return [item for item in encoded.joins.values() if item.tensor in read]


def _checks(encoded: Encoded, writer: Writer, program: Program) -> Iterable[Check]:
    """The program's checks for every form that their reads took."""
    present = {
        item
        for item in postorder(equation.body for equation in program.equations)
        if isinstance(item, Read)
    }
    for check in encoded.program.checks:
        forms = {check.read} | encoded.reads.get(check.read, set())
        found = [(read, check.axis) for read in sorted(forms & present, key=repr)]
        found += _gathered_checks(encoded, writer, check, present)
        if not found and not _always_inside(encoded, check):
            raise Lost(f"a check of {check.read.tensor.name}")
        yield from (replace(check, read=read, axis=axis) for read, axis in found)


def _always_inside(encoded: Encoded, check: Check) -> bool:
    """Whether the checked subscript permutes the positions of its dimension."""
    return any((check.read, check.axis) in encoded.gathers[index] for index in encoded.permuted)


def _gathered_checks(
    encoded: Encoded, writer: Writer, check: Check, present: set[Read]
) -> list[tuple[Read, int]]:
    """Reads at the checked position: of rows that now stand for the checked read's."""
    indices = [
        index for index, origins in encoded.gathers.items() if (check.read, check.axis) in origins
    ]
    rows = [row for index in indices for row in writer.rows.get(index, [])]
    return [(read, axis) for read, axis in dict.fromkeys(rows) if read in present]


def _sorted(equations: Sequence[Equation]) -> Iterable[Equation]:
    """Each equation after those that it reads, else in order."""
    by_name = {equation.tensor.name: equation for equation in equations}
    done: dict[str, Equation] = {}
    for equation in equations:
        stack = [(equation, False)]
        while stack:
            item, ready = stack.pop()
            if item.tensor.name in done:
                continue
            if ready:
                done[item.tensor.name] = item
                continue
            stack.append((item, True))
            for read in postorder([item.body]):
                if isinstance(read, Read) and read.tensor.name in by_name:
                    stack.append((by_name[read.tensor.name], False))
    return done.values()
