"""Schedules with one thing wrong, for the checker: what was planted and what it has to say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tensorc.ir.schedule import LoopProblem, Placement, RingPlan, Schedule, placement_of

Plant = Callable[[LoopProblem, Schedule], Schedule]


@dataclass(frozen=True)
class Planted:
    """A fault: its name, the rule that must be named, the operations that must be, the change."""

    name: str
    rule: str
    operations: tuple[str, ...]
    plant: Plant


def _moved(schedule: Schedule, name: str, **change: int | str) -> Schedule:
    """`schedule` with one placement changed, each role's program in order of its cycles."""
    places = [
        replace(place, **change) if place.operation == name else place
        for place in schedule.placements
    ]
    roles = [plan.role for plan in schedule.roles]
    places.sort(key=lambda place: (roles.index(place.role), place.cycle))
    return replace(schedule, placements=tuple(places))


def _shifted(schedule: Schedule, name: str, cycles: int) -> Schedule:
    """One operation `cycles` later (or earlier), whatever that breaks; units' orders follow."""
    place = placement_of(schedule)[name]
    at = place.stage * schedule.ii + place.cycle + cycles
    made = _moved(schedule, name, stage=at // schedule.ii, cycle=at % schedule.ii)
    return _turns(made)


def _turns(schedule: Schedule) -> Schedule:
    cycle = {place.operation: place.cycle for place in schedule.placements}
    orders = tuple(
        replace(order, operations=tuple(sorted(order.operations, key=cycle.__getitem__)))
        for order in schedule.orders
    )
    return replace(schedule, orders=orders)


def _ring(schedule: Schedule, name: str, **change: int) -> Schedule:
    plans: list[RingPlan] = [
        replace(plan, **change) if plan.ring == name else plan for plan in schedule.rings
    ]
    return replace(schedule, rings=tuple(plans))


def _role(schedule: Schedule, name: str, registers: int) -> Schedule:
    plans = [
        replace(plan, registers=registers) if plan.role == name else plan for plan in schedule.roles
    ]
    return replace(schedule, roles=tuple(plans))


def _barriers(schedule: Schedule, *barriers: tuple[str, int]) -> Schedule:
    orders = [
        replace(order, barriers=barriers) if order.unit == "mma" else order
        for order in schedule.orders
    ]
    return replace(schedule, orders=tuple(orders))


def _swapped(schedule: Schedule, one: str, two: str) -> Schedule:
    """Two operations exchanged in a role's program, their cycles as they were."""
    places = list(schedule.placements)
    i, j = (
        next(k for k, place in enumerate(places) if place.operation == name) for name in (one, two)
    )
    places[i], places[j] = places[j], places[i]
    return replace(schedule, placements=tuple(places))


def _reordered(schedule: Schedule) -> Schedule:
    orders = [
        replace(order, operations=order.operations[::-1]) if order.unit == "exp" else order
        for order in schedule.orders
    ]
    return replace(schedule, orders=tuple(orders))


def _doubled(schedule: Schedule) -> Schedule:
    extra = Placement("K", "load", 0, 0)
    return replace(schedule, placements=(extra, *schedule.placements))


def _bound(schedule: Schedule) -> Schedule:
    return replace(schedule, certificate=replace(schedule.certificate, bound=schedule.ii + 1))


PLANTED: tuple[Planted, ...] = (
    Planted("a maximum before its scores", "dependence", ("t.0", "r.0"),
            lambda p, s: _shifted(s, "r.0", -300)),
    Planted("sums scaled before they are there", "dependence", ("a.0", "x.0"),
            lambda p, s: _shifted(s, "x.0", -s.ii)),
    Planted("a copy that lands late", "dependence", ("K", "t.0"),
            lambda p, s: _shifted(s, "K", 600)),
    Planted("sums in two roles", "dependence", ("x.0", "a.0"),
            lambda p, s: _turns(_moved(s, "a.0", role="consumer1"))),
    Planted("two at once in a role", "role", ("y.0", "r.0"),
            lambda p, s: _shifted(s, "r.0", 200)),
    Planted("a copy among the consumers", "role", ("K",),
            lambda p, s: _moved(s, "K", role="consumer0")),
    Planted("a warp group's work in one warp", "role", ("r.0",),
            lambda p, s: _moved(s, "r.0", role="load")),
    Planted("a program against its cycles", "role", ("P.0", "l.0"),
            lambda p, s: _swapped(s, "l.0", "P.0")),
    Planted("two products at once", "unit", ("t.0", "a.0"),
            lambda p, s: _shifted(s, "a.0", -100)),
    Planted("a unit's order against its cycles", "unit", ("y.1", "y.0"),
            lambda p, s: _reordered(s)),
    Planted("a ring too shallow", "ring", ("K", "t.1"), lambda p, s: _ring(s, "K", depth=1)),
    Planted("a ring without slots", "ring", ("K", "t.0"), lambda p, s: _ring(s, "K", depth=0)),
    Planted("more slots than memory", "memory", ("K", "V"), lambda p, s: _ring(s, "V", depth=4)),
    Planted("rings over one another", "memory", ("K", "V"),
            lambda p, s: _ring(s, "V", offset=s.rings[0].offset + 32768)),
    Planted("a slot off its alignment", "memory", ("K", "t.0"),
            lambda p, s: _ring(s, "K", offset=s.rings[0].offset + 16)),
    Planted("a ring over what is taken", "memory", ("K", "t.0"),
            lambda p, s: _ring(s, "K", offset=0)),
    Planted("a role short of registers", "registers", ("t.0", "y.0"),
            lambda p, s: _role(s, "consumer0", 152)),
    Planted("more registers than the block has", "registers", ("t.0", "t.1"),
            lambda p, s: _role(_role(s, "consumer0", 248), "consumer1", 248)),
    Planted("registers that are no multiple", "registers", ("t.1", "x.1"),
            lambda p, s: _role(s, "consumer1", 236)),
    Planted("a value that outlives its copy", "value", ("t.0", "y.0"),
            lambda p, s: _shifted(s, "t.0", -s.ii)),
    Planted("no tokens", "barrier", ("t.0", "a.0"), lambda p, s: _barriers(s)),
    Planted("one barrier for two roles", "barrier", ("t.0", "a.0"),
            lambda p, s: _barriers(s, ("consumer0", 1), ("consumer1", 1))),
    Planted("a barrier that is not there", "barrier", ("t.0", "a.0"),
            lambda p, s: _barriers(s, ("consumer0", 1), ("consumer1", 16))),
    Planted("half of the bytes", "bytes", ("V", "a.0"),
            lambda p, s: _ring(s, "V", full_bytes=16384)),
    Planted("an arrival too few", "arrivals", ("K", "t.0"),
            lambda p, s: _ring(s, "K", empty_arrivals=1)),
    Planted("an arrival too many", "arrivals", ("K", "t.0"),
            lambda p, s: _ring(s, "K", full_arrivals=2)),
    Planted("an operation placed twice", "form", (), lambda p, s: _doubled(s)),
    Planted("a bound above the interval", "certificate", (), lambda p, s: _bound(s)),
)  # fmt: skip
"""For the schedule of `attention_hopper` on the H100, polished for slack."""
