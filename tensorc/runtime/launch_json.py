"""How to call a kernel, as JSON and back: what the cache keeps beside the code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorc.ir.dtypes import BY_NAME
from tensorc.ir.launch import Entry, Launch, Slot
from tensorc.ir.polynomial import Atom, Bound, Floor, Monomial, Opaque, Polynomial, Symbol
from tensorc.ir.strict_json import Json
from tensorc.ir.tensor import Tensor


def to_json(launch: Launch) -> dict[str, Json]:
    """ValueError: a size that depends on data."""
    return {
        "entries": [
            {
                "symbol": entry.symbol,
                "slots": [[slot.kind, slot.name, slot.axis] for slot in entry.slots],
                "grid": [[index, block] for index, block in entry.grid],
                "loops": [[index, block] for index, block in entry.loops],
            }
            for entry in launch.entries
        ],
        "workspaces": tensors_to_json(launch.workspaces),
        "extents": [[name, _polynomial(size)] for name, size in launch.extents],
        "weights": [[symbol, _polynomial(item)] for symbol, item in launch.weights],
    }


def from_json(found: Any) -> Launch:
    """The inverse. KeyError, TypeError or ValueError: it was not made by `to_json`."""
    return Launch(
        tuple(_entry(item) for item in found["entries"]),
        read_tensors(found["workspaces"]),
        tuple((name, _read(size)) for name, size in found["extents"]),
        tuple((symbol, _read(item)) for symbol, item in found["weights"]),
    )


def tensors_to_json(tensors: Sequence[Tensor]) -> Json:
    """Names, types and shapes. ValueError: a size depends on data."""
    return [
        [item.name, item.dtype.name, [_polynomial(size) for size in item.shape]] for item in tensors
    ]


def read_tensors(found: Any) -> tuple[Tensor, ...]:
    """The inverse. KeyError, TypeError or ValueError as in `from_json`."""
    return tuple(
        Tensor(name, BY_NAME[dtype], tuple(_read(size) for size in shape))
        for name, dtype, shape in found
    )


def _entry(found: Any) -> Entry:
    slots = tuple(Slot(kind, name, axis) for kind, name, axis in found["slots"])
    grid, loops = (tuple((index, block) for index, block in found[n]) for n in ("grid", "loops"))
    return Entry(found["symbol"], slots, grid, loops)


def _polynomial(item: Polynomial) -> Json:
    return [
        [coefficient, [[_atom(atom), power] for atom, power in monomial]]
        for monomial, coefficient in item.terms
    ]


def _atom(atom: Atom) -> Json:
    match atom:
        case Symbol(name, kind):
            return ["symbol", name, kind]
        case Floor(numerator, denominator):
            return ["floor", _polynomial(numerator), _polynomial(denominator)]
        case Bound(which, args):
            return ["bound", which, [_polynomial(arg) for arg in args]]
        case Opaque():
            raise ValueError(f"the size {atom} depends on data")


def _read(found: Sequence[Any]) -> Polynomial:
    return Polynomial(tuple((_monomial(atoms), coefficient) for coefficient, atoms in found))


def _monomial(found: Sequence[Any]) -> Monomial:
    return tuple((_read_atom(atom), power) for atom, power in found)


def _read_atom(found: Any) -> Atom:
    match found:
        case ["symbol", name, kind]:
            return Symbol(name, kind)
        case ["floor", numerator, denominator]:
            return Floor(_read(numerator), _read(denominator))
        case ["bound", which, args]:
            return Bound(which, tuple(_read(arg) for arg in args))
        case _:
            raise ValueError(f"{found!r} is no part of a size")
