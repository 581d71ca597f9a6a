"""How a case runs: the device, the options of a call, and where the memory of its arrays ends.

A case is a program, arrays and a way. Every path through the compiler is some way, so a campaign
that draws ways compares all of them with the one meaning.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from tensorc.fuzz.walls import SIDES
from tensorc.ir.choose import Chooser, chance, pick, weighted
from tensorc.ir.strict_json import Json

ARCHITECTURES = ("sm_80", "sm_90a")

_VALUES = {
    "device": ("cpu", "emulator"), "arch": ARCHITECTURES, "policy": ("fast", "strict"),
    "cuts": ("cost", "none", "all"), "walls": ("", *SIDES),
}  # fmt: skip


@dataclass(frozen=True)
class Way:
    """`device`: "cpu" or "emulator" (of `arch`). `policy`, `cuts`, `deterministic`, `specialize`:
    as `prepare.prepare` has them. `walls`: the side of arrays on which memory ends, "" for none,
    else "before" or "behind"; on the CPU alone."""

    device: str = "cpu"
    arch: str = "sm_90a"
    policy: str = "fast"
    cuts: str = "cost"
    deterministic: bool = False
    specialize: bool = True
    walls: str = ""

    def __post_init__(self) -> None:
        for name, values in _VALUES.items():
            if getattr(self, name) not in values:
                raise ValueError(f"{name}={getattr(self, name)!r}: there are {', '.join(values)}")
        for name in ("deterministic", "specialize"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} is true or false")

    def changes(self) -> dict[str, Json]:
        """What differs from the usual way."""
        usual = asdict(USUAL)
        return {name: value for name, value in asdict(self).items() if value != usual[name]}


USUAL = Way()


def from_changes(changes: Mapping[str, Json]) -> Way:
    """The inverse of `Way.changes`. ValueError: a name or value that no way has."""
    unknown = sorted(changes.keys() - asdict(USUAL).keys())
    if unknown:
        raise ValueError(f"a way has no {', '.join(unknown)}")
    return Way(**dict(changes))  # pyright: ignore[reportArgumentType]  # checked when it is made


def drawn(chooser: Chooser, device: str = "cpu") -> Way:
    """A random way on a device; half of those on the CPU are the usual one but for walls."""
    policy = weighted(chooser, [(4, "fast"), (1, "strict")])
    if device != "cpu":
        return Way(device, pick(chooser, ARCHITECTURES), policy)
    walls = pick(chooser, ("", *SIDES)) if sys.platform == "linux" else ""
    if chance(chooser, 5):
        return Way(walls=walls)
    deterministic, specialize = chance(chooser, 2), chance(chooser, 7)
    cuts = pick(chooser, ("cost", "none", "none", "all"))
    return Way(device, "sm_90a", policy, cuts, deterministic, specialize, walls)
