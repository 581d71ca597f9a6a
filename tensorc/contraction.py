"""`tc.einsum`: numpy.einsum's interface on compiled kernels.

Integers and bools are bit-equal to NumPy's; floats are within the bound of the float64 result, and
accumulate in f32 or wider. The result is always a fresh array unless `out` is given.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tensorc.errors import ArgumentError
from tensorc.ir.dtypes import BY_NAME, DType
from tensorc.runtime.compiled import Call
from tensorc.runtime.dlpack import Unusable
from tensorc.runtime.forms import key, starting
from tensorc.runtime.interop import giving_back, library_of, taken

Array = npt.NDArray[Any]
_NAMES = {
    "bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "complex64": "complex64", "complex128": "complex128",
}  # fmt: skip
_PROGRAMS: dict[object, Any] = {}
_MOST_PROGRAMS = 4096


@dataclass(frozen=True)
class _Known:
    """A call like earlier ones: bound, what tells where its operands start, what makes a result
    the caller's, and the type of the result."""

    call: Call
    starts: Callable[[Sequence[Any]], list[int]]
    back: Callable[[Array], object]
    dtype: np.dtype[Any]

    def starts_of(self, operands: Sequence[Any]) -> list[int] | None:
        """Where the elements of operands start; None: that is not to be had."""
        try:
            return self.starts(operands)
        except (RuntimeError, ValueError):
            return None


# By subscripts and the operands' form.
_CALLS: dict[tuple[str, object], _Known] = {}
_MOST_CALLS = 1024


