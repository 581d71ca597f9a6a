"""Level 2 through LLVM IR, without the passes before it: what the emitter makes of any text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorc.codegen.llvm import Options, emit
from tensorc.codegen.llvm_jit import native, object_code
from tensorc.ir.constants import fold
from tensorc.ir.dtypes import DType
from tensorc.ir.launch import Strides
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.rounding import nearest, numpy_dtype, round_to
from tensorc.ir.tensor import Tensor
from tensorc.ir.tile import TileProgram
from tensorc.runtime.bound import Bound, Result
from tensorc.runtime.cpu import CpuKernel

Array = npt.NDArray[Any]


def run_tile(
    program: TileProgram, arrays: Mapping[str, Array], extents: Mapping[str, int],
    static: Mapping[str, int] | None = None, strides: Mapping[str, Strides] | None = None,
) -> dict[str, Array]:  # fmt: skip
    """The outputs of a level-2 program on this machine's CPU; a failed check is an IndexError.

    `extents`: those of the free indices. `static`: extents that the code knows.
    """
    module = emit(program, Options(static or {}, strides or {}))
    kernel = CpuKernel(object_code(module.text, native()), module.entries)
    known = {Symbol(name, "extent"): size for name, size in extents.items()}
    given = {n: np.asarray(round_to(a, _dtype(program, n)), order="C") for n, a in arrays.items()}
    consts = {p.tensor.name for p in program.parameters if p.const and not p.tensor.shape}
    known.update((Symbol(name, "parameter"), int(given[name])) for name in consts)
    every = {name: evaluate(size, known) for name, size in program.extents} | dict(extents)

    def result(tensor: Tensor) -> Result:
        shape = tuple(evaluate(size, known) for size in tensor.shape)
        return Result(tensor.name, shape, numpy_dtype(tensor.dtype))

    outputs = [result(item.tensor) for item in program.outputs]
    workspaces = [result(tensor) for tensor in program.workspaces]

    def failed(number: int, operands: Sequence[Array]) -> None:
        raise IndexError(number)

    bound = Bound(kernel, given, outputs, workspaces, _tables(program), every, {}, failed)
    found = bound(list(given.values()))
    return {item.name: array for item, array in zip(outputs, found, strict=True)}


def _dtype(program: TileProgram, name: str) -> DType:
    (found,) = (item.tensor.dtype for item in program.parameters if item.tensor.name == name)
    return found


def _tables(program: TileProgram) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for table in program.tables:
        dtype = table.tensor.dtype
        values = [nearest(fold(value, {}) or Fraction(0), dtype) for value in table.values]
        shape = tuple(evaluate(size, {}) for size in table.tensor.shape)
        found[table.tensor.name] = round_to(values, dtype).reshape(shape)
    return found
