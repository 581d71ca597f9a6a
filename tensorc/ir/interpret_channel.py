"""The meaning of level 3: roles run in a random interleaving, against the sequential loop.

`sequential` reads a kernel as what it claims to compute: every operation instance applied to the
elements and values that it names, whatever the order. `interpret` runs it as a machine would: slots
and registers are storage that is overwritten, barriers have a phase bit and counts, copies land
and operations in flight complete at any later time, and a seeded generator picks who moves. It
reports a race, a wrong operand, a deadlock or a leftover with the trace that led there.

What an operation computes is a function given by the caller (`ir/term.py`); by default a term, so
that equal results mean the same computation, not just the same numbers. The result of an operation
instance is the tuple of the values that it makes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tensorc.ir.channel import (
    BUILTIN,
    Call,
    Kernel,
    Perform,
    Put,
    Read,
    Role,
    iteration,
    unfold,
)
from tensorc.ir.machine_channel import Machine
from tensorc.ir.machine_parts import Fault
from tensorc.ir.term import Meaning, apply, symbolic
from tensorc.ir.trace import Entry, table

Instance = tuple[str, int, int]  # operation, tile, iteration


@dataclass(frozen=True)
class Run:
    """What one interleaving did: the result of every instance, or the fault it ran into.

    `spans`: the moments of the trace at which each instance began and ended.
    """

    results: dict[Instance, object]
    fault: Fault | None = None
    trace: tuple[Entry, ...] = field(default=(), repr=False)
    spans: dict[Instance, tuple[int, int]] = field(
        default_factory=dict[Instance, tuple[int, int]], repr=False
    )

    def __str__(self) -> str:
        if self.fault is None:
            return f"{len(self.results)} operation instances, no fault"
        first, second = self.fault.operations
        head = f"{self.fault.rule}: {self.fault.sentence} (`{first}` and `{second}`)"
        return "\n".join([head, *table(self.trace)])


def interpret(
    kernel: Kernel,
    trips: Sequence[int],
    seed: int,
    meaning: Meaning = symbolic,
    patience: int = 1_000_000,
) -> Run:
    """Run `kernel` on one tile per entry of `trips`, that tile's trip count.

    Stops at the first fault. Raises ValueError for several tiles of a kernel that is not
    persistent, for a negative trip count, and if the run takes more than `patience` moves.
    """
    _admit(kernel, trips)
    machine = Machine(kernel, trips, meaning)
    chance = random.Random(seed)
    weights = dict[str, float]()
    for moment in range(patience):
        if moment % 32 == 0:
            weights.clear()  # who is fast and who is slow changes now and then
        actions = machine.actions()
        if not actions or machine.fault:
            break
        agents = list(actions)
        for agent in agents:
            weights.setdefault(agent, chance.choice((1.0, 4.0, 64.0)))
        agent = chance.choices(agents, [weights[a] for a in agents])[0]
        actions[agent]()
    else:
        raise ValueError(f"{kernel.name} has not finished {list(trips)} after {patience:,} moves")
    fault = machine.fault or machine.remains()
    spans = {instance: (machine.began[instance], end) for instance, end in machine.ended.items()}
    return Run(machine.results, fault, tuple(machine.trace), spans)


def _admit(kernel: Kernel, trips: Sequence[int]) -> None:
    if not kernel.persistent and len(trips) != 1:
        raise ValueError(f"{kernel.name} is not persistent: one trip count, not {len(trips)}")
    if any(count < 0 for count in trips):
        raise ValueError(f"trip counts are at least 0, found {list(trips)}")


def check_run(kernel: Kernel, trips: Sequence[int], seed: int, meaning: Meaning = symbolic) -> Run:
    """`interpret`, with a result that differs from the sequential meaning as a fault (R5)."""
    run = interpret(kernel, trips, seed, meaning)
    if run.fault:
        return run
    expected = sequential(kernel, trips, meaning)
    for instance in sorted(expected.keys() | run.results.keys()):
        if run.results.get(instance) != expected.get(instance):
            name, tile, at = instance
            sentence = f"{name}[{at}] of tile {tile} is not what the loop computes"
            return Run(run.results, Fault("R5", sentence, (name, name)), run.trace)
    return run


def sequential(
    kernel: Kernel, trips: Sequence[int], meaning: Meaning = symbolic
) -> dict[Instance, object]:
    """The result of every operation instance, from the iterations that the statements name.

    Raises ValueError if a statement reads what no statement of the kernel makes.
    """
    _admit(kernel, trips)
    results = dict[Instance, object]()
    for tile, count in enumerate(trips):
        results.update(_tile(kernel, tile, count, meaning))
    return results


@dataclass(frozen=True)
class _Work:
    """A statement in an iteration, the names of its operands and those of what it makes."""

    item: Perform | Put
    iteration: int
    operands: tuple[tuple[str, int], ...]
    names: tuple[str, ...]


def _tile(kernel: Kernel, tile: int, trips: int, meaning: Meaning) -> dict[Instance, object]:
    work = dict[tuple[str, int], _Work]()
    for role in kernel.roles:
        work.update(_works(role, trips))
    known = dict[tuple[str, int], object]()
    results = dict[Instance, object]()
    for target, item in work.items():
        _evaluate(target, work, known, tile, meaning)
        operation = item.item.call.operation
        if operation not in BUILTIN:
            values = tuple(known[name, item.iteration] for name in item.names)
            results[(operation, tile, item.iteration)] = values
    return results


def _works(role: Role, trips: int) -> Iterator[tuple[tuple[str, int], _Work]]:
    for item, step in unfold(role, trips):
        match item:
            case Perform(call, results, _):
                names = tuple(result.name for result in results)
            case Put(ring, call):
                names = (ring,)
            case _:
                continue
        at = iteration(call.at, step, trips)
        names = names or (f"{call.operation}()",)
        for name in names:
            yield (name, at), _Work(item, at, _operands(call, step, trips), names)


def _operands(call: Call, step: int, trips: int) -> tuple[tuple[str, int], ...]:
    def place(read: Read) -> tuple[str, int]:
        return read.name, iteration(read.at, step, trips)

    return tuple(place(read) for read in call.reads)


def _evaluate(
    target: tuple[str, int],
    work: dict[tuple[str, int], _Work],
    known: dict[tuple[str, int], object],
    tile: int,
    meaning: Meaning,
) -> None:
    """Fill `known` with `target` and all it needs, without recursion."""
    path = {target: None}  # what needs what: the last is evaluated first
    while path:
        name = next(reversed(path))
        if name not in work:
            raise ValueError(f"nothing makes {name[0]}[{name[1]}], which is read")
        missing = next((one for one in work[name].operands if one not in known), None)
        if missing in path:
            raise ValueError(f"{name[0]}[{name[1]}] needs itself")
        if missing is not None:
            path[missing] = None
            continue
        path.popitem()
        item = work[name]
        arguments = tuple(known[operand] for operand in item.operands)
        values = apply(meaning, item.item, tile, item.iteration, arguments)
        known.update({(n, item.iteration): v for n, v in zip(item.names, values, strict=True)})