def einsum(
    *operands: Any,
    out: Array | None = None,
    dtype: Any = None,
    order: str | None = "K",
    casting: str = "safe",
    optimize: object = False,
) -> Any:
    """Evaluate Einstein's summation convention on the operands.

    The first argument is a subscripts string ("ij,jk->ik", also "batch q, batch k -> q k"), or
    operands alternate with lists of integer labels, as in NumPy. `optimize` is accepted for
    compatibility: the compiler chooses the order. Raises ValueError for subscripts or shapes that
    do not fit, TypeError for types that have no kernel. Arrays of torch and JAX are taken over the
    same memory; the result is of the library of the first array.
    """
    plain = dtype is None and order == "K" and casting == "safe"
    if plain and operands and type(operands[0]) is str:
        subscripts, *arrays = operands
        known = _CALLS.get((subscripts, key(arrays)))
        starts = None if known is None else known.starts_of(arrays)
        if known and starts is not None and (out is None or _is_like(out, known.dtype)):
            (value,) = known.call.at(starts, [], arrays, ())
            return known.back(value) if out is None else _delivered(value, out, casting)
    if operands and isinstance(operands[0], bytes):
        operands = (operands[0].decode("ascii"), *operands[1:])
    order = "K" if order is None else order.upper()
    if order not in ("C", "F", "A", "K"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    if any(library_of(item) not in ("", "numpy") for item in (*operands, out)):
        return _foreign(operands, out, dtype=dtype, order=order, casting=casting)
    _known_as_array(out)
    arrays, program = _prepared(operands, out, dtype, casting)
    value = _run(program, arrays, operands if plain and out is None else ())
    if out is None and value.ndim > 1 and _is_fortran(order, arrays):
        value = np.asfortranarray(value)
    return _delivered(value, out, casting)


def _foreign(operands: Sequence[Any], out: Any, **options: Any) -> Any:
    """A call with arrays of other libraries: over the same memory, the result given back."""
    views = [_view(item, f"operand {n}") for n, item in enumerate(operands)]
    if out is not None:
        einsum(*views, out=_view(out, "out"), **options)
        return out
    back = giving_back(operands)
    result = back(np.asarray(einsum(*views, **options)))
    if operands and isinstance(operands[0], str):
        kept, form = _CALLS.get((operands[0], key(views[1:]))), key(operands[1:])
        if kept is not None and form is not None:
            _CALLS[operands[0], form] = replace(kept, starts=starting(operands[1:]), back=back)
    return result


def _view(value: Any, name: str) -> Any:
    try:
        return taken(value)
    except Unusable as found:
        from tensorc.ir.diagnostics import filled

        fields = {"array": name, **found.fields}
        raise ArgumentError([filled(found.code, None, fields)]) from None


def _prepared(
    operands: Sequence[Any], out: Array | None, dtype: Any, casting: str
) -> tuple[list[Array], Any]:
    """The arrays and the program of a call."""
    from tensorc.lang.subscripts import sizes_of

    arrays, spec = _arguments(operands)
    sizes = sizes_of(spec, [array.shape for array in arrays])
    _check_shape(out, tuple(sizes[label] for label in spec.result))
    result = _result_type(arrays, dtype, out, casting)
    ones = tuple(
        tuple(size == 1 and sizes[label] != 1 for label, size in zip(term, a.shape, strict=True))
        for term, a in zip(spec.operands, arrays, strict=True)
    )
    return arrays, _program(spec, ones, tuple(_dtype(a.dtype) for a in arrays), result)


def _arguments(operands: Sequence[Any]) -> tuple[list[Array], Any]:
    """The arrays and their subscripts, from the string form or the label-list form."""
    from tensorc.lang.subscripts import ELLIPSIS, parse, subscripts

    if not operands:
        raise ValueError("must specify the einstein sum subscripts string and at least one operand")
    if isinstance(operands[0], str):
        arrays = [_array(item) for item in operands[1:]]
        if not arrays:
            raise ValueError("einsum needs at least one operand beside its subscripts")
        return arrays, parse(operands[0], [array.ndim for array in arrays])
    arrays = [_array(item) for item in operands[: len(operands) // 2 * 2 : 2]]
    lists = [_label_list(item, ELLIPSIS) for item in operands[1::2]]
    result = _label_list(operands[-1], ELLIPSIS) if len(operands) % 2 else None
    return arrays, subscripts(lists, result, [array.ndim for array in arrays])


def _array(item: Any) -> Array:
    """An operand as NumPy sees it. TypeError: no array of numbers."""
    array = np.asarray(item)
    if array.dtype.kind == "O" and not isinstance(item, np.ndarray):
        raise TypeError(f"einsum has no kernel for a {type(item).__name__}; pass arrays of numbers")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _label_list(item: Any, ellipsis: str) -> tuple[Any, ...]:
    return tuple(ellipsis if label is Ellipsis else _integer(label) for label in item)


def _integer(label: object) -> int:
    if isinstance(label, bool) or not hasattr(label, "__index__"):
        raise TypeError(f"einsum label {label!r} is neither an integer nor Ellipsis")
    return operator.index(cast(Any, label))


def _result_type(
    arrays: Sequence[Array], dtype: Any, out: Array | None, casting: str
) -> DType:  # fmt: skip
    """NumPy's rule: the given type, else the common type of the operands and of `out`, so that a
    sum of small integers into larger ones does not wrap on the way."""
    every = arrays if out is None else [*arrays, out]
    chosen = _common(every) if dtype is None else np.dtype(dtype)
    for number, array in enumerate(every):  # NumPy reads `out` too
        if not np.can_cast(array.dtype, chosen, cast(Any, casting)):
            name = f"operand {number}" if number < len(arrays) else "out"
            raise TypeError(
                f"{name} of type {array.dtype} cannot be cast to {chosen} "
                f"according to the rule {casting!r}"
            )
    return _dtype(chosen)


def _common(arrays: Sequence[Array]) -> np.dtype[Any]:
    types = {array.dtype for array in arrays}
    return next(iter(types)) if len(types) == 1 else np.result_type(*types)


def _dtype(found: np.dtype[Any]) -> DType:
    name = _NAMES.get(found.name)
    if name is None:
        raise TypeError(
            f"einsum has no kernel for {found}; it takes bool, integers of 8 to 64 bits, "
            "float16, bfloat16, float32, float64, complex64, complex128"
        )
    return BY_NAME[name]


def _program(spec: Any, ones: Any, sources: tuple[DType, ...], result: DType) -> Any:
    """The program for a call, made once."""
    from tensorc.lang.subscripts import program

    key = (spec, ones, sources, result)
    if key not in _PROGRAMS:
        if len(_PROGRAMS) >= _MOST_PROGRAMS:
            _PROGRAMS.clear()
        _PROGRAMS[key] = program(spec, ones, sources, result)
    return _PROGRAMS[key]


def _run(program: Any, arrays: Sequence[Array], operands: Sequence[Any]) -> Array:
    """Run it; a plain call is kept for the next one like it."""
    from tensorc.prepare import bound_call, prepare, run_prepared

    given = {f"x{number}": array for number, array in enumerate(arrays)}
    call = prepare(program, given)
    (value,) = run_prepared(call).values()
    if operands and isinstance(operands[0], str):
        form = key(operands[1:])
        plain = all(a is b for a, b in zip(arrays, operands[1:], strict=True))
        bound = bound_call(call, given) if form is not None and plain else None
        if bound is not None:
            if len(_CALLS) >= _MOST_CALLS:
                _CALLS.clear()
            starts = starting(operands[1:])
            _CALLS[operands[0], form] = _Known(bound, starts, _element, value.dtype)
    return value


def _check_shape(out: Array | None, shape: tuple[int, ...]) -> None:
    """ValueError: `out` has another shape. As in NumPy, a result's size of 1 meets any."""
    if out is not None and (
        out.ndim != len(shape)
        or any(a not in (b, 1) for a, b in zip(shape, out.shape, strict=True))
    ):
        raise ValueError(f"out has shape {out.shape}; the result has {shape}")


def _known_as_array(out: object) -> None:
    if out is not None and not isinstance(out, np.ndarray):
        raise TypeError(f"out must be an array, not a {type(out).__name__}")


def _is_like(out: Any, dtype: np.dtype[Any]) -> bool:
    return type(out) is np.ndarray and out.dtype == dtype


def _is_fortran(order: str, arrays: Sequence[Array]) -> bool:
    """Whether a result is laid out with its first axis innermost: order "F", or "A" where all the
    operands are. ("K" asks for some likeness to the operands, which is not kept.)"""
    return order == "F" or (order == "A" and all(array.flags.fnc for array in arrays))


def _element(value: Array) -> object:
    """A 0-d result is a scalar, as in NumPy."""
    return value if value.ndim else value[()]


def _delivered(value: Array, out: Array | None, casting: str) -> Any:
    """Into `out` if it was given."""
    if out is None:
        return _element(value)
    _check_shape(out, value.shape)
    if not np.can_cast(value.dtype, out.dtype, cast(Any, casting)):
        raise TypeError(f"the result of type {value.dtype} cannot be cast to out's {out.dtype}")
    np.copyto(out, value, casting=cast(Any, casting))
    return out
