"""What each reduction computes, on arrays whose first axis is the reduced one.

`body` has shape (count, ...) and holds every element in order, last listed index fastest;
`selected` is None or a bool array that broadcasts to it. Unselected elements cannot show, whatever
they hold. With `ordered`, sums and products add strictly in ascending order and every step rounds
to the element type: the reference for a kernel's rounding error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorc.ir.rounding import Array


def reduce(name: str, body: Array, selected: Array | None, ordered: bool) -> Array:
    """The reduction `name` over axis 0: shape (...); softmax keeps the axis.

    Sums, products, means, logsumexp and softmax accumulate in the body's element type; argmax and
    argmin give int64.
    """
    if selected is not None:
        body = np.broadcast_to(body, np.broadcast_shapes(body.shape, selected.shape))
    with np.errstate(all="ignore"):
        return np.asarray(TABLE[name](body, selected, ordered))


def _filled(body: Array, selected: Array | None, value: object) -> Array:
    if selected is None:
        return body
    return np.where(selected, body, np.asarray(value).astype(body.dtype))


def _count(body: Array, selected: Array | None) -> Array:
    """How many elements each result is made of."""
    if selected is None:
        return np.asarray(body.shape[0])
    return np.asarray(np.broadcast_to(selected, body.shape).sum(axis=0))


def _steps(step: np.ufunc, body: Array, unit: object, ordered: bool) -> Array:
    """The ufunc over axis 0 from its unit; if `ordered` in order, with one rounding a step."""
    if ordered and body[:1].size >= 256:
        total = np.array(body[0])
        for row in body[1:]:
            step(total, row, out=total)
        return total
    if ordered and body.shape[0]:
        return np.asarray(step.accumulate(body, axis=0, dtype=body.dtype)[-1])
    start = np.asarray(unit).astype(body.dtype)[()]
    return np.asarray(step.reduce(body, axis=0, dtype=body.dtype, initial=start))


def total(body: Array, selected: Array | None, ordered: bool) -> Array:
    """The sum: 0 if nothing is selected; -0 only if all that is selected is -0."""
    if body.dtype.kind in "iub":
        return _steps(np.add, _filled(body, selected, 0), 0, ordered)
    sums = _steps(np.add, _filled(body, selected, -0.0), -0.0, ordered)
    return np.where(_count(body, selected) == 0, body.dtype.type(0), sums)


def _product(body: Array, selected: Array | None, ordered: bool) -> Array:
    return _steps(np.multiply, _filled(body, selected, 1), 1, ordered)


def _mean(body: Array, selected: Array | None, ordered: bool) -> Array:
    """NaN if nothing is selected: 0 / 0. A 16-bit accumulator's sum is divided in float32."""
    work = body.dtype if body.dtype.itemsize >= 4 else np.dtype(np.float32)
    sums, count = total(body, selected, ordered), _count(body, selected)
    return (sums.astype(work) / count.astype(work)).astype(body.dtype)


def _extreme(largest: bool) -> Callable[[Array, Array | None, bool], Array]:
    """max or min: any NaN gives NaN, +0 > -0, and the type's other end if nothing is selected."""

    def found(body: Array, selected: Array | None, ordered: bool) -> Array:
        unit = _end(body, not largest)
        values = _filled(body, selected, unit)
        ufunc = np.maximum if largest else np.minimum
        best = np.asarray(ufunc.reduce(values, axis=0, initial=unit))
        if body.dtype.kind in "iub":
            return best
        signs = np.signbit(values) & (values == 0)
        zero = values == 0
        positive = np.any(zero & ~signs, axis=0) if largest else ~np.any(zero & signs, axis=0)
        return np.where(best == 0, np.where(positive, 0.0, -0.0).astype(body.dtype), best)

    return found


def _end(body: Array, largest: bool) -> Any:
    """The highest or lowest value of the body's type, infinite for floats."""
    if body.dtype.kind in "iu":
        info = np.iinfo(body.dtype)
        return body.dtype.type(info.max if largest else info.min)
    return body.dtype.type(np.inf if largest else -np.inf)


def _truth(every: bool) -> Callable[[Array, Array | None, bool], Array]:
    def found(body: Array, selected: Array | None, ordered: bool) -> Array:
        values = _filled(body, selected, every)
        return np.asarray(np.all(values, axis=0) if every else np.any(values, axis=0))

    return found


def _argument(largest: bool) -> Callable[[Array, Array | None, bool], Array]:
    """The position of the first NaN, else of the first extreme (-0 equals +0); -1 if nothing is
    selected."""

    def found(body: Array, selected: Array | None, ordered: bool) -> Array:
        best = _extreme(largest)(body, selected, ordered)
        hit = (body == best) | (body != body) & (best != best)
        hit = hit if selected is None else hit & selected
        if not body.shape[0]:
            return np.full(body.shape[1:], -1, np.int64)
        return np.where(hit.any(axis=0), hit.argmax(axis=0), -1).astype(np.int64)

    return found


def _logsumexp(body: Array, selected: Array | None, ordered: bool) -> Array:
    """log of the sum of exp, shifted by the maximum; a maximum that is infinite or NaN stands."""
    top = _extreme(True)(body, selected, ordered)
    shift = np.where(np.isfinite(top), top, body.dtype.type(0))
    return np.where(
        np.isfinite(top), top + np.log(total(np.exp(body - shift), selected, ordered)), top
    )


def _softmax(body: Array, selected: Array | None, ordered: bool) -> Array:
    """exp(x - max) / sum of it; 0 where not selected. A maximum that is infinite or NaN gives NaN
    on all that is selected."""
    top = _extreme(True)(body, selected, ordered)
    powers = np.exp(body - top)
    return _filled(powers / total(powers, selected, ordered), selected, 0)


TABLE: dict[str, Callable[[Array, Array | None, bool], Array]] = {
    "sum": total, "prod": _product, "mean": _mean, "max": _extreme(True), "min": _extreme(False),
    "any": _truth(False), "all": _truth(True), "argmax": _argument(True),
    "argmin": _argument(False), "logsumexp": _logsumexp, "softmax": _softmax,
}  # fmt: skip
