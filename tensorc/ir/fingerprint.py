"""A digest of what IR is made of: equal structure, equal digest, in any process.

It covers names, types and constants, and leaves out where things stood in a source file. It is no
text: it does not read back.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from enum import Enum
from fractions import Fraction
from typing import Any, cast

from tensorc.ir.node import Node, fact, fields_of, postorder


def fingerprint(value: object) -> str:
    """64 hexadecimal digits for a node, a frozen dataclass of them (such as a Program), a tuple, a
    number or a string. TypeError: anything else, since its digest might differ between processes.
    """
    for item in postorder(_nodes(value)):
        _digest(item)  # children first, so that deep programs need no deep recursion
    return hashlib.sha256(_structure(value).encode()).hexdigest()


def _nodes(value: object) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for part in cast("tuple[object, ...]", value):
            yield from _nodes(part)
    elif _is_record(value):
        for part in _compared(value):
            yield from _nodes(part)


def _is_record(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _compared(value: Any) -> Sequence[object]:
    """The fields that take part in comparison: not spans, not warnings."""
    return [getattr(value, item.name) for item in dataclasses.fields(value) if item.compare]


@fact
def _digest(item: Node) -> str:
    text = " ".join(_structure(value) for value in fields_of(item))
    return hashlib.sha256(f"{type(item).__name__}({text})".encode()).hexdigest()


def _structure(value: object) -> str:
    match value:
        case Node():
            return _digest(value)
        case tuple():
            parts = cast("tuple[object, ...]", value)
            return f"[{' '.join(_structure(part) for part in parts)}]"
        case Enum():
            return f"{type(value).__name__}.{value.name}"
        case None | bool() | int() | str() | Fraction():
            return repr(value)
        case _ if _is_record(value):
            text = " ".join(_structure(part) for part in _compared(value))
            return f"{type(value).__name__}({text})"
        case _:
            raise TypeError(f"{type(value).__name__} has no fingerprint")
