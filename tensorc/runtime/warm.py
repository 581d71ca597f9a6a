"""A call like an earlier one: what is left of it is pointers.

Types, shapes and strides are those of the earlier call, so nothing about them is checked again.
Outputs that the caller gives are checked to be the same memory as before, apart from the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorc.ir.rounding import numpy_dtype
from tensorc.ir.tensor import Program
from tensorc.runtime.arrays import scalar
from tensorc.runtime.compiled import Call
from tensorc.runtime.forms import SCALARS, Reader, key, reader, starting
from tensorc.runtime.results import is_direct

Array = npt.NDArray[Any]


class Warm:
    """A bound call and how its results are given to the caller."""

    def __init__(
        self, program: Program, call: Call, operands: Sequence[object],
        arrays: Sequence[Array], back: Callable[[Array], object] | None,
    ) -> None:  # fmt: skip
        """`operands` as they were given, `arrays` as they were taken; `back` turns a result into
        an array of the caller's library (None: it is one)."""
        self.call, self.back = call, back
        types = [item.tensor.dtype for item in program.parameters]
        self.scalars = [
            (place, types[place], numpy_dtype(types[place]))
            for place, operand in enumerate(operands)
            if isinstance(operand, (*SCALARS, np.generic))
        ]
        numbers = {place for place, _, _ in self.scalars}
        number = np.empty(1)  # as `scalar` makes them
        self.starts = starting([number if n in numbers else x for n, x in enumerate(operands)])
        self.spans = [_span(array) for array in arrays]
        self.outputs: tuple[object, ...] = ()

    def into(self, outputs: Sequence[object], views: Sequence[Array], checks: bool) -> Warm:
        """Write into these arrays from now on, which have been found to fit; `views`: as they were
        taken. With `checks` in the program they are written after all has gone well."""
        self.outputs, self.views = tuple(outputs), tuple(views)
        self.form, self.places = key(outputs), [view.ctypes.data for view in views]
        self.targets: list[tuple[Reader, int, Any]] = [
            (reader(output), place, output if isinstance(output, np.ndarray) else None)
            for output, place in zip(outputs, self.places, strict=True)
        ]
        self.near = [
            (operand, place + low - end, place + high - first)
            for place, (low, high) in zip(self.places, map(_span, views), strict=True)
            for operand, (first, end) in enumerate(self.spans)
        ]
        self.direct = not checks and all(map(is_direct, views))
        return self

    def __call__(self, operands: Sequence[object]) -> object:
        """The outputs: one, or a tuple of several. None: this has to be looked at again, since
        a number does not fit, or the outputs given have changed or share memory with an operand."""
        if self.scalars:
            operands = list(operands)
            for place, dtype, storage in self.scalars:
                operands[place] = number = scalar(operands[place], dtype)
                if number.dtype != storage:  # a number that the type cannot hold
                    return None
        try:
            starts = self.starts(operands)
        except (RuntimeError, ValueError):  # memory that is not to be had: the long way says why
            return None
        if self.outputs:
            return self.written(operands, starts)
        results, back = self.call.at(starts, [], operands, ()), self.back
        if len(results) == 1:
            return results[0] if back is None else back(results[0])
        return tuple(results) if back is None else tuple(map(back, results))

    def written(self, operands: Sequence[object], starts: list[int]) -> object:
        """The outputs given, filled; None as above."""
        outputs, views, places = self.outputs, self.views, self.places
        if key(outputs) != self.form:
            return None
        for array, (read, place, own) in zip(outputs, self.targets, strict=True):
            if read(array) != place or (own is not None and not own.flags.writeable):
                return None
        for operand, low, high in self.near:
            if low < starts[operand] < high:  # they may share memory
                return None
        if self.direct:
            self.call.at(starts, places, operands, views)
        else:
            for view, array in zip(views, self.call.at(starts, [], operands, ()), strict=True):
                view[...] = array
        return outputs[0] if len(outputs) == 1 else outputs


def _span(array: Array) -> tuple[int, int]:
    """The bytes that an array covers, from the lowest to behind the highest, seen from its first
    element; nothing where it has none."""
    if not array.size:
        return 0, 0
    low = high = 0
    for size, stride in zip(array.shape, array.strides, strict=True):
        reach = (size - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high + array.itemsize
