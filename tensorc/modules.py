"""The operators of `.tc` texts and files: `tc.load`, `tc.loads`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from difflib import get_close_matches

from tensorc.ir.source import Source
from tensorc.ir.tensor import Program
from tensorc.operators import Op, ready


class Ops:
    """The operators of one file, as attributes: `ops.attention(Q, K, V)`."""

    def __init__(self, programs: list[Program]) -> None:
        self._ops = {item.name: Op(item.name, ready(item)) for item in programs}

    def __getattr__(self, name: str) -> Op:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._ops:
            return self._ops[name]
        near = get_close_matches(name, self._ops, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(self._ops)}"
        raise AttributeError(f"the file has no operator {name}; {hint}")

    def __iter__(self) -> Iterator[Op]:
        return iter(self._ops.values())

    def __len__(self) -> int:
        return len(self._ops)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._ops]


def loads(text: str) -> Ops:
    """The operators of a `.tc` text. Raises NotationError with all its faults."""
    from tensorc.lang import read

    return Ops(read(Source("<string>", text)))


def load(path: str | os.PathLike[str]) -> Ops:
    """The operators of a `.tc` file. Raises NotationError with all its faults, OSError."""
    from tensorc.lang import read
    from tensorc.lang.parse import read_source

    return Ops(read(read_source(path)))
