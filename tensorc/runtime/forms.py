"""The form of operands: all that a call depends on beside their elements, and where those start.

Operands of one form are served by one bound call. Of the libraries, NumPy is known here; a type of
torch or JAX is known from the first array of it that was taken. The questions asked are those of
the libraries' public interfaces.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

SCALARS = (bool, int, float, complex)


@dataclass(frozen=True)
class Form:
    """Of one type of array: what tells its arrays apart, and the address of the first element.
    Either may raise where an array is not to be had; such a call goes the long way."""

    key: Callable[[Any], tuple[object, ...]]
    address: Callable[[Any], int]


_FORMS: dict[type, Form] = {}
_addressof, _buffer = ctypes.addressof, ctypes.c_char.from_buffer


def learn(value: object) -> None:
    """Know the type of an array that was taken from another library."""
    kind = type(value)
    if kind in _FORMS:
        return
    match kind.__module__.partition(".")[0], kind.__name__:
        case "torch", "Tensor":
            _FORMS[kind] = Form(_torch_key, _torch_address)
        case "jaxlib", "ArrayImpl":
            _FORMS[kind] = Form(_jax_key, _jax_address)
        case _:
            pass


def key(operands: Sequence[object]) -> tuple[object, ...] | None:
    """What a bound call depends on, or None where an operand is of no known form. Scalars are told
    apart by their types alone."""
    parts: list[object] = []
    for array in operands:
        kind = type(array)
        if kind is np.ndarray:
            plain = cast("np.ndarray[Any, Any]", array)
            if not plain.flags.aligned:
                return None
            parts += (plain.shape, plain.strides, plain.dtype)
        elif (form := _FORMS.get(kind)) is not None:
            try:
                parts += form.key(array)
            except (RuntimeError, ValueError, AttributeError):
                return None
        elif kind in SCALARS or isinstance(array, np.generic):
            parts.append(kind)
        else:
            return None
    return tuple(parts)


def address(array: Any) -> int:
    """Where an array's elements start. The buffer protocol is quicker than `ctypes.data`, but
    serves dense, writable arrays only."""
    form = _FORMS.get(type(array))  # pyright: ignore[reportUnknownArgumentType]
    if form is not None:
        return form.address(array)
    try:
        return _addressof(_buffer(array))
    except (TypeError, ValueError, BufferError):
        return array.ctypes.data


def _torch_key(x: Any) -> tuple[object, ...]:
    return (
        "torch", x.shape, x.stride(), x.dtype, x.device, x.requires_grad, x.is_conj(), x.is_neg()
    )  # fmt: skip


def _torch_address(x: Any) -> int:
    return x.data_ptr()


def _jax_key(x: Any) -> tuple[object, ...]:
    return "jax", x.shape, x.dtype, x.device


def _jax_address(x: Any) -> int:
    return x.block_until_ready().unsafe_buffer_pointer()
