"""Random loop problems: every feature of the form, small numbers, many of them barely feasible."""

from __future__ import annotations

from random import Random

from tensorc.ir.schedule import (
    Dependence,
    LoopProblem,
    Memory,
    Operation,
    Registers,
    Ring,
    Role,
    Transfer,
    Unit,
    Use,
    Value,
)


def random_problem(
    seed: int, most: int = 12, longest: int = 9, warp_groups: int = 3
) -> LoopProblem:
    """A well-formed problem of 2 to `most` operations that take up to `longest` cycles."""
    return _Random(seed, most, longest, warp_groups).problem()


class _Random:
    def __init__(self, seed: int, most: int, longest: int, warp_groups: int) -> None:
        self.dice = Random(seed)
        self.seed, self.longest, self.groups = seed, longest, warp_groups
        self.count = self.dice.randint(2, most)
        self.isolated = self.dice.random() < 0.5
        self.units = (
            Unit("u", ordered=self.dice.random() < 0.5, issuers=self.dice.choice((0, 0, 1, 2))),
            Unit("w", capacity=2),
        )
        self.rings: list[Ring] = []
        self.values: list[Value] = []
        self.edges: list[Dependence] = []

    def problem(self) -> LoopProblem:
        dice = self.dice
        operations = tuple(self.operation(i) for i in range(self.count))
        for target in range(self.count):
            for source in dice.sample(range(self.count), dice.randint(0, min(2, self.count))):
                self.edge(operations[source], operations[target], int(source >= target))
        roles = tuple(Role(f"r{i}", 4, dice.choice((8, 8, 16))) for i in range(self.groups))
        if self.isolated:
            roles = (Role("load", 1, 8, variable=True), *roles)
        return LoopProblem(
            f"random{self.seed}",
            "paper",
            operations,
            tuple(self.edges),
            self.units,
            roles,
            tuple(self.rings),
            tuple(self.values),
            (Memory("shared", dice.choice((64, 128, 1024)), taken=dice.choice((0, 0, 5))),),
            Registers(4096 * self.groups, 8, dice.choice((40, 64)), 8, dice.random() < 0.8),
        )

    def operation(self, number: int) -> Operation:
        dice, variable = self.dice, self.isolated and self.dice.random() < 0.2
        uses = tuple(
            Use(unit, dice.randint(1, self.longest // 2), dice.choice((0, 0, 0, 1)), demand)
            for unit, demand in (("u", 1), ("w", dice.randint(1, 2)))
            if dice.random() < 0.5
        )
        warps = 1 if variable or dice.random() < 0.3 else 4
        threads = not variable and dice.random() < 0.5
        lasts = dice.randint(1, self.longest)
        busy = lasts if threads else dice.randint(1, 2)
        name = f"o{number}"
        return Operation(name, name, None, uses, busy, lasts, lasts, warps, variable, threads)

    def edge(self, source: Operation, target: Operation, least: int) -> None:
        """A dependence that is order alone, or carries a ring, a value or a resident value."""
        dice = self.dice
        distance = least if dice.random() < 0.7 else least + 1
        told = Transfer(dice.randint(0, 4))
        kind = dice.random()
        apart = source.variable != target.variable
        name, carried, cost = f"{source.name}-{target.name}-{distance}", "", told
        if kind < 0.35:
            carried = self.ring(source)
        elif kind < 0.6 and not apart and distance == 0 and not source.variable:
            carried = self.value(source)
            cost = Transfer(dice.randint(1, 4), dice.randint(0, 2), "", "shared", 16)
        elif kind < 0.7 and not apart and not source.variable:
            self.values.append(Value(name, source.name, dice.choice((2, 4)), resident=True))
            carried, cost = name, None
        elif kind < 0.75 and not apart:
            cost = None
        self.edges.append(
            Dependence(source.name, target.name, distance, source.latency, carried, cost)
        )

    def ring(self, source: Operation) -> str:
        name = f"R{source.name}"
        if all(ring.name != name for ring in self.rings):
            size = self.dice.choice((16, 24, 32))
            deepest = self.dice.randint(1, 4)
            fill = "copy" if source.variable else "threads"
            self.rings.append(Ring(name, "shared", size, source.name, fill, 1, deepest, align=16))
        return name

    def value(self, source: Operation) -> str:
        name = f"V{source.name}"
        if all(value.name != name for value in self.values):
            self.values.append(Value(name, source.name, self.dice.choice((2, 8, 12, 20))))
        return name
