"""The reader of schedules: the text of `print_schedule`, also when written or changed by hand.

Only the form is read here; whether the schedule is one of a problem and keeps its limits is asked
of `verify_schedule` and `check_schedule`. Column widths and blank lines are free.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar, cast, get_args

from tensorc.errors import ArgumentError
from tensorc.ir import schedule as ir
from tensorc.ir.print_schedule import HEADERS, turns
from tensorc.ir.source import Diagnostic
from tensorc.ir.source import Source as Text

T = TypeVar("T")

_FIRST = re.compile(
    r"schedule (\S+) on (\S+): ii (\d+), bound (\d+) by (.+), "
    r"(closed form|refuted below|none), stages (\d+), slack (\d+(?:/\d+)?)$"
)
_LONGEST = 1 << 20


def read_schedule(text: str, name: str = "<schedule>") -> ir.Schedule:
    """The schedule that `text` prints; `name` stands for the file in messages.

    Raises ArgumentError (E407) with the line at the first thing that is not as printed.
    """
    if len(text) > _LONGEST:
        raise ArgumentError([Diagnostic("E407", f"{name} has more than {_LONGEST} characters")])
    return _Reader(Text(name, text)).read()


class _Reader:
    def __init__(self, text: Text) -> None:
        self.text = text
        self.lines = text.text.split("\n")
        self.at = 0

    def read(self) -> ir.Schedule:
        first = _FIRST.match(self.lines[0].rstrip())
        if not first:
            raise self.fault(
                "schedule NAME on MACHINE: ii N, bound N by LIMIT, PROOF, stages N, slack S"
            )
        problem, machine, ii, bound, limit, proof, stages, slack = first.groups()
        rows, note = self.tables()
        columns = {name: rows.get(name, []) for name in HEADERS}
        made = ir.Schedule(
            problem,
            machine,
            int(ii),
            tuple(self.row(r, _role) for r in columns["role"]),
            tuple(self.row(r, _placement) for r in columns["operation"]),
            tuple(self.row(r, _order) for r in columns["unit"]),
            tuple(self.row(r, _ring) for r in columns["ring"]),
            ir.Certificate(
                int(bound),
                limit,
                cast(ir.Proof, proof),
                int(stages),
                self.row((0, [slack]), lambda cells: Fraction(cells[0])),
                tuple(self.row(r, _figure) for r in columns["figure"]),
                tuple(self.row(r, _change) for r in columns["assumed"]),
                note,
            ),
        )
        self.turns(made, columns["operation"])
        return made

    def tables(self) -> tuple[dict[str, list[tuple[int, list[str]]]], str]:
        """The cells of every table's rows with their line numbers, and the note."""
        found: dict[str, list[tuple[int, list[str]]]] = {}
        table, note = "", ""
        for at, line in enumerate(self.lines[1:], start=1):
            self.at, cells = at, line.split()
            if line.startswith("  note "):
                note = line[len("  note ") :]
            elif cells and not line.startswith("    "):
                table = cells[0]
                if HEADERS.get(table) != tuple(cells) or table in found:
                    raise self.fault("a table once, with the header of its columns, or a note")
                found[table] = []
            elif cells and not table:
                raise self.fault("the header of a table before its rows")
            elif cells:
                found[table].append((at, cells))
        return found, note

    def row(self, row: tuple[int, list[str]], make: Callable[[list[str]], T]) -> T:
        self.at, cells = row
        try:
            return make(cells)
        except (ValueError, IndexError, ZeroDivisionError):
            raise self.fault("the columns of the table's header") from None

    def turns(self, made: ir.Schedule, rows: list[tuple[int, list[str]]]) -> None:
        """The column `order` of the operations is what the unit orders say."""
        for at, cells in rows:
            self.at = at
            expected = turns(made, cells[0])
            if " ".join(cells[4:]) != expected:
                raise self.fault(f"order {expected!r}, as the table of units says")

    def fault(self, allowed: str) -> ArgumentError:
        begin = sum(len(line) + 1 for line in self.lines[: self.at])
        line = self.lines[self.at]
        span = self.text.span(begin, begin + max(1, len(line)))
        message = f"line {self.at + 1} is not of a schedule"
        found = line.strip()[:80]
        return ArgumentError([Diagnostic("E407", message, span, found=found, allowed=allowed)])


def _role(cells: list[str]) -> ir.RolePlan:
    name, warps, registers = cells
    return ir.RolePlan(name, _count(warps), _count(registers))


def _placement(cells: list[str]) -> ir.Placement:
    return ir.Placement(cells[0], cells[1], _count(cells[2]), _count(cells[3]))


def _ring(cells: list[str]) -> ir.RingPlan:
    name, *numbers = cells
    depth, offset, full, size, empty = map(_count, numbers)
    return ir.RingPlan(name, depth, offset, full, size, empty)


def _order(cells: list[str]) -> ir.UnitOrder:
    split = cells.index("/")
    tokens = cells[split + 1 :]
    barriers = tuple(zip(tokens[::2], map(_count, tokens[1::2]), strict=True))
    return ir.UnitOrder(cells[0], tuple(cells[1:split]), barriers)


def _figure(cells: list[str]) -> ir.Figure:
    key, value, source = cells
    if source not in get_args(ir.Source):
        raise ValueError(source)
    return ir.Figure(key, Fraction(value), cast(ir.Source, source))


def _change(cells: list[str]) -> ir.Sensitivity:
    key, factor, ii, *roles = cells
    interval = None if ii == "infeasible" else _count(ii)
    return ir.Sensitivity(key, Fraction(factor), interval, tuple(roles))


def _count(cell: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", cell):
        raise ValueError(cell)
    return int(cell)
