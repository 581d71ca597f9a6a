"""Arrays of other libraries as NumPy arrays over the same memory, through DLPack capsules.

NumPy's own reader knows no bf16 and no 8-bit floats, so the capsule's structure is read here. The
capsule is never consumed: it lives as long as the array made from it, and frees the memory's owner
when it goes. The layout is that of DLPack 1.0 (and of the unversioned form before it).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorc.ir.dtypes import BY_NAME
from tensorc.ir.rounding import numpy_dtype

Array = npt.NDArray[Any]
READ_ONLY = 1  # in `flags`
_HOST = (1, 3, 11, 13)  # plain memory, and host memory pinned for CUDA, ROCm and unified
_DEVICES = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 14: "oneapi"}
_CODES = {
    (0, 8): "i8", (0, 16): "i16", (0, 32): "i32", (0, 64): "i64",
    (1, 8): "u8", (1, 16): "u16", (1, 32): "u32", (1, 64): "u64",
    (2, 16): "f16", (2, 32): "f32", (2, 64): "f64", (4, 16): "bf16",
    (5, 64): "complex64", (5, 128): "complex128", (6, 8): "bool",
    (10, 8): "f8e4m3", (12, 8): "f8e5m2",
}  # fmt: skip


class Unusable(Exception):
    """An array that cannot be taken: a code of the catalogue and its fields (without `array`)."""

    def __init__(self, code: str, **fields: str) -> None:
        super().__init__(code, fields)
        self.code, self.fields = code, fields


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("number", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
    )  # fmt: skip


class Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("free", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("free", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    )  # fmt: skip


class _Memory:
    """What NumPy makes an array of, and the capsule that keeps the memory alive."""

    def __init__(self, capsule: object, interface: dict[str, object]) -> None:
        self.capsule = capsule
        self.__array_interface__ = interface


def array_of(value: Any) -> Array:
    """A NumPy array over the memory of an object that has `__dlpack__`.

    It is read-only where the exporter says so. Raises Unusable for memory of a device (E210), for
    element types without a name here (E211), or where the exporter refuses (E213).
    """
    try:
        capsule = _capsule(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise Unusable("E213.export", reason=reason) from None
    tensor, flags = _read(capsule)
    if tensor.device not in _HOST:
        kind = _DEVICES.get(tensor.device, f"device kind {tensor.device}")
        raise Unusable("E210", found_device=f"{kind}:{tensor.number}", device="the CPU")
    return _view(capsule, tensor, bool(flags & READ_ONLY), _dtype(tensor))


def _dtype(tensor: _Tensor) -> np.dtype[Any]:
    name = _CODES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if name is None:
        found = f"DLPack type {tensor.code} of {tensor.bits} bits, {tensor.lanes} lanes"
        raise Unusable("E211", found_dtype=found, dtype="a type of the language")
    return np.dtype(numpy_dtype(BY_NAME[name]))


@dataclass(frozen=True)
class DeviceArray:
    """Memory of a device as its owner describes it. `address`: of the first element; `strides`: in
    elements; `owner`: what keeps the memory alive."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    number: int
    owner: object


def device_of(value: object) -> tuple[str, int] | None:
    """The kind of device on which an array lives, as "cuda", and its number; None for the host and
    for what does not say."""
    asked = getattr(value, "__dlpack_device__", None)
    if asked is None:
        return None
    try:
        kind, number = (int(part) for part in asked())
    except Exception:  # of any library's own kind; taking the array says what is wrong with it
        return None
    return None if kind in _HOST else (_DEVICES.get(kind, f"device kind {kind}"), number)


def on_gpu(operands: Sequence[object]) -> bool:
    """Whether any operand lives in the memory of a GPU that CUDA runs."""
    return any((device_of(item) or ("",))[0] == "cuda" for item in operands)


def device_array_of(value: Any, stream: int) -> DeviceArray:
    """An array in a GPU's memory, ready for work on `stream` (an address; 0 is the default one).

    Raises Unusable for element types without a name here (E211), or where the exporter refuses
    (E213).
    """
    try:
        capsule = value.__dlpack__(stream=stream or 1)  # 1 is the protocol's default stream
    except (BufferError, RuntimeError, ValueError) as error:
        raise Unusable("E213.export", reason=str(error)) from None
    tensor, _ = _read(capsule)
    dtype = _dtype(tensor)
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    given = tuple(tensor.strides[axis] for axis in range(tensor.ndim)) if tensor.strides else None
    address = int(tensor.data or 0) + int(tensor.offset)
    strides = row_major(shape) if given is None else given
    return DeviceArray(address, shape, strides, dtype, tensor.number, (value, capsule))


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of a dense array."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _capsule(value: Any) -> object:
    try:
        return value.__dlpack__(max_version=(1, 0))
    except TypeError:  # an exporter from before versions
        return value.__dlpack__()


def _read(capsule: object) -> tuple[_Tensor, int]:
    """The structure in a capsule that nobody has consumed, and its flags."""
    for name, kind in ((b"dltensor_versioned", _Versioned), (b"dltensor", Managed)):
        if _is_valid(capsule, name):
            found = kind.from_address(_pointer(capsule, name))
            if isinstance(found, Managed):
                return found.tensor, 0
            if found.major != 1:
                break
            return found.tensor, found.flags
    raise Unusable("E213.export", reason="its DLPack capsule is of no known version")


def _view(capsule: object, tensor: _Tensor, read_only: bool, dtype: np.dtype[Any]) -> Array:
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    strides: tuple[int, ...] | None = None
    if tensor.strides:
        strides = tuple(tensor.strides[axis] * dtype.itemsize for axis in range(tensor.ndim))
    if 0 in shape:
        return np.empty(shape, dtype)
    raw: dict[str, object] = {
        "version": 3, "shape": shape, "strides": strides, "typestr": f"|V{dtype.itemsize}",
        "data": (int(tensor.data or 0) + int(tensor.offset), read_only),
    }  # fmt: skip
    return np.asarray(_Memory(capsule, raw)).view(dtype)


_PROTOTYPE = ctypes.pythonapi
_PROTOTYPE.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_PROTOTYPE.PyCapsule_IsValid.restype = ctypes.c_int
_PROTOTYPE.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_PROTOTYPE.PyCapsule_GetPointer.restype = ctypes.c_void_p


def _is_valid(capsule: object, name: bytes) -> bool:
    return bool(_PROTOTYPE.PyCapsule_IsValid(capsule, name))


def _pointer(capsule: object, name: bytes) -> int:
    return int(_PROTOTYPE.PyCapsule_GetPointer(capsule, name))
