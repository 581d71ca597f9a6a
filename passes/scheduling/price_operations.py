"""The operations of a level-2 loop, priced: what stands in a group as a loop problem's operation.

Products of warp groups work on their own while their role goes on. Products of warps are done by
the warps that ask for them, with what loads their operands from shared memory: their role is busy
as long as the slower of the two takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from tensorc.ir.bodies import statement_name
from tensorc.ir.schedule import Operation, Use
from tensorc.ir.tile import Let, Loop, Store
from tensorc.machine.costs import COPY, Ledger, computed, copied, multiplied
from tensorc.machine.instruction import Machine
from tensorc.passes.scheduling.divide import copies, instruction, multiplies
from tensorc.passes.scheduling.groups import Group, Instance, Unpipelined
from tensorc.passes.scheduling.statement_costs import (
    fetched,
    products,
    size_in_bytes,
    turning,
    work,
)


def main_statement(group: Group) -> Let | Store:
    """The last statement that reduces, else the last."""
    reducing = [i for i in group.statements if isinstance(i, Let) and i.op is not None]
    return (reducing or list(group.statements))[-1]


@dataclass(frozen=True)
class Pricing:
    """What prices depend on. `apart`: whether products and copies go on while their role does."""

    loop: Loop
    machine: Machine
    ledger: Ledger
    sizes: Mapping[str, int]
    apart: bool

    def operation(self, item: Instance) -> Operation:
        """The operation that an instance is."""
        first, main = item.group.statements[0], main_statement(item.group)
        statement = statement_name(main)
        if copies(first, self.machine) and isinstance(first, Let):
            size = size_in_bytes(first.tile, item.sizes)
            return copied(self.ledger, item.name, size, statement)
        if multiplies(main, self.machine) and isinstance(main, Let):
            return self.product(item, main)
        amounts, moved = self.amounts(item)
        extra = self.ledger.cycles("cost.copy_latency") if moved else 0
        made = computed(
            self.ledger, item.name, item.part, extra=extra, statement=statement, amounts=amounts
        )
        if not moved:
            return made
        fetching = Use(COPY, ceil(moved / self.ledger["rate.copy"]))
        return replace(made, uses=(*made.uses, fetching))

    def product(self, item: Instance, main: Let) -> Operation:
        """A product, with the loads of its operands if they are part of it."""
        kind = instruction(main, self.machine).cost.rate.removeprefix("rate.mma_")
        macs, name = products(main, item.sizes), statement_name(main)
        made = multiplied(self.ledger, item.name, macs, item.part, kind=kind, statement=name)
        if self.apart:
            return made
        loads = [i for i in item.group.statements if isinstance(i, Let) and i is not main]
        loaded = sum(size_in_bytes(load.tile, item.sizes) for load in loads)
        fed = Use("shared", ceil(loaded / self.ledger["rate.shared"]))
        uses = (*made.uses, fed) if loads else made.uses
        busy = max(1, *(use.cycles for use in uses))
        done = busy + self.ledger.cycles("cost.mma_drain")
        return replace(made, uses=uses, busy=busy, latency=done, hold=busy, threads=True)

    def amounts(self, item: Instance) -> tuple[dict[str, int], int]:
        """What threads compute, by rate, and the bytes that they read from memory."""
        total, moved, around = Counter[str](), 0, turning(self.loop, self.sizes)
        for statement in item.group.statements:
            if isinstance(statement, Store):
                raise Unpipelined(f"{statement_name(statement)} stores in the loop")
            moved += fetched(statement, item.sizes, around)
            if instruction(statement, self.machine).cost.rate == "rate.shared":
                total["shared"] += size_in_bytes(statement.tile, item.sizes)
            else:
                total.update(work(statement, item.sizes, around))
        return dict(total), moved
