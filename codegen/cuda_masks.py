"""Guards of fragments at the edges of what is visited: columns beyond a limit, row by row.

    s[m, n] = select(n <= m + |n| - |m|, t, -inf)

What a row's columns are compared with is computed once for the row, as a distance from the
thread's first column; which column a register holds is then a number known when the code is
compiled, so that an element takes a comparison and a move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from tensorc.codegen.cuda_fragments import Blocks
from tensorc.codegen.cuda_index import Index
from tensorc.codegen.cuda_scope import Scope
from tensorc.ir.affine import coefficient
from tensorc.ir.dtypes import INTEGER
from tensorc.ir.node import Node, replaced
from tensorc.ir.tensor import Apply, Expr, Literal, Position, free_indices
from tensorc.ir.walk_tile import tensors_in, values_in

_ZERO = Literal(Fraction(0), INTEGER)
_STRICT = {"lt": 1, "gt": 1, "le": 0, "ge": 0}


@dataclass(frozen=True)
class Limit:
    """Columns from `high - low` on (`upper`), or below it, do not hold the condition."""

    upper: bool
    high: Expr
    low: Expr
    more: int


def limits(condition: Expr, column: str) -> list[Limit] | None:
    """A condition as limits of a column; None: it is no such one."""
    match condition:
        case Apply(function, args) if function.name == "and":
            parts = [limits(arg, column) for arg in args]
            known = [part for part in parts if part is not None]
            return [one for part in known for one in part] if len(known) == len(parts) else None
        case Apply(function, (a, b)) if function.name in _STRICT:
            first, second = (a, b) if function.name in ("lt", "le") else (b, a)
            return _limit(first, second, _STRICT[function.name], column)
        case _:
            return None


def _limit(a: Expr, b: Expr, strict: int, column: str) -> list[Limit] | None:
    """a < b (strict), or a <= b."""
    left, right = coefficient(a, column), coefficient(b, column)
    if left is None or right is None or abs(left - right) != 1:
        return None
    low, high = (_at_zero(part, column) for part in (a, b))
    if left > right:
        return [Limit(True, high, low, 1 - strict)]
    return [Limit(False, low, high, strict)]


def _at_zero(expr: Expr, column: str) -> Expr:
    def zero(node: Node) -> Node | None:
        return _ZERO if isinstance(node, Position) and node.index == column else None

    return cast(Expr, replaced(expr, zero))


def masked(
    scope: Scope, condition: Expr, lanes: Mapping[str, Index], columns: tuple[str, ...],
    blocks: Blocks, text: str,
) -> Iterator[str] | None:  # fmt: skip
    """The lines that do `text` (of the register `[i][j][reg]`) where the condition does not hold;
    None: it is no limit of the frame's columns. `lanes`: of rows and columns at `i`, `j`, `reg`."""
    if len(columns) != 1 or not blocks.rows or values_in([condition]):
        return None
    if any(free_indices(read) & lanes.keys() for read in tensors_in([condition])):
        return None
    found = limits(condition, columns[0])
    return None if not found else _lines(scope, found, lanes, columns[0], blocks, text)


def _lines(
    scope: Scope, found: list[Limit], lanes: Mapping[str, Index], column: str, blocks: Blocks,
    text: str,
) -> Iterator[str]:  # fmt: skip
    rows = {index: _at_half(lane) for index, lane in lanes.items() if index != column}
    own, register = _split(lanes[column])
    yield f"TCT_FOR(i, {blocks.rows}) TCT_FOR(half, 2) {{"
    for line in scope.place(rows, [part for one in found for part in (one.high, one.low)]):
        yield f"  {line}"
    tests: list[str] = []
    for upper, name in ((True, "end"), (False, "begin")):
        texts = [_text(scope, one) for one in found if one.upper == upper]
        if not texts:
            continue
        total = texts[0]
        for other in texts[1:]:
            total = f"tcs_{'min' if upper else 'max'}({total}, {other})"
        first = " - ".join(filter(None, [scope.base(column), str(own) if own.factors else ""]))
        yield f"  const int {name} = tct_limit({total}{' - ' if first else ''}{first});"
        tests.append(f"{register} >= {name}" if upper else f"{register} < {name}")
    scope.leave()
    yield f"  TCT_FOR(j, {blocks.columns}) TCT_FOR(side, 2)"
    yield f"    if ({' || '.join(tests)}) {text.replace('[reg]', '[2 * half + side]')}"
    yield "}"


def _text(scope: Scope, limit: Limit) -> str:
    """A limit as C++, an i64."""
    high, low = (scope.e.subscript(part) for part in (limit.high, limit.low))
    more = f" + {limit.more}" if limit.more else ""
    less = "" if low in ("0", "0ll") else f" - {_whole(low)}"
    return f"(i64)({high}{less}{more})" if "tc" in high or less or more else high


def _whole(text: str) -> str:
    return f"({text})" if " " in text and not text.startswith("(") else text


def _split(lane: Index) -> tuple[Index, Index]:
    """What of a lane depends on the thread, and what on the register alone."""
    pairs = list(zip(lane.factors, lane.most, strict=True))
    own = [pair for pair in pairs if "lane" in pair[0][0] or "warp" in pair[0][0]]
    rest = [pair for pair in pairs if pair not in own]
    return (
        Index(tuple(f for f, _ in own), tuple(m for _, m in own)),
        Index(
            tuple(("side", n) if text == "(reg % 2)" else (text, n) for (text, n), _ in rest),
            tuple(m for _, m in rest), lane.constant,
        ),
    )  # fmt: skip


def _at_half(lane: Index) -> Index:
    """The same lane where half = reg / 2."""
    factors = tuple(("half" if text == "(reg / 2)" else text, n) for text, n in lane.factors)
    return Index(factors, lane.most, lane.constant)
