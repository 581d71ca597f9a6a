"""Data recipes: arrays of a case from a name and a seed, the same everywhere.

A reproducer stores the recipe, never the numbers.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorc.ir.dtypes import BOOL, DType, integer_range
from tensorc.ir.rounding import numpy_dtype, round_to

Array = npt.NDArray[Any]


def array(recipe: str, layout: str, name: str, dtype: DType, shape: tuple[int, ...]) -> Array:
    """The array of a parameter. `recipe` gives its elements, `layout` its strides."""
    seed = int.from_bytes(hashlib.blake2b(f"{name}{shape}{recipe}".encode()).digest()[:8], "big")
    draw = np.random.default_rng(seed)
    return laid_out(elements(recipe, draw, dtype, shape), layout)


def elements(
    recipe: str, draw: np.random.Generator, dtype: DType, shape: tuple[int, ...]
) -> Array:  # fmt: skip
    """Dense elements of a storage type."""
    if dtype is BOOL:
        return draw.integers(0, 2, shape).astype(np.bool_)
    if dtype.integral:
        low, high = integer_range(dtype)
        edge = [v for v in (0, 1, 2, 3, 5, -1, -2, low, high) if low <= v <= high]
        values = draw.integers(max(low, -4), 8, shape).astype(numpy_dtype(dtype))
        picked = np.array(edge, numpy_dtype(dtype))[draw.integers(0, len(edge), shape)]
        return np.asarray(np.where(draw.random(shape) < 0.2, picked, values))
    values = _floats(recipe, draw, shape)
    if dtype.complex:
        parts = np.stack([values, _floats(recipe, draw, shape)], axis=-1)
        values = parts.view(np.complex128)[..., 0]  # not by a sum: inf * 0 would be NaN
    return np.asarray(round_to(values, dtype))


def _floats(recipe: str, draw: np.random.Generator, shape: tuple[int, ...]) -> Array:
    normal = draw.standard_normal(shape)
    if recipe == "small":
        return draw.integers(-4, 5, shape).astype(np.float64)
    if recipe == "wide":
        return normal * np.exp2(draw.integers(-12, 13, shape))
    if recipe == "large":
        return normal * 60
    if recipe == "equal":
        return np.full(shape, 1.5)
    if recipe == "coded":
        return np.arange(int(np.prod(shape, dtype=object)), dtype=np.float64).reshape(shape) % 509
    if recipe == "special":
        special = draw.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 6e-8, 65504.0], shape)
        return np.where(draw.random(shape) < 0.1, special, normal)
    return normal


def laid_out(dense: Array, layout: str) -> Array:
    """The same elements in another memory layout ("broadcast": the first ones repeated)."""
    if dense.ndim == 0 or layout == "dense":
        return dense
    if layout == "transposed":
        return np.ascontiguousarray(dense.transpose()).transpose()
    if layout == "reversed":
        return np.ascontiguousarray(dense[..., ::-1])[..., ::-1]
    if layout == "strided":
        wide = np.zeros((*dense.shape[:-1], 2 * dense.shape[-1]), dense.dtype)
        wide[..., ::2] = dense
        return wide[..., ::2]
    if layout == "broadcast" and dense.shape[0] > 0:
        return np.broadcast_to(dense[:1], dense.shape)
    raw = np.zeros(dense.nbytes + 64, np.uint8)[dense.itemsize :]
    view = raw[: dense.nbytes].view(dense.dtype).reshape(dense.shape)
    view[...] = dense
    return view
