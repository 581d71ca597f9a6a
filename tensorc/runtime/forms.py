"""The form of operands: all that a call depends on beside their elements, and where those start.

Operands of one form are served by one bound call. Of the libraries, NumPy is known here; a type of
torch or JAX is known from the first array of it that was taken. The questions asked are those of
the libraries' public interfaces.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Reader = Callable[[Any], int]
SCALARS = (bool, int, float, complex)


# By type of array: what tells its arrays apart, and where the first element lies. The first may
# raise where an array is not to be had; such a call goes the long way.
_FORMS: dict[type, Callable[[Any], tuple[object, ...]]] = {}
_READERS: dict[type, Reader] = {}
addressof, buffer = ctypes.addressof, ctypes.c_char.from_buffer
# A prototype of our own: those of `ctypes.pythonapi` are shared with everybody in the process.
_content = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_word = ctypes.c_void_p.from_address
_DATA = 24 + 2 * ctypes.sizeof(ctypes.c_void_p)  # of `data` in NumPy's PyArrayInterface


def learn(value: object) -> None:
    """Know the type of an array that was taken from another library."""
    kind = type(value)
    if kind in _FORMS:
        return
    plain: Any = kind
    match kind.__module__.partition(".")[0], kind.__name__:
        case "torch", "Tensor":
            _FORMS[kind], _READERS[kind] = _torch_key, plain.data_ptr
        case "jaxlib", "ArrayImpl":
            _FORMS[kind], _READERS[kind] = _jax_key, _jax_address
        case _:
            pass


def key(operands: Sequence[Any]) -> tuple[object, ...] | None:
    """What a bound call depends on, or None where an operand is of no known form. Scalars are told
    apart by their types alone."""
    parts: list[object] = []
    forms = _FORMS
    for array in operands:
        kind = type(array)  # pyright: ignore[reportUnknownVariableType]
        if kind is np.ndarray:
            if not array.flags.aligned:
                return None
            parts += (array.shape, array.strides, array.dtype)
        elif (form := forms.get(kind)) is not None:  # pyright: ignore[reportUnknownArgumentType]
            try:
                parts += form(array)
            except (RuntimeError, ValueError, AttributeError):
                return None
        elif kind in SCALARS or isinstance(array, np.generic):
            parts.append(kind)  # pyright: ignore[reportUnknownArgumentType]
        else:
            return None
    return tuple(parts)


def reader(array: Any) -> Reader:
    """What tells where the elements of arrays like this one start: right for all of its type, and
    quickest for those that are dense and writable as this one is, or is not."""
    known = _READERS.get(type(array))  # pyright: ignore[reportUnknownArgumentType]
    if known is not None:
        return known
    return _by_interface if isinstance(array, np.ndarray) and not is_plain(array) else address


def starting(operands: Sequence[Any]) -> Callable[[Sequence[Any]], list[int]]:
    """What tells where the elements of all start, for operands of the same types; see `reader`."""
    readers = [reader(array) for array in operands]
    first = readers[0] if readers else address

    def each(found: Sequence[Any]) -> list[int]:
        return [read(array) for read, array in zip(readers, found, strict=True)]

    def dense(found: Sequence[Any]) -> list[int]:
        try:
            return [addressof(buffer(array)) for array in found]
        except (TypeError, ValueError, BufferError):
            return each(found)

    if any(read is not first for read in readers):
        return each
    return dense if first is address else lambda found: list(map(first, found))


def is_plain(array: Any) -> bool:
    """Whether a NumPy array's memory is to be had by the buffer protocol: dense, writable, not
    empty, of a type of NumPy's own."""
    flags = array.flags
    return bool(
        flags.c_contiguous and flags.writeable and array.size and array.dtype.isbuiltin == 1
    )


def address(array: Any) -> int:
    """Where the elements of a NumPy array start: by the buffer protocol, which serves dense,
    writable arrays, else by the array interface."""
    try:
        return addressof(buffer(array))
    except (TypeError, ValueError, BufferError):
        return _by_interface(array)


def _by_interface(array: Any) -> int:
    """The same by the array interface's structure, which every NumPy array has."""
    return _word((_content(array.__array_struct__, None) or 0) + _DATA).value or 0


def _torch_key(x: Any) -> tuple[object, ...]:
    strides = x.is_contiguous() or x.stride()
    return x.shape, strides, x.dtype, x.is_cpu, x.requires_grad, x.is_conj(), x.is_neg()


def _jax_key(x: Any) -> tuple[object, ...]:
    return x.shape, x.dtype, x.format, x.is_deleted()  # the format: layout, device, memory


def _jax_address(x: Any) -> int:
    return x.block_until_ready().unsafe_buffer_pointer()
