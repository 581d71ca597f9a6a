"""A hand-made problem under construction: operations that name what they read.

Edges follow from what is read: a ring's slot, a register tile, or a tile updated in place. Sizes
and amounts are given by the caller; cycles come from the product's numbers.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.problems.roles import ORIGIN, flows, hopper_roles, signalled, stays, through
from tensorc.ir.schedule import Dependence, LoopProblem, Operation, Ring, Value
from tensorc.machine.costs import (
    Ledger,
    computed,
    copied,
    multiplied,
    register_file,
    shared_memory,
    units,
)
from tensorc.machine.product import Product


class Draft:
    """Collects the parts of a problem; `problem` is what they make."""

    def __init__(self, product: Product) -> None:
        self.ledger = Ledger(product)
        self.product = product
        self.operations: dict[str, Operation] = {}
        self.edges: list[Dependence] = []
        self.rings: dict[str, Ring] = {}
        self.values: dict[str, Value] = {}

    def load(self, name: str, size: int, deepest: int = 4) -> str:
        """A ring of `size` bytes a slot, filled by a copy from global memory."""
        self.operations[name] = copied(self.ledger, name, size)
        self.rings[name] = Ring(name, "shared", size, name, "copy", deepest=deepest)
        return name

    def mma(self, name: str, macs: int, reads: tuple[str, ...] = (), value: int = 0) -> str:
        """A tile product; `value` registers per thread hold its sums (0: see `update`)."""
        made = multiplied(self.ledger, name, macs, _part(name), statement=_statement(name))
        return self._add(made, reads, value)

    def simt(
        self,
        name: str,
        reads: tuple[str, ...] = (),
        value: int = 0,
        in_place: bool = False,
        **work: int,
    ) -> str:
        """Work of threads; with `in_place` its result takes its operands' registers."""
        made = computed(
            self.ledger,
            name,
            _part(name),
            in_place=in_place,
            statement=_statement(name),
            amounts=work,
        )
        return self._add(made, reads, value)

    def stored(self, name: str, size: int, reads: tuple[str, ...], **work: int) -> str:
        """Threads write a slot of `size` bytes of a ring that has the operation's name."""
        made = self.simt(name, reads, 0, False, shared=size, **work)
        self.rings[made] = Ring(made, "shared", size, made, "threads", deepest=2)
        return made

    def sent(self, name: str, size: int, source: str) -> str:
        """An asynchronous copy of the ring `source` to global memory, started by its own role."""
        made = replace(copied(self.ledger, name, size), variable=False, part=_part(name))
        return self._add(replace(made, statement=_statement(name)), (source,), 0)

    def update(self, name: str, registers: int, *operations: str) -> None:
        """`operations`, in this order, update a tile of the whole loop in place."""
        first = operations[0]
        self.values[name] = Value(name, first, registers, resident=True)
        for one, two, distance in zip(
            operations, (*operations[1:], first), _distances(len(operations)), strict=True
        ):
            source, target = self.operations[one], self.operations[two]
            edge = stays(name, source, target, distance)
            if not source.threads and not target.threads:
                drain = self.ledger.cycles("cost.mma_drain")
                edge = replace(edge, latency=source.latency - drain)
            self.edges.append(edge)

    def onto(self, first: str, second: str) -> None:
        """The second product adds to the sums of the first: one role, in the unit's order."""
        one, two = self.operations[first], self.operations[second]
        self.edges.append(replace(stays("", one, two), latency=one.uses[0].cycles))

    def order(self, source: str, target: str, distance: int = 0) -> None:
        """The target waits for the source; the roles may differ."""
        one, two = self.operations[source], self.operations[target]
        self.edges.append(signalled(self.ledger, one, two, distance))

    def problem(self, name: str, consumers: int = 2, taken: int = 0) -> LoopProblem:
        """The problem on `consumers` warp groups, with `taken` bytes used outside the loop."""
        return LoopProblem(
            name,
            self.product.name,
            tuple(self.operations.values()),
            tuple(self.edges),
            units(),
            hopper_roles(self.ledger, consumers),
            tuple(self.rings.values()),
            tuple(self.values.values()),
            (shared_memory(self.ledger, taken + 1024),),
            register_file(self.ledger),
            figures=self.ledger.figures(),
            origin=ORIGIN,
        )

    def _add(self, item: Operation, reads: tuple[str, ...], value: int) -> str:
        self.operations[item.name] = item
        if value:
            self.values[item.name] = Value(item.name, item.name, value)
        for name in reads:
            source = self.operations[name]
            if name in self.rings:
                self.edges.append(through(self.ledger, name, source, item))
            else:
                width = self.values[name].registers
                self.edges.append(flows(self.ledger, name, width, source, item))
        return item.name


def _distances(count: int) -> list[int]:
    return [0] * (count - 1) + [1]


def _part(name: str) -> int | None:
    tail = name.rpartition(".")[2]
    return int(tail) if tail.isdigit() and tail != name else None


def _statement(name: str) -> str:
    head, _, tail = name.rpartition(".")
    return head if head and tail.isdigit() else name
