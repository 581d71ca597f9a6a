"""What to write instead of a name that the language does not have (E112, E118, E119)."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from tensorc.errors import NotationError
from tensorc.ir.diagnostics import fault
from tensorc.ir.dtypes import BY_NAME
from tensorc.ir.functions import CALLABLE, REDUCERS, SUGAR
from tensorc.lang.spot import here, located

# Forms that are planned, and what says the same today.
_PLANNED = {
    "scan": "tc.sum[u](x[u], where=u <= t)",
    "topk": "tc.argmax[n](...) for the first",
    "sort": "a rank: tc.sum[u](tc.select(x[u] < x[t], 1, 0))",
    "dft": "the sum with tc.cos and tc.sin",
    "inverse": "NumPy before the call",
    "cholesky": "NumPy before the call",
    "grad": "the derivative as an operator",
    "uniform": "an array of random numbers as a parameter",
    "normal": "an array of random numbers as a parameter",
    "monoid": "one of the reductions",
}
_KNOWN_AS = {
    "relu": "tc.max(x, 0)", "matmul": "tc.sum[k](a[i, k] * b[k, j])", "maximum": "tc.max(a, b)",
    "minimum": "tc.min(a, b)", "dot": "tc.sum[k](a[k] * b[k])", "silu": "x * tc.sigmoid(x)",
    "float16": "tc.f16", "float32": "tc.f32", "float64": "tc.f64", "bfloat16": "tc.bf16",
    "int8": "tc.i8", "int16": "tc.i16", "int32": "tc.i32", "int64": "tc.i64", "uint8": "tc.u8",
    "variance": "tc.mean[i]((x[i] - m) ** 2)", "var": "tc.mean[i]((x[i] - m) ** 2)",
    "transpose": "x[j, i]", "square": "x ** 2", "cast": "tc.f16(x)", "e": "tc.exp(1)",
    "clip": "tc.clamp(x, lo, hi)", "norm": "tc.sqrt(tc.sum[i](x[i] ** 2))", "size": "index.size",
    "array": "a parameter for the array", "asarray": "a parameter for the array",
}  # fmt: skip


def advice(name: str) -> str:
    """What to write instead of a function of NumPy or `math` with this name."""
    if name in _KNOWN_AS:
        return _KNOWN_AS[name]
    if name in REDUCERS and name not in CALLABLE:
        return f"tc.{name}[index](...)"
    if name in CALLABLE | SUGAR or name in BY_NAME:
        return f"tc.{name}(...)"
    near = get_close_matches(name, sorted(CALLABLE | SUGAR | set(REDUCERS)), n=1)
    return f"tc.{near[0]}" if near else "a function of tensorc"


class UnknownName(NotationError, AttributeError):
    """A name that does not exist; an AttributeError, so that `hasattr` and tools see it as one."""


_METHODS = {
    "shape size ndim": "an extent is index.size",
    "T mT transpose permute swapaxes movedim": "order the subscripts: x[j, i]",
    "astype to type float half double int long": "a cast: tc.f16(x)",
    "dtype": "the dtypes are those of the signature",
    "reshape view flatten ravel squeeze unsqueeze expand repeat": "subscripts: x[k // n, k % n]",
    "item numpy tolist detach cpu cuda": "the operator: a traced value has no data yet",
}
_ADVICE = {name: advice for names, advice in _METHODS.items() for name in names.split()}


def no_attribute(title: str, name: str) -> AttributeError:
    """The error for an attribute or method that arrays have and traced values do not."""
    if name.startswith("_"):
        return AttributeError(name)
    do = _ADVICE.get(name) or f"write {advice(name)}"
    what = f"{name} of {title}"
    return UnknownName([located(fault("E119", here(), kind="attribute", name=what, do=do))])


def unknown(name: str, known: Sequence[str]) -> AttributeError:
    """The error for `tc.name`."""
    if name.startswith("__"):
        return AttributeError(f"module 'tensorc' has no attribute {name!r}")
    if name in _PLANNED:
        core = f"write {_PLANNED[name]}"
        return UnknownName([located(fault("E118", here(), form=f"tc.{name}", core=core))])
    near = get_close_matches(name, known, n=1)
    do = f"write {_KNOWN_AS[name]}" if name in _KNOWN_AS else "see dir(tensorc)"
    do = f"did you mean tc.{near[0]}?" if near and name not in _KNOWN_AS else do
    return UnknownName([located(fault("E119", here(), kind="name", name=f"tc.{name}", do=do))])
