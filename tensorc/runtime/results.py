"""Arrays that the caller gives for the outputs: checked before anything runs, filled afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tensorc.errors import ArgumentError
from tensorc.ir.diagnostics import fault
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.rounding import numpy_dtype
from tensorc.ir.source import Diagnostic
from tensorc.ir.tensor import Declaration, Program
from tensorc.runtime.arrays import unusable
from tensorc.runtime.dlpack import Unusable
from tensorc.runtime.interop import taken

Array = npt.NDArray[Any]


def destinations(
    program: Program,
    given: Sequence[object],
    arrays: Mapping[str, Array],
    extents: Mapping[str, int],
) -> dict[str, Array]:
    """The arrays given for the outputs, by name, in the order of the outputs.

    They are NumPy arrays, over the memory of what was given. `arrays` are the operands. TypeError:
    as many arrays as outputs are needed. ArgumentError, all faults together: another dtype (E211),
    shape (E201), read-only (E212), memory shared with an operand or another output (E208), or an
    array that cannot be taken (as for operands).
    """
    names = [item.tensor.name for item in program.outputs]
    if len(given) != len(names):
        wanted = ", ".join(names)
        raise TypeError(f"{program.name} has the outputs {wanted}; {len(given)} arrays given")
    known = {Symbol(name, "extent"): size for name, size in extents.items()}
    pairs = zip(names, given, strict=True)
    found, faults = _taken(program, dict(pairs))
    faults = faults or [
        *(f for item in program.outputs for f in _misfits(item, found[item.tensor.name], known)),
        *_overlaps(found, arrays),
    ]
    if faults:
        raise ArgumentError(faults)
    return found


def _taken(
    program: Program, given: Mapping[str, object]
) -> tuple[dict[str, Array], list[Diagnostic]]:
    found: dict[str, Array] = {}
    faults: list[Diagnostic] = []
    for item in program.outputs:
        name = item.tensor.name
        try:
            array = taken(given[name])
        except Unusable as reason:
            faults.append(unusable(reason, name, item))
            continue
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{name} is written into an array, not a {type(array).__name__}")
        found[name] = _plain(cast(Array, array), numpy_dtype(item.tensor.dtype))
    return found, faults


def _plain(array: Array, dtype: np.dtype[Any]) -> Array:
    """Raw bits (`V2`, u2) as the type whose bits they are, where NumPy lacks that type."""
    raw = dtype.kind == "V" and array.dtype.kind in "Vu" and array.itemsize == dtype.itemsize
    return array.view(dtype) if raw else array


def is_direct(array: Array) -> bool:
    """Whether a kernel can write straight into the array: dense, row-major, aligned, native."""
    flags = array.flags
    return bool(flags.c_contiguous and flags.aligned and array.dtype.isnative)


def _misfits(item: Declaration, array: Array, known: Mapping[Symbol, int]) -> Iterator[Diagnostic]:
    name, dtype = item.tensor.name, numpy_dtype(item.tensor.dtype)
    shape = tuple(evaluate(size, known) for size in item.tensor.shape)
    if array.dtype != dtype:
        yield fault("E211", item.span, array=name, found_dtype=array.dtype, dtype=dtype)
    if array.shape != shape:
        yield fault(
            "E201.fixed", item.span, index="the shape", here=array.shape, there=shape, array=name
        )
    if not array.flags.writeable:
        yield fault("E212", item.span, array=name)
    elif _meets_itself(array):
        yield fault("E208", item.span, array=name, other="itself")


def _meets_itself(array: Array) -> bool:
    """Whether two elements may lie in one place: a dimension does not step over all that the ones
    with smaller steps cover."""
    covered = array.itemsize
    steps = sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1)
    for step, size in steps if array.size else ():
        if step < covered:
            return True
        covered += (size - 1) * step
    return False


def _overlaps(found: Mapping[str, Array], arrays: Mapping[str, Array]) -> Iterator[Diagnostic]:
    others = dict(arrays)
    for name, array in found.items():
        for other, operand in others.items():
            if np.shares_memory(array, operand):
                yield fault("E208", array=name, other=other)
        others[name] = array
