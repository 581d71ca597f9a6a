"""The section of hints: what the author of the program could write to allow more."""

from __future__ import annotations

from collections.abc import Iterator

from tensorc.explain.subject import Section, Subject
from tensorc.ir.dtypes import F32, DType
from tensorc.ir.functions import FUNCTIONS, SUM
from tensorc.ir.node import postorder
from tensorc.ir.tensor import Apply, Cast, Expr, Program, Read, Reduce, Round, free_indices

_MUL = FUNCTIONS["mul"]


def hints(subject: Subject) -> Section | None:
    """Every hint once, in the order of the equations; None without any."""
    found = tuple(dict.fromkeys(_forgotten_types(subject.program)))
    return Section("hints", found, list(found)) if found else None


def _forgotten_types(program: Program) -> Iterator[str]:
    """Products with a 16-bit or 8-bit tensor that a wide intermediate keeps from the tensor core.

    "p is f32, so sum[n](p * v) cannot use the tensor core; declare p: f16 to allow it"
    """
    wide = _wide_intermediates(program)
    for equation in program.equations:
        for item in postorder([equation.body]):
            if isinstance(item, Reduce) and item.reducer is SUM:
                yield from _in_product(item, wide)


def _wide_intermediates(program: Program) -> set[str]:
    """Named f32 tensors that no parameter and no output declares, and no rounding narrows."""
    outputs = {item.tensor.name for item in program.outputs}
    return {
        item.tensor.name
        for item in program.equations
        if item.tensor.dtype is F32
        and item.tensor.name not in outputs
        and not isinstance(item.body, Round | Cast)
    }


def _in_product(item: Reduce, wide: set[str]) -> Iterator[str]:
    factors = _factors(item.body)
    reads = [factor for factor in factors if isinstance(factor, Read)]
    if len(reads) != len(factors) or not 1 < len(reads) < 3:
        return
    for one, other in (reads, reads[::-1]):
        narrow = other.tensor.dtype
        if one.tensor.name in wide and _is_narrow(narrow) and _contracts(item, one, other):
            p, v = one.tensor.name, other.tensor.name
            yield (
                f"{p} is f32, so sum[{', '.join(item.indices)}]({p} * {v}) cannot use the tensor "
                f"core; declare {p}: {narrow} to allow it"
            )


def _factors(body: Expr) -> tuple[Expr, ...]:
    return body.args if isinstance(body, Apply) and body.function is _MUL else (body,)


def _is_narrow(dtype: DType) -> bool:
    return dtype.floating and dtype.bits < 32


def _contracts(item: Reduce, one: Read, other: Read) -> bool:
    """A matrix product: each factor has an index of its own beside those reduced together."""
    summed, free = set(item.indices), [set(free_indices(read)) for read in (one, other)]
    shared = summed & free[0] & free[1]
    return bool(shared) and bool(free[0] - free[1] - summed) and bool(free[1] - free[0] - summed)
