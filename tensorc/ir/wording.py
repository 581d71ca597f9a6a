"""Types, dimensions and names as messages say them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from tensorc.ir.dtypes import DType
from tensorc.ir.node import Node, children, fact
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.print_tensor import show
from tensorc.ir.tensor import Expr, Read, Tensor

LONGEST = 120  # nodes


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is spelled most like `name`, if one is."""
    found = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


def brief(expr: Expr) -> str:
    """The expression in the language, or `...` where a traced one is too long to read."""
    return show(expr) if written(expr) <= LONGEST else "..."


def brief_read(read: Read) -> str:
    """The access in the language, with `...` for subscripts too long to read."""
    return f"{read.tensor.name}[{', '.join(map(brief, read.subscripts))}]"


@fact
def written(expr: Node) -> int:
    """How many nodes the expression has when what is shared is written out each time."""
    return 1 + sum(written(part) for part in children(expr))


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
