"""Every scalar function at every value type on the CPU, special values included."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tensorc.compiler import compile_cpu
from tensorc.ir.dtypes import BOOL, F32, F64, I32, I64, U32, U64, DType, integer_range, settled
from tensorc.ir.functions import FUNCTIONS, Function, result_type
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.polynomial import extent
from tensorc.ir.rounding import numpy_dtype, round_to
from tensorc.ir.tensor import (
    Apply,
    Declaration,
    Equation,
    Position,
    Program,
    Read,
    Tensor,
    value_type,
)
from tensorc.request import Request, cpu_target

Array = npt.NDArray[Any]
VALUES = (BOOL, I32, I64, U32, U64, F32, F64)
# Units in the last place of the type in which a function computes; the others are exact or
# correctly rounded.
ULPS = {
    "exp": 2, "exp2": 2, "log": 2, "log2": 2, "expm1": 4, "log1p": 4, "tanh": 4, "sigmoid": 4,
    "sin": 1, "cos": 1, "erf": 2, "pow": 2, "rsqrt": 2, "floordiv": 1, "mod": 1,
}  # fmt: skip


def samples(dtype: DType) -> Array:
    """Special and ordinary values of a type."""
    if dtype is BOOL:
        return np.array([False, True])
    if dtype.integral:
        low, high = integer_range(dtype)
        near = [low, low + 1, high - 1, high, 0, 1, 2, 3, 5, 7, 10, 31, 33, 64, 100]
        return np.array(near + [-v for v in (1, 2, 3, 7, 31) if low < 0], numpy_dtype(dtype))
    tiny = float(np.finfo(numpy_dtype(dtype)).smallest_subnormal)
    largest = float(np.finfo(numpy_dtype(dtype)).max)
    positive = [0.0, tiny, 1e-30, 0.1, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.25, 88.0, largest, np.inf]
    return np.array([*positive, *[-v for v in positive], np.nan], numpy_dtype(dtype))


def pairs(dtype: DType) -> tuple[Array, Array]:
    """Every pair of sample values."""
    one = samples(dtype)
    left, right = np.meshgrid(one, one, indexing="ij")
    return left.ravel(), right.ravel()


def programs(dtype: DType) -> tuple[Program, dict[str, Function]]:
    """One program with an output for every function that takes two operands of `dtype`, or one."""
    size = extent("n")
    a, b = Tensor("a", dtype, (size,)), Tensor("b", dtype, (size,))
    reads = [Read(tensor, (Position("n"),)) for tensor in (a, b)]
    equations: list[Equation] = []
    chosen: dict[str, Function] = {}
    for function in FUNCTIONS.values():
        args = tuple(reads[: function.least])
        kind = result_type(function, [value_type(arg) for arg in args])
        if kind is None:
            continue
        name = f"y_{function.name}"
        tensor = Tensor(name, settled(kind), (size,))
        equations.append(Equation(tensor, ("n",), Apply(function, args)))
        chosen[name] = function
    parameters = tuple(Declaration(tensor, ("n",)) for tensor in (a, b))
    outputs = tuple(Declaration(item.tensor, ("n",)) for item in equations)
    return Program("f", parameters, outputs, tuple(equations), (("n", size),)), chosen


@pytest.mark.parametrize("dtype", VALUES, ids=str)
def test_cpu_computes_the_meaning(dtype: DType) -> None:
    program, functions = programs(dtype)
    left, right = pairs(dtype)
    arrays = {"a": left, "b": right}
    extents = {"n": len(left)}
    compiled = compile_cpu(program, Request(cpu_target(), extents))
    got = compiled.run(arrays, extents)
    want = interpret(program, arrays, extents)
    for name, function in functions.items():
        compare(function, got[name], want[name], left, right)


def compare(function: Function, got: Array, want: Array, left: Array, right: Array) -> None:
    """Equal bits for integers and bools; floats within the function's units, specials equal."""
    where = f"{function.name} of {left.dtype}"
    if got.dtype.kind != "f":
        wrong = np.flatnonzero(got != want)
        detail = [(left[i], right[i], got[i], want[i]) for i in wrong[:5]]
        assert not len(wrong), f"{where}: {detail}"
        return
    dtype = F32 if got.dtype == np.float32 else F64
    near = round_to(want, dtype)
    with np.errstate(all="ignore"):
        unit = np.spacing(np.abs(near)).astype(np.float64)
        error = np.abs(got.astype(np.float64) - want) / unit
    same = (got == near) | (np.isnan(got) & np.isnan(near))
    if left.dtype.kind in "iu":
        # Beyond 2**24 the operand itself rounds on its way to f32; the meaning's does not.
        same |= np.abs(left.astype(np.float64)) > 2**24
    fine = same | (np.isfinite(near) & (error <= ULPS.get(function.name, 0.5)))
    wrong = np.flatnonzero(~fine)
    detail = [(left[i], right[i], got[i], near[i]) for i in wrong[:5]]
    assert not len(wrong), f"{where}: {detail}"


def test_the_table_has_every_function() -> None:
    from tensorc.codegen.llvm_functions import FUNCTIONS as EMITTED

    assert set(EMITTED) == set(FUNCTIONS)
