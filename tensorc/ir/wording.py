"""Types, dimensions and names as messages say them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from tensorc.ir.dtypes import DType
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import Tensor


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is spelled most like `name`, if one is."""
    found = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


def dimensions(tensor: Tensor) -> str:
    """The dimensions as one declares them: `m, n, 4`."""
    return ", ".join(map(dimension, tensor.shape))


def dimension(extent: Polynomial) -> str:
    """A dimension as one declares it: n for |n|, else its size."""
    text = str(extent)
    return text[1:-1] if text.count("|") == 2 and text[0] == text[-1] == "|" else text


def article(dtype: DType) -> str:
    """A type in a sentence: `an i32`, `a real number`."""
    names = {"integer": "an integer", "index": "an index", "real": "a real number"}
    names |= {"imaginary": "a complex number"}
    vowel = dtype.name[0] in "aif"
    return names.get(dtype.name, f"{'an' if vowel else 'a'} {dtype}")
