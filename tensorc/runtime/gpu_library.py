"""What a call on a GPU asks of the library that owns its arrays: a stream, memory, and whether
work is being captured rather than run.

Results and scratch memory come from the library itself, so that its allocator knows on which stream
they are used. No library is imported here that the caller has not imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorc.libraries import library
from tensorc.runtime.interop import library_of


@dataclass(frozen=True)
class GpuLibrary:
    """One library on one GPU. `stream`: the address of the stream that it is using now; `empty`:
    fresh memory of a shape and type; `capturing`: whether a CUDA graph is being recorded."""

    name: str
    stream: Callable[[], int]
    empty: Callable[[tuple[int, ...], np.dtype[Any]], object]
    capturing: Callable[[], bool]


def library_for(array: object, number: int) -> GpuLibrary:
    """The library of an array on GPU `number`; what is neither torch nor JAX is served by CuPy."""
    makers = {"torch": _torch, "jax": _jax}
    return makers.get(library_of(array), _cupy)(number)


def _torch(number: int) -> GpuLibrary:
    torch: Any = sys.modules["torch"]

    def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> object:
        kind = getattr(torch, _TORCH_NAMES.get(dtype.name, dtype.name))
        return torch.empty(shape, dtype=kind, device=f"cuda:{number}")

    return GpuLibrary(
        "torch", lambda: int(torch.cuda.current_stream(number).cuda_stream), empty,
        lambda: bool(torch.cuda.is_current_stream_capturing()),
    )  # fmt: skip


_TORCH_NAMES = {"bool": "bool", "float8_e4m3fn": "float8_e4m3fn"}  # the others are called alike


def _cupy(number: int) -> GpuLibrary:
    cupy = library("cupy", "'tensorc[cuda]'")

    def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> object:
        with cupy.cuda.Device(number):
            return cupy.empty(shape, _plain(dtype))

    def stream() -> int:
        return int(cupy.cuda.get_current_stream(number).ptr)

    return GpuLibrary(
        "cupy", stream, empty, lambda: bool(cupy.cuda.runtime.streamIsCapturing(stream()))
    )


def _plain(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """CuPy has no 8-bit floats and not everywhere bf16: their bits are given instead."""
    return np.dtype(f"u{dtype.itemsize}") if dtype.kind == "V" else dtype


def _jax(number: int) -> GpuLibrary:
    """JAX orders work itself: its arrays are ready when DLPack hands them over, and results are
    made by CuPy and handed back."""
    made = _cupy(number)
    return GpuLibrary("jax", lambda: 0, made.empty, lambda: False)


def given_back(name: str, array: Any) -> object:
    """A result as an array of the library `name`."""
    if name != "jax":
        return array
    jax: Any = sys.modules["jax"]
    return jax.numpy.from_dlpack(array)
