"""Operations of a loop problem priced by the numbers of a product.

A `Ledger` is a product that remembers which of its numbers were read, so that a problem can state
what it was built from. The functions turn a tile statement, described by how much of what it does,
into an `Operation`. They know shapes and rates and no operator; the instruction tables of the
architecture files decide which of them a statement is.

Cycles are rounded up. Units are named by their key in the machine file without `rate.`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import Literal

from tensorc.ir.schedule import Figure, Memory, Operation, Registers, Transfer, Unit, Use
from tensorc.machine.product import Product

Work = Literal["exp", "fma", "alu", "convert", "shared"]
"""What threads do: the rates of a machine file that a warp group uses, in results or bytes."""

MMA, COPY = "mma", "copy"


class Ledger:
    """A product whose numbers are noted when they are read; see `figures`."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self._read: set[str] = set()

    def __getitem__(self, key: str) -> Fraction:
        self._read.add(key)
        return self.product[key]

    def cycles(self, key: str) -> int:
        """A cost of the machine file in whole cycles."""
        return ceil(self[key])

    def figures(self) -> tuple[Figure, ...]:
        """The numbers read so far, by key."""
        return tuple(self.product.figure(key) for key in sorted(self._read))


def copied(ledger: Ledger, name: str, size: int, statement: str = "") -> Operation:
    """An asynchronous copy of `size` bytes from global memory into a ring, started by one thread.

    It occupies the copy engine for size / rate.copy and lands after copy_latency plus
    copy_per_kib for each KiB, and not before its bytes can have moved.
    """
    moving = ceil(size / ledger["rate.copy"])
    landing = ceil(ledger["cost.copy_latency"] + ledger["cost.copy_per_kib"] * size / 1024)
    latency = max(moving, landing)
    issue = ledger.cycles("cost.copy_issue")
    uses = (Use(COPY, moving),)
    return Operation(name, statement or name, None, uses, issue, latency, latency, variable=True)


def multiplied(
    ledger: Ledger,
    name: str,
    macs: int,
    part: int | None = None,
    *,
    kind: str = "f16",
    warps: int = 4,
    statement: str = "",
) -> Operation:
    """An asynchronous tile product of `macs` multiply-adds on the tensor core.

    Occupied for macs / rate.mma_<kind>; the sums and the operands' storage are free after
    mma_drain more cycles; its role is busy for mma_issue. `warps` is 4 where a warp group issues
    it (wgmma) and 1 where one thread does (tcgen05).
    """
    working = ceil(macs / ledger[f"rate.mma_{kind}"])
    done = working + ledger.cycles("cost.mma_drain")
    issue = max(1, ledger.cycles("cost.mma_issue"))
    return Operation(
        name, statement or name, part, (Use(MMA, working),), issue, done, done, warps=warps
    )


def computed(
    ledger: Ledger,
    name: str,
    part: int | None = None,
    *,
    in_place: bool = False,
    extra: int = 0,
    statement: str = "",
    amounts: Mapping[str, int] | None = None,
    **work: int,
) -> Operation:
    """Work that the four warps of a role do themselves; the role is busy until it is done.

    `work` (or `amounts`) counts results by rate: exp, fma, alu, convert, and bytes for shared. The
    units work at the same time, so the duration is the longest of them plus `extra` cycles.
    Operands are free when it ends, or at its start where the result takes their registers
    (`in_place`).
    """
    done = {**(amounts or {}), **work}
    uses = tuple(
        Use(unit, ceil(amount / ledger[f"rate.{unit}"])) for unit, amount in done.items() if amount
    )
    lasts = max(1, max((use.cycles for use in uses), default=0) + extra)
    hold = 0 if in_place else lasts
    return Operation(name, statement or name, part, uses, lasts, lasts, hold, warps=4, threads=True)


def told(ledger: Ledger) -> Transfer:
    """What it costs to tell another role that a ring's slot is full or empty."""
    return Transfer(ledger.cycles("cost.mbarrier"))


def handed(ledger: Ledger, registers: int) -> Transfer:
    """What it costs to move `registers` per thread of a warp group through shared memory."""
    size = registers * 4 * 128
    latency = ceil(ledger["cost.handoff"] + ledger["cost.handoff_per_kib"] * size / 1024)
    return Transfer(latency, ceil(size / ledger["rate.shared"]), "shared", "shared", size)


def units() -> tuple[Unit, ...]:
    """The units that the functions above use; the tensor core's order is kept by tokens."""
    threads = tuple(Unit(name) for name in ("exp", "fma", "alu", "convert", "shared"))
    return (Unit(COPY), Unit(MMA, ordered=True), *threads)


def shared_memory(ledger: Ledger, taken: int = 0) -> Memory:
    """The shared memory of one block, of which `taken` bytes are used outside the loop's rings."""
    return Memory("shared", int(ledger["size.shared"]), taken)


def tensor_memory(ledger: Ledger, taken: int = 0) -> Memory:
    """The tensor memory of one multiprocessor, of which `taken` bytes are used otherwise."""
    return Memory("tensor", int(ledger["size.tensor"]), taken)


def register_file(ledger: Ledger) -> Registers:
    """The register file as one block on the multiprocessor has it."""
    return Registers(
        int(ledger["size.registers"]),
        int(ledger["register.floor"]),
        int(ledger["register.ceiling"]),
        int(ledger["register.step"]),
        bool(ledger["register.dynamic"]),
    )
