"""Which reads stay within their tensors wherever their indices are, whatever guards say."""

from __future__ import annotations

import itertools

from tensorc.ir.polynomial import Polynomial
from tensorc.ir.ranges import Ranges, Verdict
from tensorc.ir.tensor import Expr, Position, Program, Read, free_indices


class ReadRanges:
    """The reads of one program; each is judged once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.known_in_range: dict[Read, bool] = {}

    def in_range(self, read: Read) -> bool:
        """Whether a read is in range wherever its indices are, whatever guards say."""
        if read not in self.known_in_range:
            pairs = zip(read.subscripts, read.tensor.shape, strict=True)
            self.known_in_range[read] = all(itertools.starmap(self.stays, pairs))
        return self.known_in_range[read]

    def stays(self, subscript: Expr, limit: Polynomial) -> bool:
        program = self.program
        if isinstance(subscript, Position) and program.extent_of[subscript.index] is limit:
            return True
        ranges = Ranges(program.extent_of, free_indices(subscript))
        if ranges.judge(subscript, limit).verdict is Verdict.PROVED:
            return True
        value = ranges.integers.polynomial(subscript)
        return any(
            not item.guards and item.value is value and item.limit is limit
            for item in program.conditions
        )
