"""What to do about an operand that does not fit: the words for people, made of what was given.

`found` names the thing as its library does, `do` is an expression that makes it fit.
"""

from __future__ import annotations

import sys
from typing import Any, cast

import numpy as np

from tensorc.ir.dtypes import DType
from tensorc.ir.rounding import numpy_dtype

_NAMED = {"f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "bf16": "bfloat16"}


def wrong_type(name: str, value: Any, found: np.dtype[Any], dtype: DType) -> tuple[str, str]:
    """(found, do) for an operand whose elements are of another type. `found`: the type that NumPy
    sees in it."""
    module, wanted = type(value).__module__.partition(".")[0], _spelled(dtype)
    if value is None:
        return "None", f"pass an array for {name}"
    if hasattr(value, "toarray") or module == "sparse":
        dense = "toarray" if hasattr(value, "toarray") else "todense"
        return f"a sparse {type(value).__name__}", f"pass {name}.{dense}().astype({wanted})"
    if _of(value, "torch"):
        return str(value.dtype), f"pass {name}.to(torch.{_library_name(dtype)})"
    kind = cast(object, value).__class__.__name__
    if isinstance(value, list | tuple | range):
        return f"a {kind}", f"pass np.asarray({name}, {wanted})"
    if isinstance(value, str | bytes):
        return f"a {type(value).__name__}", f"pass an array of numbers for {name}"
    if module == "pandas":
        return f"a {type(value).__name__} of {found}", f"pass {name}.to_numpy({wanted})"
    if isinstance(value, bool | int | float | complex):
        text = repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:36]}..."
        return text, f"pass a number that {dtype} can hold"
    if found.names:
        return f"records of {', '.join(found.names)}", f"pass one field, {name}[{found.names[0]!r}]"
    if found.kind == "O" and not isinstance(value, np.ndarray):
        return f"a {type(value).__name__}", f"pass an array of {dtype}"
    if found.kind in "OUSMm":
        return f"an array of {found}", f"pass an array of {dtype}"
    return str(found), f"pass {name}.astype({wanted})"


def wrong_rank(name: str, shape: tuple[int, ...], wanted: int) -> tuple[str, str]:
    """(found, do) for an operand with another number of dimensions."""
    found = f"shape {shape}"
    if wanted == 0:
        return found, f"pass a number, or one element of {name}"
    count = f"{wanted} dimension{'s' * (wanted != 1)}"
    if len(shape) > wanted and shape.count(1) >= len(shape) - wanted:
        return found, f"pass an array of {count}: {name}.squeeze(), or {name}.reshape(...)"
    return found, f"pass an array of {count}"


def _of(value: object, library: str) -> bool:
    """Whether a value is of a library that the caller has imported."""
    module: Any = sys.modules.get(library)
    return module is not None and isinstance(value, module.Tensor)


def _library_name(dtype: DType) -> str:
    """The name that NumPy, torch and JAX share."""
    return _NAMED.get(dtype.name) or numpy_dtype(dtype).name


def _spelled(dtype: DType) -> str:
    """The type as one writes it with NumPy."""
    name = _library_name(dtype)
    return f"ml_dtypes.{name}" if dtype.name in _NAMED else f"np.{name}"
