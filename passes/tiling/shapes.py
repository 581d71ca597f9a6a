"""How many lanes each index of a product has in a tile.

The lanes of a role are shared out over the indices that play it: the one along which memory is
contiguous gets most, the others what is left. Along the sum only that one has many lanes; the
others are loops of single steps. No tile is much larger than what it covers, and none smaller than
an atom of the instruction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorc.machine.instruction import Instruction, Machine
from tensorc.passes.tiling.match import Groups

_SIZES = (128, 64, 256)
SUMS = 32768  # elements of a result that may be in the registers of a block: half of them
LEAST = 16  # lanes of an index along rows in shared memory: 32 bytes of 16-bit elements


@dataclass(frozen=True)
class Shape:
    """Lanes along the roles m, n and k of a product's tile."""

    m: int
    n: int
    k: int

    def of(self, role: str) -> int:
        """The lanes of a role by its name."""
        return {"m": self.m, "n": self.n, "k": self.k}[role]


def shapes(machine: Machine, alone: bool = False, most: int = SUMS) -> tuple[Shape, ...]:
    """The tiles worth a thought, a good one for large extents first. Rows along k are one span of
    a swizzle; at most `most` elements of a result are in registers.

    `alone`: nothing but the sums of one product is in registers. A tile of 128 by 128 then asks for
    as many bytes in a cycle as the memory gives at the rate of wgmma; one of 256 columns asks for
    three quarters of that."""
    groups = machine.name == "sm_90a"
    rows = 64 if groups else 32
    first = Shape(128, 256 if groups and alone and most >= SUMS else 128, rows)
    others = (Shape(m, n, rows) for m in _SIZES for n in _SIZES)
    return tuple(dict.fromkeys((first, *(s for s in others if s.m * s.n <= most))))


def spread(
    groups: Groups, rows: Mapping[str, str], shape: Shape, machine: Machine,
    sizes: Mapping[str, int],
) -> dict[str, int]:  # fmt: skip
    """The lanes of every index in `groups`. `rows`: of each role, the index that gets most."""
    known = [role for name in machine.products for role in machine.instructions[name].roles]
    lanes: dict[str, int] = {}
    for role, group in groups.items():
        most, atom = shape.of(role), min(item.atom for item in known if item.name == role)
        ranked = [rows[role], *(i for i in reversed(group) if i != rows[role])]
        if role == "k":
            lanes.update(dict.fromkeys(group, 1))
            ranked = ranked[:1]
        lanes.update(shared_out(ranked, most, atom, sizes))
    return lanes


def shared_out(
    ranked: list[str], most: int, atom: int, sizes: Mapping[str, int]
) -> dict[str, int]:  # fmt: skip
    """`most` lanes over indices, the first served first; together whole atoms."""
    lanes: dict[str, int] = {}
    left = most
    for index in ranked:
        wanted = power(sizes.get(index, left))
        least = LEAST if index == ranked[0] else 1
        lanes[index] = max(min(wanted, left), min(least, most))
        left = max(1, left // lanes[index])
    total = 1
    for count in lanes.values():
        total *= count
    if total < atom:
        lanes[ranked[0]] *= atom // total
    return lanes


def power(size: int) -> int:
    """The least power of two that is at least `size`."""
    return 1 << max(0, size - 1).bit_length()


def instruction(machine: Machine, groups: Groups, lanes: Mapping[str, int]) -> Instruction | None:
    """The machine's best instruction of which whole atoms cover the tile."""
    for name in machine.products:
        found = machine.instructions[name]
        if all(atoms(found, groups, lanes, role.name) is not None for role in found.roles):
            return found
    return None


def atoms(
    found: Instruction, groups: Groups, lanes: Mapping[str, int], role: str
) -> int | None:  # fmt: skip
    """How many atoms lie along a role; None: no whole number."""
    total = 1
    for index in groups[role]:
        total *= lanes[index]
    (size,) = (item.atom for item in found.roles if item.name == role)
    return total // size if total % size == 0 else None
