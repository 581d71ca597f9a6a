"""Pass: the loop of a level-2 kernel on a product to a loop problem.

Afterwards every statement of the loop is in one operation (see `groups`) or in one for each part of
its lanes; operations are priced by the product's numbers, and depend on each other as the tiles
that they read and write say. Nothing else is known of them.

    kernel gemm (level 2), h100  ->  operations A, W, c.0, c.1; rings A, W; values c.0, c.1

A tile that a copy writes is a ring, as is one that threads write into shared memory; a tile in
registers that another operation reads is a value. A carry is a value updated in place, by the
operations that hand its storage on (`into`) or by the one that makes its next value; where others
read that next value in the same iteration, they have a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tensorc.ir.bodies import statement_name
from tensorc.ir.channel import Holds, Window
from tensorc.ir.placement import Placement
from tensorc.ir.schedule import Dependence, LoopProblem, Operation, Ring, Role, Value
from tensorc.ir.tile import Carry, Frame, Kernel, Let, Loop, Operand, Statement, Tile
from tensorc.ir.walk_tile import reads, statements, tiles
from tensorc.machine.costs import (
    MMA,
    Ledger,
    handed,
    register_file,
    shared_memory,
    told,
    units,
)
from tensorc.machine.instruction import Machine
from tensorc.machine.product import Product
from tensorc.passes.scheduling.around_loop import reused, space
from tensorc.passes.scheduling.divide import copies, divide, multiplies
from tensorc.passes.scheduling.groups import Group, Instance, Unpipelined, groups, instances
from tensorc.passes.scheduling.loop_place import lanes_of, placed_block, split, started_apart
from tensorc.passes.scheduling.place_warps import fragment_registers
from tensorc.passes.scheduling.price_operations import Pricing, main_statement
from tensorc.passes.scheduling.statement_costs import (
    THREADS,
    registers,
    size_in_bytes,
)

BARRIERS = 1024
"""Bytes of shared memory for barriers and for what alignment loses."""
_APART = 8  # iterations; more than a schedule has stages


@dataclass(frozen=True)
class LoopText:
    """A loop problem beside the text it comes from.

    `kernel` has its rows divided; `loop` is its one loop with the statements `before` and `after`.
    `instances` are the operations by name; `holds`: the tile that lies in each ring and value.
    """

    problem: LoopProblem
    kernel: Kernel
    machine: Machine
    loop: Loop
    before: tuple[Statement, ...]
    after: tuple[Statement, ...]
    sizes: Mapping[str, int]
    instances: Mapping[str, Instance]
    holds: tuple[Holds, ...]


def extract(kernel: Kernel, machine: Machine, product: Product) -> LoopText:
    """The loop problem of `kernel` on `product`, whose architecture is that of `machine`.

    Raises Unpipelined if the kernel has no loop or several, or if statements of it cannot be told
    apart as operations; the message is a sentence.
    """
    kernel = divide(kernel, machine)
    return loop_text(kernel, machine, product, *split(kernel))


def loop_text(
    kernel: Kernel, machine: Machine, product: Product, before: tuple[Statement, ...], loop: Loop,
    after: tuple[Statement, ...], kept: tuple[Tile, ...] = (),
) -> LoopText:  # fmt: skip
    """The loop problem of one loop of a kernel, whose rows are divided, with what stands around it.
    `kept`: tiles in registers from outside that live as long as the loop.

    Raises Unpipelined if nothing in it is a product, or its statements cannot be told apart.
    """
    if not any(multiplies(item, machine) for item in statements(loop.body)):
        raise Unpipelined(f"no tensor core works in the loop of {loop.index}")
    ledger, sizes = Ledger(product), lanes_of(kernel)
    named = dict(_named(groups(loop, machine, ledger, sizes)))
    found = {i.name: i for name, group in named.items() for i in instances(group, name, sizes)}
    placed = None if started_apart(loop, machine) else placed_block(kernel, product)
    extraction = _Extraction(kernel, loop, machine, ledger, sizes, found, placed, kept)
    problem = extraction.problem(product, before, after)
    return LoopText(
        problem,
        kernel,
        machine,
        loop,
        before,
        after,
        sizes,
        found,
        tuple(extraction.holds(problem)),
    )


def _named(found: Iterable[Group]) -> Iterator[tuple[str, Group]]:
    """A name for each group: of the statement in it that does most, the last of several."""
    taken = set[str]()
    for group in found:
        name = statement_name(main_statement(group)).rstrip("'")
        taken.add(name)
        yield name, group


@dataclass(frozen=True)
class _Extraction:
    kernel: Kernel
    loop: Loop
    machine: Machine
    ledger: Ledger
    sizes: Mapping[str, int]
    instances: Mapping[str, Instance]
    placed: Placement | None
    kept: tuple[Tile, ...]

    def problem(
        self, product: Product, before: tuple[Statement, ...], after: tuple[Statement, ...]
    ) -> LoopProblem:
        """The loop problem; `before` and `after` say how much shared memory is left."""
        at = Pricing(self.loop, self.machine, self.ledger, self.sizes, self.placed is None)
        operations = {name: at.operation(item) for name, item in self.instances.items()}
        rings, values = tuple(self.rings()), tuple(self.values())
        edges = (*self.edges(operations), *self.together(after), *self.in_order(operations))
        taken = BARRIERS + sum(space(item) for item in statements((*before, *after)))
        taken -= sum(space(item) for item, _ in reused(before, self.loop, after))
        return LoopProblem(
            f"{self.kernel.name}.{self.loop.index}", product.name, tuple(operations.values()),
            edges, units(), self.roles(), rings, values,
            (shared_memory(self.ledger, taken),), register_file(self.ledger),
            figures=self.ledger.figures(), origin=f"level 2, kernel {self.kernel.name}",
        )  # fmt: skip

    def roles(self) -> tuple[Role, ...]:
        """One warp for copies and a warp group for each part of the work; or the whole block."""
        parts = self.instances.values()
        some = max(parts, key=lambda item: len(item.windows))  # a part of what is divided
        base = self.ledger.cycles("register.base")
        base += sum(self.registers(tile, some) for tile in self.kept)
        if self.placed is not None:
            return (Role("block", self.placed.warps, base),)
        count = 1 + max((item.part or 0 for item in parts), default=0)
        consumers = tuple(Role(f"consumer{k}", 4, base) for k in range(count))
        return (Role("load", 1, self.ledger.cycles("register.floor"), variable=True), *consumers)

    def in_order(self, operations: Mapping[str, Operation]) -> Iterator[Dependence]:
        """Where one role does everything, the text's order, and one iteration after the other; only
        copies run ahead."""
        own = [item for item in operations.values() if not item.variable]
        if self.placed is not None:
            for one, two in zip(own, (*own[1:], own[0]), strict=True):
                yield Dependence(one.name, two.name, int(one is own[-1]), one.busy)

    # --- storage --------------------------------------------------------------------------------

    def writers(self, tile: str) -> list[Instance]:
        """The instances that define a tile, or parts of it."""
        return [item for item in self.instances.values() if tile in item.group.tiles]

    def readers(self, tile: str) -> list[Instance]:
        """The instances that read a tile which they do not make."""
        return [item for item in self.instances.values() if tile in item.group.reads]

    def rings(self) -> Iterator[Ring]:
        """Tiles in shared memory that the loop writes."""
        for item in self.instances.values():
            for let in item.group.statements:
                if isinstance(let, Let) and let.tile.space == "shared":
                    filled = "copy" if copies(let, self.machine) else "threads"
                    size = size_in_bytes(let.tile, item.sizes)
                    made = Ring(_part(let.tile.name, item), "shared", size, item.name, filled)
                    deep = self.placed.depth if self.placed is not None else made.deepest
                    yield replace(made, deepest=deep)

    def values(self) -> Iterator[Value]:
        """Tiles in registers that another operation reads, and carries."""
        for item in self.instances.values():
            for let in item.group.statements:
                if not isinstance(let, Let) or let.tile.space != "register":
                    continue
                count = self.registers(let.tile, item)
                if self.others(let.tile.name, item):
                    yield Value(_part(let.tile.name, item), item.name, count)
                for carry in self.loop.carries:
                    if carry.tile.name + "'" == let.tile.name:
                        yield Value(_part(carry.tile.name, item), item.name, count, resident=True)

    def registers(self, tile: Tile, item: Instance) -> int:
        """32-bit registers of a thread for an instance's part of a tile."""
        if self.placed is not None and isinstance(tile.layout, Frame | Operand):
            return fragment_registers(tile, self.placed.rows, self.placed.columns)
        threads = THREADS if self.placed is None else 32 * self.placed.warps
        return registers(tile, item.sizes, threads)

    def others(self, tile: str, item: Instance) -> list[Instance]:
        """The instances that read a tile as a value: those that do not update it in place."""
        chain = next((c for c in map(self.chain, self.loop.carries) if tile in c), ())
        along = {name for name in chain if chain and name != chain[-1]}
        readers = [r for r in self.readers(tile) if r.meets(item, self.axes(tile))]
        if tile in along:
            return []
        return [r for r in readers if r is not item]

    def axes(self, tile: str) -> tuple[str, ...]:
        """The axes of a tile of the kernel."""
        return tiles(self.kernel)[tile].axes

    def chain(self, carry: Carry) -> tuple[str, ...]:
        """The tiles that one after another take a carry's storage, the carry first, its next value
        last; only these two if its storage goes elsewhere."""
        taken = dict[str, str]()
        for item in statements(self.loop.body):
            if isinstance(item, Let) and item.into is not None:
                taken[item.into.name] = item.tile.name
        found = [carry.tile.name]
        while found[-1] in taken:
            found.append(taken[found[-1]])
        last = carry.tile.name + "'"
        return tuple(found) if found[-1] == last else (carry.tile.name, last)

    # --- dependences ----------------------------------------------------------------------------

    def edges(self, operations: Mapping[str, Operation]) -> Iterator[Dependence]:
        """Who reads what of whom, in one iteration and from one to the next."""
        chained = {name for carry in self.loop.carries for name in self.chain(carry)[:-1]}
        for target in self.instances.values():
            for tile in sorted(target.group.reads - chained):
                for source in self.writers(tile):
                    if source is not target and source.meets(target, self.axes(tile)):
                        yield self.read(tile, operations[source.name], target)
        for carry in self.loop.carries:
            yield from self.carried(carry, operations)

    def together(self, after: tuple[Statement, ...]) -> Iterator[Dependence]:
        """One role makes all the final values that are read together after the loop: edges that
        may not cross roles, over so many iterations that they order nothing."""
        wanted = frozenset[str]().union(*map(reads, after))
        carries = [c.tile.name for c in self.loop.carries if c.tile.name in wanted]
        firsts = dict[tuple[Window, ...], Instance]()
        for writer in (item for name in carries for item in self.writers(f"{name}'")):
            first = firsts.setdefault(writer.windows, writer)
            if first is not writer:
                yield Dependence(first.name, writer.name, _APART, 0)

    def read(self, tile: str, source: Operation, target: Instance) -> Dependence:
        """The target reads a tile of the same iteration."""
        writer = self.instances[source.name]
        found, name = tiles(self.kernel)[tile], _part(tile, writer)
        if found.space == "shared":
            return Dependence(source.name, target.name, 0, source.latency, name, told(self.ledger))
        cost = handed(self.ledger, self.registers(found, writer))
        hold = 0 if _in_place(found, target.group) else None
        return Dependence(source.name, target.name, 0, source.latency, name, cost, hold)

    def carried(self, carry: Carry, operations: Mapping[str, Operation]) -> Iterator[Dependence]:
        """The round of operations that update a carry in place."""
        chain = self.chain(carry)
        for last in self.writers(chain[-1]):
            round_ = [
                item
                for item in self.instances.values()
                if item.meets(last, carry.tile.axes) and item.group.tiles & set(chain)
            ]
            round_.sort(key=lambda i: min(chain.index(t) for t in i.group.tiles if t in chain))
            self.alone(carry, chain, round_)
            name = _part(carry.tile.name, last)
            pairs = zip(round_, (*round_[1:], round_[0]), strict=True)
            for source, target in pairs:
                distance = int(source is round_[-1])
                latency = _chained(operations[source.name], operations[target.name], self.ledger)
                yield Dependence(source.name, target.name, distance, latency, name)

    def alone(self, carry: Carry, chain: tuple[str, ...], round_: list[Instance]) -> None:
        """Refuses a carry whose old values somebody else reads."""
        for tile in chain[:-1]:
            for reader in self.readers(tile):
                if reader.meets(round_[-1], carry.tile.axes) and reader not in round_:
                    raise Unpipelined(
                        f"{reader.name} reads {tile}, whose registers are updated by "
                        + ", ".join(item.name for item in round_)
                    )

    def holds(self, problem: LoopProblem) -> Iterator[Holds]:
        """The tiles that lie in rings and values; of carries, each version (`a~` and `a`)."""
        from tensorc.passes.pipelining.channel_links import results

        for ring in problem.rings:
            yield Holds(ring.name, (_tile(ring.name, self.instances[ring.writer]),))
        named = {value.name for value in problem.values if not value.resident}
        for item in self.instances.values():
            for made in results(problem, item.name):
                carries = [c for c in self.loop.carries if _part(c.tile.name, item) == made.into]
                if made.name in named or not carries:
                    yield Holds(made.name, (_tile(made.name, item),))
                    continue
                chain = self.chain(carries[0])
                last = [tile for tile in chain[1:] if tile in item.group.tiles][-1]
                yield Holds(made.name, (last,))


def _part(tile: str, item: Instance) -> str:
    """The name of a tile's part that an instance makes."""
    return tile if item.part is None else f"{tile}.{item.part}"


def _tile(name: str, item: Instance) -> str:
    """The inverse of `_part`."""
    return name if item.part is None else name.removesuffix(f".{item.part}")


def _in_place(tile: Tile, group: Group) -> bool:
    """Whether what a group makes of a tile can take its registers: element by element, a register
    for a register. (Where two are packed in one, the compiler holds both for a while.)"""
    return all(
        isinstance(item, Let)
        and item.op is None
        and (item.tile.axes, item.tile.dtype.bits) == (tile.axes, tile.dtype.bits)
        for item in group.statements
        if tile.name in reads(item)
    )


def _chained(source: Operation, target: Operation, ledger: Ledger) -> int:
    """Cycles until the target may update what the source has; one tensor core works in order and
    forwards its sums."""
    both = all(use.unit == MMA for item in (source, target) for use in item.uses)
    if both and source.uses and target.uses and not (source.threads or target.threads):
        return source.latency - ledger.cycles("cost.mma_drain")
    return source.latency
