"""The options of operators: their names, the values they take, and what is said of others."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from operator import index as index_of
from typing import SupportsIndex, cast

OPTIONS = (
    "policy", "arch", "specialize", "static", "hints", "sizes", "deterministic", "check", "threads",
    "verify", "cuts",
)  # fmt: skip
"""Of `Op.on`."""
_VALUES: dict[str, tuple[str, ...]] = {
    "policy": ("fast", "strict"), "check": ("all", "data-off"), "cuts": ("cost", "none", "all"),
    "verify": ("off", "cheap", "full"),
}  # fmt: skip


def known_option(name: str, value: object) -> None:
    """Raises TypeError for a name that is no option, ValueError for a value that is none of its."""
    if name not in OPTIONS:
        *most, last = OPTIONS
        near = get_close_matches(name, OPTIONS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(most)} and {last}"
        raise TypeError(f"{name} is no option; {hint}")
    values = _VALUES.get(name)
    if values is not None and value is not None and value not in values:
        *most, last = values
        raise ValueError(f"{name}={value!r}: there are {', '.join(most)} and {last}")
    if name in ("specialize", "deterministic") and not isinstance(value, bool):
        raise ValueError(f"{name}={value!r}: there are True and False")
    if name == "threads" and (type(value) is not int or value < 1):
        raise ValueError(f"threads={value!r} is not a number of at least 1")


def index_names(given: object) -> tuple[str, ...]:
    """Names of indices: "m n", or several strings."""
    if isinstance(given, str):
        return tuple(given.replace(",", " ").split())
    found = tuple(cast("Collection[object]", given)) if isinstance(given, Collection) else (given,)
    if not all(isinstance(name, str) for name in found):
        raise ValueError(f"static={given!r}: write static=('m', 'n')")
    return cast("tuple[str, ...]", found)


def extent(option: str, index: str, size: object) -> int:
    """An integer of Python or NumPy, at least 0."""
    number = -1 if isinstance(size, bool) or not isinstance(size, SupportsIndex) else index_of(size)
    if number < 0:
        raise ValueError(f"{option}: {index} = {size!r} is not an integer of at least 0")
    return number
