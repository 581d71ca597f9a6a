"""Complex tensors as two real ones, their real and imaginary parts: names and types.

A complex array in memory is its parts side by side, so a part is a view with twice the strides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorc.ir.dtypes import COMPLEX64, F32, F64, DType
from tensorc.ir.tensor import Program, Tensor

Array = npt.NDArray[Any]
Names = Mapping[str, tuple[str, str]]


def part_type(dtype: DType) -> DType:
    """The type of the parts of a complex type."""
    return F32 if dtype is COMPLEX64 else F64


def tensors(program: Program) -> list[Tensor]:
    """Every tensor of a program: parameters, outputs, intermediates and tables."""
    found = [item.tensor for item in (*program.parameters, *program.outputs)]
    found += [item.tensor for item in (*program.equations, *program.tables)]
    return list(dict.fromkeys(found))


def part_names(program: Program) -> dict[str, tuple[str, str]]:
    """The names of the real and the imaginary part of every complex tensor."""
    every = tensors(program)
    used = {tensor.name for tensor in every} | {name for name, _ in program.extents}
    names: dict[str, tuple[str, str]] = {}
    for tensor in every:
        if tensor.dtype.complex:
            re, im = (_fresh(f"{tensor.name}_{part}", used) for part in ("re", "im"))
            names[tensor.name] = re, im
    return names


def split(arrays: Mapping[str, Array], names: Names) -> dict[str, Array]:
    """The arrays with views of both parts in the place of each complex one that has `names`."""
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        if name in names:
            whole: Any = array  # NumPy's types do not know that views of parts are arrays
            found |= dict(zip(names[name], (whole.real, whole.imag), strict=True))
        else:
            found[name] = array
    return found


def joined(values: Mapping[str, Array], names: Names) -> dict[str, Array]:
    """The inverse of `split`: the values, with each complex array in the place of its parts."""
    found = dict(values)
    for name, (re, im) in names.items():
        if re in found:
            whole = np.empty(found[re].shape, np.result_type(found[re], np.complex64))
            whole.real, whole.imag = found.pop(re), found.pop(im)
            found[name] = whole
    return found


def _fresh(name: str, used: set[str]) -> str:
    while name in used:
        name += "_"
    used.add(name)
    return name
