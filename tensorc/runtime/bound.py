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
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorc.ir.launch import Entry
from tensorc.runtime.cpu import CpuKernel, argument
from tensorc.runtime.forms import address, addressof, buffer, is_plain
from tensorc.runtime.pieces import Piece, cut
from tensorc.runtime.threads import share

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Place = tuple[int, int]  # an operand or result by its number, and bytes from its start


@dataclass(frozen=True)
class Result:
    """A fresh array of every call: an output or a workspace."""

    name: str
    shape: Shape
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class _Step:
    """One kernel: its function, the threads that share its pieces (one alone runs all blocks), and
    its slots: `pick` takes them from the words of a call, `pack` makes them bytes."""

    function: Callable[[object, int, int], None]
    threads: int
    blocks: int
    pieces: tuple[Piece, ...]
    pack: Callable[..., bytes]
    pick: Callable[[Sequence[int]], tuple[int, ...]]


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
        every = {**operands, **tables}
        every.update((item.name, np.empty(item.shape, item.dtype)) for item in self._results)
        self._fresh = [(r.shape, r.dtype, is_plain(every[r.name])) for r in self._results]
        order = [*operands, *(item.name for item in self._results)]
        places: dict[str, Place] = {name: (n, 0) for n, name in enumerate(order)}
        for name, (re, im) in parts.items():
            if name in places:
                whole: Any = every[name]
                every[re], every[im] = whole.real, whole.imag
                place = places[name][0]
                places[re], places[im] = (place, 0), (place, every[re].itemsize)
        named = {name: place for name, place in places.items() if every[name].size}
        slots, within, constants = _words(kernel.entries, len(order), named, every, extents)
        self._within, self._constants = within, constants
        total = len(order) + 1 + len(self._within) + len(self._constants)
        self._steps: list[_Step] = []
        for entry, function, own in zip(kernel.entries, kernel.functions, slots, strict=True):
            helped, pieces = cut(entry, extents, _work(entry, weights or {}, every), threads)
            pack, pick = struct.Struct(f"={len(own)}Q").pack, _picker(own, total)
            self._steps.append(_Step(function, helped, pieces[-1].end, pieces, pack, pick))

    def __call__(self, operands: Sequence[Any], into: Sequence[Array] = ()) -> list[Array]:
        """The outputs. `operands` are NumPy arrays. `into`: dense arrays of the outputs' types and
        shapes, written instead of fresh ones. Raises what `failed` raises."""
        return self.at(list(map(address, operands)), list(map(address, into)), operands, into)

    def at(
        self, starts: list[int], ends: list[int], operands: Sequence[Any], into: Sequence[Array]
    ) -> list[Array]:
        """The same where the addresses of operands and of the outputs given are known."""
        fresh: list[Array] = []
        words, failed = starts + ends, ctypes.c_int64(0)
        for shape, dtype, plain in self._fresh[len(into) :] if into else self._fresh:
            array: Any = np.empty(shape, dtype)
            fresh.append(array)
            words.append(addressof(buffer(array)) if plain else address(array))
        words.append(addressof(failed))
        if self._within:
            words += [words[place] + offset for place, offset in self._within]
        words += self._constants
        for step in self._steps:
            if step.threads > 1:
                _shared(step, step.pick(words), (operands, into, fresh, failed))
            else:
                step.function(step.pack(*step.pick(words)), 0, step.blocks)
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


def _words(
    entries: Sequence[Entry], arrays: int, places: Mapping[str, Place],
    every: Mapping[str, Array], extents: Mapping[str, int],
) -> tuple[list[list[int]], list[Place], list[int]]:  # fmt: skip
    """The words of a call: addresses of its arrays and of the error word, addresses within arrays,
    then constants. (For each kernel, which word is in which slot; what is within arrays; the
    constants.) `places`: of what has elements, by the name of a slot."""
    within = sorted({place for place in places.values() if place[1]})
    words = {(n, 0): n for n in range(arrays)}
    words |= {place: n for n, place in enumerate(within, arrays + 1)}
    constants: list[int] = []
    found: list[list[int]] = []
    for entry in entries:
        found.append([])
        for slot in entry.slots:
            if slot.kind == "error":
                found[-1].append(arrays)
            elif slot.kind == "pointer" and slot.name in places:
                found[-1].append(words[places[slot.name]])
            else:
                found[-1].append(arrays + 1 + len(within) + len(constants))
                constants.append(argument(slot, every, extents) % (1 << 64))
    return found, within, constants


def _picker(places: Sequence[int], count: int) -> Callable[[Sequence[int]], tuple[int, ...]]:
    """What takes these places of a sequence of `count`, in this order."""
    if list(places) == list(range(count)):
        return tuple
    if len(places) < 2:  # of one place, `itemgetter` gives no tuple
        return lambda words: tuple(words[place] for place in places)
    return itemgetter(*places)
