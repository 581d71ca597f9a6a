"""A kernel bound to shapes and strides: what remains of a call is pointers.

Calls with the same types, shapes and strides of arrays differ in addresses alone, so everything
else (sizes, strides, grid, result shapes) is laid out once. A warm call fills in pointers, makes
the results and runs.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tensorc.ir.launch import Slot
from tensorc.runtime.cpu import CpuKernel, argument, blocks

Array = npt.NDArray[Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Result:
    """A fresh array of every call: an output or a workspace."""

    name: str
    shape: Shape
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class _Step:
    """One kernel: its function, blocks, the slots as they are in every call, and which of them
    are the pointer into which array (by place among operands, then results, and bytes from its
    start) or the error word."""

    function: Callable[[object, int, int], None]
    blocks: int
    template: list[int]
    pack: Callable[..., bytes]
    pointers: tuple[tuple[int, int, int], ...]
    error: int | None


class Bound:
    """Call it with operands that have the types, shapes and strides it was bound to."""

    def __init__(
        self, kernel: CpuKernel, operands: Mapping[str, Array], outputs: Sequence[Result],
        workspaces: Sequence[Result], tables: Mapping[str, Array], extents: Mapping[str, int],
        parts: Mapping[str, tuple[str, str]],
    ) -> None:  # fmt: skip
        """`parts`: the names under which kernels know the parts of complex arrays."""
        self._kernel, self._tables = kernel, dict(tables)
        self._results = (*outputs, *workspaces)
        self._outputs = len(outputs)
        every = {**operands, **tables}
        every.update((item.name, np.empty(item.shape, item.dtype)) for item in self._results)
        order = [*operands, *(item.name for item in self._results)]
        places = {name: (n, 0) for n, name in enumerate(order)}
        for name, (re, im) in parts.items():
            if name in places:
                whole: Any = every[name]
                every[re], every[im] = whole.real, whole.imag
                place = places[name][0]
                places[re], places[im] = (place, 0), (place, every[re].itemsize)
        self._steps = [
            _step(function, entry.slots, blocks(entry, extents), every, extents, places)
            for entry, function in zip(kernel.entries, kernel.functions, strict=True)
        ]

    def __call__(
        self, operands: Sequence[Array], into: Sequence[Array] = ()
    ) -> tuple[list[Array], int]:
        """(the outputs, the number of a check that failed or 0).

        `into`: dense arrays of the outputs' types and shapes, written instead of fresh ones.
        """
        results = [np.empty(item.shape, item.dtype) for item in self._results[len(into) :]]
        if into:
            results[:0] = into
        arrays = [*operands, *results]
        addresses = [address(array) for array in arrays]
        failed = ctypes.c_int64(0)
        for step in self._steps:
            slots = step.template.copy()
            for slot, place, offset in step.pointers:
                slots[slot] = addresses[place] + offset
            if step.error is not None:
                slots[step.error] = ctypes.addressof(failed)
            step.function(step.pack(*slots), 0, step.blocks)
        return results[: self._outputs], failed.value


def _step(
    function: Callable[[object, int, int], None], slots: Sequence[Slot], count: int,
    arrays: Mapping[str, Array], extents: Mapping[str, int],
    places: Mapping[str, tuple[int, int]],
) -> _Step:  # fmt: skip
    nowhere = np.zeros(1, np.int64)
    values = [argument(slot, arrays, extents, nowhere) % (1 << 64) for slot in slots]
    pointers = tuple(
        (number, *places[slot.name])
        for number, slot in enumerate(slots)
        if slot.kind == "pointer" and slot.name in places and arrays[slot.name].size
    )
    error = next((n for n, slot in enumerate(slots) if slot.kind == "error"), None)
    return _Step(function, count, values, struct.Struct(f"={len(slots)}Q").pack, pointers, error)


def address(array: Array) -> int:
    """Where an array's elements start. The buffer protocol is quicker than `ctypes.data`, but
    serves dense, writable arrays only."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(cast(Any, array)))
    except (TypeError, ValueError, BufferError):
        return array.ctypes.data


def key(operands: Sequence[object]) -> tuple[object, ...] | None:
    """What a bound call depends on, or None where an operand is not a plain array."""
    parts: list[object] = []
    for array in operands:
        if type(array) is not np.ndarray or not array.flags.aligned:
            return None
        parts += (array.shape, array.strides, array.dtype)
    return tuple(parts)
