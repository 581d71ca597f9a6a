"""Persistent kernels: the loop over output tiles as a loop problem of its own.

Each warp group works on a tile: its main loop, then its epilogue. The main loop is one operation
that keeps its group busy for all its iterations and takes of every exclusive unit the share that
its schedule takes; an epilogue keeps the group busy and nothing else. The scheduler then lets the
epilogue of one group run under the main loop of another where the shares allow it.
"""

from __future__ import annotations

from tensorc.ir.schedule import Dependence, LoopProblem, Operation, Role, Schedule, Unit, Use

WHOLE = 1000
"""Capacity of a unit here: shares are counted in thousandths, rounded up."""


def outer_problem(
    inner: LoopProblem, made: Schedule, trip: int, epilogue: int, groups: int
) -> LoopProblem:
    """The loop over tiles of `groups` warp groups, each running `made` for `trip` iterations and
    then an epilogue of `epilogue` cycles. `made` is the schedule of one group's tile."""
    cycles = trip * made.ii
    shares = {unit.name: _share(inner, made, unit.name) for unit in inner.units}
    uses = tuple(Use(name, cycles, 0, share) for name, share in shares.items() if share)
    operations, edges = list[Operation](), list[Dependence]()
    for group in range(groups):
        main = Operation(
            f"main.{group}", "main", group, uses, cycles, cycles, cycles, 4, threads=True
        )
        end = Operation(
            f"end.{group}", "end", group, (), epilogue, epilogue, epilogue, 4, threads=True
        )
        operations += [main, end]
        edges += [
            Dependence(main.name, end.name, 0, cycles),
            Dependence(end.name, main.name, 1, epilogue),
        ]
    base = max(role.base for role in inner.roles)
    return LoopProblem(
        f"{inner.name}.tiles",
        inner.machine,
        tuple(operations),
        tuple(edges),
        tuple(Unit(name, WHOLE) for name in shares),
        tuple(Role(f"group{group}", 4, base) for group in range(groups)),
        registers=inner.registers,
        figures=inner.figures,
        origin=f"persistent loop around {inner.name}, {trip} iterations a tile",
    )


def _share(inner: LoopProblem, made: Schedule, unit: str) -> int:
    """Thousandths of `unit` that a period of the inner schedule takes."""
    capacity = next(u.capacity for u in inner.units if u.name == unit)
    work = sum(u.cycles * u.demand for o in inner.operations for u in o.uses if u.unit == unit)
    return -(-WHOLE * work // (made.ii * capacity))
