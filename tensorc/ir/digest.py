"""Digests of nodes by their structure: the same in every process, linear in what is shared."""

from __future__ import annotations

import hashlib
from typing import cast

from tensorc.ir.node import Node, fact, fields_of, postorder


def digest(item: Node) -> str:
    """24 hexadecimal digits that equal structures have in common."""
    for part in postorder([item]):
        _digest(part)  # parts first, so that no call goes deep
    return _digest(item)


def digest_of(text: str) -> str:
    """The digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@fact
def _digest(item: Node) -> str:
    fields = " ".join(_structure(field) for field in fields_of(item))
    return digest_of(f"{type(item).__name__}({fields})")


def _structure(value: object) -> str:
    if isinstance(value, Node):
        return _digest(value)
    if isinstance(value, tuple):
        parts = cast("tuple[object, ...]", value)
        return f"[{' '.join(map(_structure, parts))}]"
    return repr(value)
