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
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorc.ir.launch import Entry, Slot
from tensorc.runtime.cpu import CpuKernel, argument
from tensorc.runtime.forms import address
from tensorc.runtime.pieces import Piece, cut
from tensorc.runtime.threads import share

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
    """One kernel: its function, the threads that share its pieces, the slots as they are in every
    call, and which of them are the pointer into which array (by place among operands, then
    results, and bytes from its start) or the error word."""

    function: Callable[[object, int, int], None]
    threads: int
    pieces: tuple[Piece, ...]
    template: list[int]
    pack: Callable[..., bytes]
    pointers: tuple[tuple[int, int, int], ...]
    error: int | None


class Bound:
    """Call it with operands that have the types, shapes and strides it was bound to."""

    def __init__(
        self, kernel: CpuKernel, operands: Mapping[str, Array], outputs: Sequence[Result],
        workspaces: Sequence[Result], tables: Mapping[str, Array], extents: Mapping[str, int],
        parts: Mapping[str, tuple[str, str]], failed: Callable[[int, Sequence[Any]], None],
        weights: Mapping[str, int] | None = None, threads: int = 1,
    ) -> None:  # fmt: skip
        """`parts`: the names under which kernels know the parts of complex arrays. `failed`: told
        the number of a check that failed, and the operands; it raises. `weights`: about how many
        operations a kernel does, by symbol. `threads`: how many may share a kernel."""
        self._kernel, self._tables = kernel, dict(tables)
        self._results = (*outputs, *workspaces)
        self._outputs, self._failed = len(outputs), failed
        self._fresh = [(item.shape, item.dtype) for item in self._results]
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
        self._steps: list[_Step] = []
        for entry, function in zip(kernel.entries, kernel.functions, strict=True):
            work = _work(entry, weights or {}, every)
            helped, pieces = cut(entry, extents, work, threads)
            step = _step(function, entry.slots, helped, pieces, every, extents, places)
            self._steps.append(step)

    def __call__(self, operands: Sequence[Any], into: Sequence[Array] = ()) -> list[Array]:
        """The outputs. `into`: dense arrays of the outputs' types and shapes, written instead of
        fresh ones. Raises what `failed` raises."""
        starts = [address(array) for array in operands]
        ends = [address(array) for array in into] if into else []
        return self.at(starts, ends, operands, into)

    def at(
        self, starts: list[int], ends: list[int], operands: Sequence[Any], into: Sequence[Array]
    ) -> list[Array]:
        """The same where the addresses of operands and of the outputs given are known."""
        wanted = self._fresh[len(into) :] if into else self._fresh
        fresh = [np.empty(shape, dtype) for shape, dtype in wanted]
        addresses = starts + ends + [address(array) for array in fresh]
        arrays = operands, into, fresh
        failed = ctypes.c_int64(0)
        for step in self._steps:
            slots = step.template.copy()
            for slot, place, offset in step.pointers:
                slots[slot] = addresses[place] + offset
            if step.error is not None:
                slots[step.error] = ctypes.addressof(failed)
            if step.threads > 1:
                _shared(step, slots, (arrays, failed))
            else:
                step.function(step.pack(*slots), 0, step.pieces[0].end)
        if failed.value:
            self._failed(failed.value, operands)
        if into:
            return list(into)
        return fresh if len(fresh) == self._outputs else fresh[: self._outputs]


def _shared(step: _Step, slots: Sequence[int], memory: object) -> None:
    """Run the pieces of a kernel on several threads. `memory` lives as long as one of them runs,
    also where the caller is interrupted."""

    def do(number: int, _: object = memory) -> None:
        piece, own = step.pieces[number], list(slots)
        for slot, value in piece.slots:
            own[slot] = value
        step.function(step.pack(*own), piece.begin, piece.end)

    share(do, len(step.pieces), step.threads)


def _work(
    entry: Entry, weights: Mapping[str, int], arrays: Mapping[str, Array]
) -> tuple[int, int] | None:
    """A kernel's operations, and the bytes that it has to move; None if its blocks run in order."""
    if entry.symbol not in weights:
        return None
    names = {slot.name for slot in entry.slots if slot.kind == "pointer"}
    return weights[entry.symbol], sum(arrays[name].nbytes for name in names)


def _step(
    function: Callable[[object, int, int], None], slots: Sequence[Slot], threads: int,
    pieces: tuple[Piece, ...], arrays: Mapping[str, Array], extents: Mapping[str, int],
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
    pack = struct.Struct(f"={len(slots)}Q").pack
    return _Step(function, threads, pieces, values, pack, pointers, error)
