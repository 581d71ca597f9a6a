"""Arrays of NumPy, torch and JAX: taken as NumPy arrays over the same memory, results given back
in the library of the first.

No library is imported here that the caller has not imported: an array tells which one it is of.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tensorc.runtime.dlpack import Unusable, array_of
from tensorc.runtime.forms import learn

Array = npt.NDArray[Any]


def library_of(value: object) -> str:
    """ "numpy", "torch", "jax", another library's name, or "" for what is no array."""
    if isinstance(value, np.ndarray):
        return "numpy"
    if not hasattr(value, "__dlpack__"):
        return ""
    names = [base.__module__.partition(".")[0] for base in type(value).__mro__]
    if "torch" in names:  # a subclass of anybody's
        return "torch"
    return "jax" if names[0] == "jaxlib" else names[0]


def taken(value: Any) -> Any:
    """An array as a NumPy array over the same memory; anything else as it is.

    Raises Unusable for an array that a kernel cannot take: one that requires grad (E226), one on
    another device (E210), a masked one (E227), one that its library will not export (E213).
    """
    if isinstance(value, np.ma.MaskedArray):
        raise Unusable("E227")
    if isinstance(value, np.ndarray | np.generic) or not hasattr(value, "__dlpack__"):
        return cast(Any, value)
    if getattr(value, "requires_grad", False):
        raise Unusable("E226")
    if library_of(value) == "torch" and value.is_neg():  # torch lends its memory without the sign
        raise Unusable("E213.export", reason="its sign is yet to be changed; see resolve_neg()")
    if type(value).__name__.endswith("Tracer"):
        raise Unusable("E213.export", reason="JAX is tracing it; see jax.pure_callback")
    array = array_of(value)
    learn(value)
    if library_of(value) == "jax":
        array.flags.writeable = False  # JAX shares the memory of equal arrays
    return array


def known_arrays(operands: Sequence[object]) -> list[object]:
    """Operands as NumPy arrays where they can be; the others as they are, to be refused by name."""
    return [_known(value) for value in operands]


def _known(value: object) -> object:
    try:
        return taken(value)
    except Unusable:
        return value


def giving_back(operands: Sequence[object]) -> Callable[[Array], object]:
    """What turns a result into an array of the library of the first array among `operands`."""
    return {"torch": _to_torch, "jax": _to_jax}.get(library_of_first(operands), _same)


def library_of_first(operands: Sequence[object]) -> str:
    """The library of the first array among operands; NumPy if there is none."""
    libraries = (library_of(value) for value in operands)
    return next((name for name in libraries if name), "numpy")


def _same(array: Array) -> object:
    return array


def _to_torch(array: Array) -> object:
    """A tensor over the array's memory; the types that NumPy lacks pass as integers."""
    torch: Any = sys.modules["torch"]
    if array.dtype.isbuiltin == 1:
        return torch.from_numpy(array)
    plain = array.view(np.int8 if array.itemsize == 1 else np.int16)
    return torch.from_numpy(plain).view(getattr(torch, array.dtype.name))


_SMALL = 1 << 16  # bytes that JAX copies sooner than it reads a capsule


def _to_jax(array: Array) -> object:
    """A JAX array with the type that the operator declares, also where JAX's x64 mode is off."""
    jax: Any = sys.modules["jax"]
    wide = array.dtype.kind in "iufc" and array.itemsize >= (16 if array.dtype.kind == "c" else 8)
    if array.dtype.isbuiltin != 1 or (array.nbytes <= _SMALL and not wide):
        return jax.numpy.asarray(array)
    with jax.enable_x64(True):
        return jax.numpy.from_dlpack(cast(Any, array))
