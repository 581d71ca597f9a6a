"""Loaded CPU kernels: object code in memory, called with arrays.

A kernel owns the code that it loaded; the code goes when the kernel goes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorc.ir.launch import Entry, Slot
from tensorc.libraries import llvm as library_llvm

Array = npt.NDArray[Any]
# Guarded scalar loads fall back to element 0, so even an empty array needs a readable address.
_SOMEWHERE = np.zeros(64, np.uint8)


class CpuKernel:
    """The kernels of one program, in order."""

    def __init__(self, code: bytes, entries: Sequence[Entry]) -> None:
        self.entries = tuple(entries)
        # The library goes before its linker: attributes are dropped in the order they were made.
        self._library, self._linker, addresses = _link(code, [e.symbol for e in self.entries])
        signature = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)
        self.functions: list[Any] = [signature(address) for address in addresses]


def _link(code: bytes, symbols: Sequence[str]) -> tuple[object, object, list[int]]:
    llvm = library_llvm()
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for symbol in symbols:
        builder.export_symbol(symbol)
    number, linker = _count(), _jit()
    library: Any = builder.link(linker, f"tensorc_{id(code):x}_{number}")
    return library, linker, [int(library[symbol]) for symbol in symbols]


_STATE: dict[str, Any] = {"count": 0}


_MOST = 64  # libraries of a linker, which keeps some 9 KB of each that is gone


def _jit() -> Any:
    """The process's linker, made on first use, and anew after some libraries: an old one goes with
    the last kernel that it linked."""
    if _STATE["count"] % _MOST == 1 or "jit" not in _STATE:
        llvm = library_llvm()
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _STATE["jit"] = llvm.create_lljit_compiler()
    return _STATE["jit"]


def _count() -> int:
    _STATE["count"] += 1
    return _STATE["count"]


def argument(slot: Slot, arrays: Mapping[str, Array], extents: Mapping[str, int]) -> int:
    """The 64 bits of one slot, other than the error word's; a stride is in elements, modulo 2**64.
    All blocks of loops run."""
    if slot.kind == "begin":
        return 0
    if slot.kind in ("extent", "end"):  # an index has at most as many blocks as positions
        return extents[slot.name]
    array = arrays[slot.name]
    if slot.kind == "pointer":
        return array.ctypes.data if array.size else _SOMEWHERE.ctypes.data
    if slot.kind == "size":
        return array.shape[slot.axis]
    return (array.strides[slot.axis] // array.itemsize) % (1 << 64)
