"""Mathematics of tensor operators in, checked and scheduled kernels out.

    import tensorc as tc

    m, n, k = tc.indices("m n k")

    @tc.op("A: bf16[m, k], B: bf16[k, n] -> C: bf16[m, n]")
    def gemm(A: tc.Tensor, B: tc.Tensor) -> tc.Expr:
        return tc.sum[k](A[m, k] * B[k, n])

The public names, each imported when it is first used, so that `import tensorc` is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorc.contraction import einsum
    from tensorc.errors import (
        ArgumentError,
        BrokenInvariant,
        CacheWarning,
        Infeasible,
        KernelError,
        NotationError,
        NotationWarning,
        OutOfRange,
        Unavailable,
    )
    from tensorc.lang.binders import (
        index,
        indices,
    )
    from tensorc.lang.tensors import (
        Index,
        Tensor,
    )
    from tensorc.lang.value import (
        Expr,
        Operand,
    )
    from tensorc.lang.vocabulary import (
        abs,
        all,
        any,
        argmax,
        argmin,
        bf16,
        bitcast,
        bool,
        ceil,
        clamp,
        complex64,
        complex128,
        conj,
        cos,
        erf,
        exp,
        exp2,
        expm1,
        exponent,
        f8e4m3,
        f8e5m2,
        f16,
        f32,
        f64,
        floor,
        i8,
        i16,
        i32,
        i64,
        imag,
        inf,
        inside,
        isinf,
        isnan,
        ldexp,
        let,
        log,
        log1p,
        log2,
        logsumexp,
        max,
        mean,
        min,
        nan,
        pi,
        popcount,
        pow,
        prod,
        real,
        result,
        round,
        rsqrt,
        select,
        sigmoid,
        sign,
        sin,
        softmax,
        sqrt,
        sum,
        tanh,
        u8,
        u16,
        u32,
        u64,
        where,
    )
    from tensorc.modules import Ops, load, loads
    from tensorc.operators import Op, op

_HOMES = {
    "contraction": "einsum",
    "errors": (
        "ArgumentError BrokenInvariant CacheWarning Infeasible KernelError NotationError"
        " NotationWarning OutOfRange Unavailable"
    ),
    "lang.binders": "index indices",
    "lang.tensors": "Index Tensor",
    "lang.value": "Expr Operand",
    "lang.vocabulary": (
        "abs all any argmax argmin bf16 bitcast bool ceil clamp complex128 complex64 conj"
        " cos erf exp exp2 expm1 exponent f16 f32 f64 f8e4m3 f8e5m2 floor i16 i32 i64 i8"
        " imag inf inside isinf isnan ldexp let log log1p log2 logsumexp max mean min nan"
        " pi popcount pow prod real result round rsqrt select sigmoid sign sin softmax"
        " sqrt sum tanh u16 u32 u64 u8 where"
    ),
    "modules": "Ops load loads",
    "operators": "Op op",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "ArgumentError",
    "BrokenInvariant",
    "CacheWarning",
    "Expr",
    "Index",
    "Infeasible",
    "KernelError",
    "NotationError",
    "NotationWarning",
    "Op",
    "Operand",
    "Ops",
    "OutOfRange",
    "Tensor",
    "Unavailable",
    "abs",
    "all",
    "any",
    "argmax",
    "argmin",
    "bf16",
    "bitcast",
    "bool",
    "ceil",
    "clamp",
    "complex128",
    "complex64",
    "conj",
    "cos",
    "einsum",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "exponent",
    "f16",
    "f32",
    "f64",
    "f8e4m3",
    "f8e5m2",
    "floor",
    "i16",
    "i32",
    "i64",
    "i8",
    "imag",
    "index",
    "indices",
    "inf",
    "inside",
    "isinf",
    "isnan",
    "ldexp",
    "let",
    "load",
    "loads",
    "log",
    "log1p",
    "log2",
    "logsumexp",
    "max",
    "mean",
    "min",
    "nan",
    "op",
    "pi",
    "popcount",
    "pow",
    "prod",
    "real",
    "result",
    "round",
    "rsqrt",
    "select",
    "sigmoid",
    "sign",
    "sin",
    "softmax",
    "sqrt",
    "sum",
    "tanh",
    "u16",
    "u32",
    "u64",
    "u8",
    "where",
]


if not TYPE_CHECKING:  # type checkers know the names above, and no others

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            from tensorc.lang.unknown import unknown

            raise unknown(name, __all__)
        found: object = getattr(importlib.import_module(f"tensorc.{_HOME[name]}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
