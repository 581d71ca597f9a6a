"""Arguments of a call as NumPy arrays that a kernel can take, and results as fresh ones.

Arrays of other libraries come through `interop`. An array is taken as it is when its elements are
aligned and its strides are whole elements; otherwise a dense copy is taken. A bf16 array is
ml_dtypes' bfloat16 or raw 16-bit data (`V2`, u2) holding its bits; f8 likewise with 8 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tensorc.errors import ArgumentError
from tensorc.ir.dtypes import BOOL, DType, integer_range
from tensorc.ir.launch import Strides
from tensorc.ir.rounding import numpy_dtype
from tensorc.ir.source import Diagnostic
from tensorc.ir.tensor import Declaration, Program
from tensorc.runtime.advice import wrong_rank, wrong_type
from tensorc.runtime.dlpack import Unusable
from tensorc.runtime.interop import taken

Array = npt.NDArray[Any]


def arguments(program: Program, given: Mapping[str, object]) -> dict[str, Array]:
    """The arrays of all parameters, checked for dtype and rank; all faults raised together."""
    faults: list[Diagnostic] = []
    arrays: dict[str, Array] = {}
    for parameter in program.parameters:
        name = parameter.tensor.name
        if name not in given:
            faults.append(_fault("E210", parameter, "no array was given", f"give {name}=..."))
            continue
        try:
            array = _as_array(given[name], parameter.tensor.dtype)
        except Unusable as found:
            faults.append(unusable(found, name, parameter))
            continue
        fault = _check(parameter, array, given[name])
        faults.extend(fault)
        if not fault:
            dtype = numpy_dtype(parameter.tensor.dtype)
            arrays[name] = _usable(array if array.dtype == dtype else array.view(dtype))
    unknown = sorted(set(given) - {item.tensor.name for item in program.parameters})
    faults += [
        Diagnostic("E210", f"{name} is not a parameter of {program.name}") for name in unknown
    ]
    if faults:
        raise ArgumentError(faults)
    return arrays


def _as_array(value: object, dtype: DType) -> Array:
    """A Python or NumPy scalar takes the parameter's type; anything else must be an array."""
    value = taken(value)
    return cast(Array, value) if isinstance(value, np.ndarray) else scalar(value, dtype)


def scalar(value: object, dtype: DType) -> Array:
    """A 0-d array of a Python scalar, which takes the parameter's type if that can hold it, or of a
    NumPy scalar. Anything that NumPy makes an array of is that array."""
    if not isinstance(value, bool | int | float | complex):
        return np.asarray(value)
    if not _fits(value, dtype):
        return np.asarray(value, None if abs(value) < 1 << 63 else object)
    with np.errstate(over="ignore"):
        return np.asarray(value).astype(numpy_dtype(dtype))


def _fits(value: complex, dtype: DType) -> bool:
    """Whether a Python scalar is a value of a type: bool of any, integers of their range, floats
    with rounding, but none that would turn infinite."""
    if isinstance(value, bool):
        return True
    if isinstance(value, int) and dtype.integral:
        low, high = integer_range(dtype)
        return dtype is not BOOL and low <= value <= high
    if dtype.complex or (dtype.floating and not isinstance(value, complex)):
        return _stays_finite(value, dtype)
    return False


def _stays_finite(value: complex, dtype: DType) -> bool:
    try:
        number = complex(value)
    except OverflowError:
        return False
    if not np.isfinite(number):
        return True
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.asarray(number if dtype.complex else number.real)
                                .astype(numpy_dtype(dtype)).astype(complex)))  # fmt: skip


def unusable(found: Unusable, name: str, parameter: Declaration) -> Diagnostic:
    """The fault of an array that could not be taken."""
    from tensorc.ir.diagnostics import filled

    return filled(found.code, parameter.span, {"array": name, **found.fields})


def _check(parameter: Declaration, array: Array, given: object) -> list[Diagnostic]:
    tensor = parameter.tensor
    if not _holds(array.dtype, tensor.dtype):
        advice = wrong_type(tensor.name, given, array.dtype, tensor.dtype)
        return [_fault("E211", parameter, *advice)]
    if array.ndim != len(tensor.shape):
        advice = wrong_rank(tensor.name, array.shape, len(tensor.shape))
        return [_fault("E204", parameter, *advice)]
    return []


def _holds(found: np.dtype[Any], wanted: DType) -> bool:
    """The same type, or raw data of the same width for types that NumPy lacks."""
    target = numpy_dtype(wanted)
    if found == target:
        return True
    raw = target.kind == "V" or target.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    return raw and found.itemsize == target.itemsize and found.kind in "Vu"


def _fault(code: str, parameter: Declaration, found: str, do: str) -> Diagnostic:
    tensor = parameter.tensor
    dims = ", ".join(dim or "_" for dim in parameter.dims)
    return Diagnostic(
        code, f"{tensor.name} does not fit its declaration", parameter.span,
        found=found, allowed=f"{tensor.dtype}[{dims}]", do=do,
    )  # fmt: skip


def _usable(array: Array) -> Array:
    """The array, or a dense copy where its address or strides are not whole elements."""
    whole = all(stride % array.itemsize == 0 for stride in array.strides)
    aligned = array.ctypes.data % array.itemsize == 0
    native = array.dtype.isnative
    return array if whole and aligned and native else np.ascontiguousarray(array, array.dtype)


def stride_class(array: Array) -> Strides | None:
    """None for a row-major array; else its strides in elements, of which 0 and 1 are known when
    compiling and the others at the call. Strides of extents below 2 do not matter."""
    if array.flags.c_contiguous:
        return None
    strides = [stride // array.itemsize for stride in array.strides]
    kept = [
        0 if size < 2 else stride if stride in (0, 1) else None
        for size, stride in zip(array.shape, strides, strict=True)
    ]
    return tuple(kept)


def unit_axis(strides: Strides) -> int | None:
    """The axis along which elements are neighbours, or every other one, if one is known."""
    return next((axis for axis, stride in enumerate(strides) if stride in (1, 2)), None)


def empty(shape: tuple[int, ...], dtype: DType) -> Array:
    """A fresh result array."""
    return np.empty(shape, np.bool_ if dtype is BOOL else numpy_dtype(dtype))
