"""JSON for files and pipes: one text for one value, and readers that refuse what is no data.

No duplicate keys, no NaN, no deep nesting, no more bytes than asked for (E603).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

Json: TypeAlias = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]

LARGEST = 16 << 20  # bytes
DEEPEST = 64


def canonical(value: Json) -> bytes:
    """The one text of a value: keys sorted, no spaces, ASCII. ValueError: NaN or infinities."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def read(data: bytes, largest: int = LARGEST) -> Any:
    """The value of a JSON text. ValueError says what is wrong with it."""
    if len(data) > largest:
        raise ValueError(f"{len(data)} bytes; at most {largest}")
    try:
        value = json.loads(data, object_pairs_hook=_unique, parse_constant=_constant)
    except RecursionError:
        raise ValueError(f"nested deeper than {DEEPEST}") from None
    _check_depth(value)
    return value


def read_object(data: bytes, largest: int = LARGEST) -> dict[str, Any]:
    """The same for a text that must hold an object."""
    found = read(data, largest)
    if not isinstance(found, dict):
        raise ValueError("it holds no object")
    return cast("dict[str, Any]", found)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _check_depth(value: Any) -> None:
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += list(item.values())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            elif isinstance(item, list):
                below += item
        if not below:
            return
        level = below
    raise ValueError(f"nested deeper than {DEEPEST}")
