"""Two loops of a Hopper kernel as problems, with the roles and delays that pipeline them.

Cycles are round numbers of the right size; the scheduler's own problems come from machine files.
"""

from __future__ import annotations

from tensorc.ir.channel import Kernel
from tensorc.ir.schedule import (
    Dependence,
    LoopProblem,
    Memory,
    Operation,
    Ring,
    Role,
    Schedule,
    Transfer,
    Unit,
    Use,
    Value,
)
from tensorc.passes.pipelining.channels import Finish, Frame, TileRing, channels
from tests.channel.loops import schedule_of

UNITS = (Unit("copy"), Unit("mma", ordered=True), Unit("exp"), Unit("alu"))
ROLES = (Role("load", 4, 24, variable=True), Role("consumer0", 4, 24), Role("consumer1", 4, 24))
MEMORY = (Memory("shared", 232448),)


def copied(name: str) -> Operation:
    return Operation(name, name, None, (Use("copy", 512),), 40, 900, 900, variable=True)


def multiplied(name: str) -> Operation:
    return Operation(name, name, None, (Use("mma", 512),), 40, 572, 572, warps=4)


def computed(name: str, unit: str, cycles: int, hold: int | None = None) -> Operation:
    held = cycles if hold is None else hold
    return Operation(
        name, name, None, (Use(unit, cycles),), cycles, cycles, held, warps=4, threads=True
    )


def edge(source: Operation, target: Operation, carries: str, distance: int = 0) -> Dependence:
    copy = source.variable
    transfer = Transfer(90) if copy else None
    return Dependence(source.name, target.name, distance, source.latency, carries, transfer)


def gemm_problem() -> LoopProblem:
    a, b = copied("A"), copied("B")
    products = [multiplied(f"c.{p}") for p in range(2)]
    edges = [edge(load, item, load.name) for item in products for load in (a, b)]
    edges += [Dependence(c.name, c.name, 1, 512, c.name) for c in products]
    rings = (Ring("A", "shared", 16384, "A", "copy"), Ring("B", "shared", 32768, "B", "copy"))
    values = tuple(Value(c.name, c.name, 128, resident=True) for c in products)
    return LoopProblem(
        "gemm", "h100", (a, b, *products), tuple(edges), UNITS, ROLES, rings, values, MEMORY
    )


def gemm_schedule() -> tuple[LoopProblem, Schedule]:
    """Each consumer's product follows the other's; both operands have three slots."""
    problem = gemm_problem()
    roles = {"A": "load", "B": "load", "c.0": "consumer0", "c.1": "consumer1"}
    return problem, schedule_of(problem, roles, 1024, {"B": 40, "c.0": 1100, "c.1": 1612})


def attention_problem() -> LoopProblem:
    k, v = copied("K"), copied("V")
    operations, edges, values = [k, v], list[Dependence](), list[Value]()
    for p in range(2):
        t, a = multiplied(f"t.{p}"), multiplied(f"a.{p}")
        r, x = computed(f"r.{p}", "alu", 128), computed(f"x.{p}", "alu", 64)
        y, low = computed(f"y.{p}", "exp", 512, 0), computed(f"P.{p}", "alu", 64, 0)
        l_ = computed(f"l.{p}", "alu", 64)
        operations += [t, r, y, l_, low, x, a]
        edges += [
            edge(k, t, "K"), edge(t, r, t.name), edge(t, y, t.name), edge(r, r, f"m.{p}", 1),
            edge(r, y, r.name), edge(r, x, r.name), edge(y, l_, y.name),
            edge(r, l_, r.name), edge(l_, l_, l_.name, 1), edge(y, low, y.name), edge(v, a, "V"),
            edge(low, a, low.name), edge(x, a, a.name), edge(a, x, a.name, 1),
        ]  # fmt: skip
        values += [Value(item.name, item.name, 32) for item in (t, y, r, low)]
        values += [Value(n, w, 4, resident=True) for n, w in _kept(p)]
    rings = tuple(Ring(n, "shared", 32768, n, "copy") for n in ("K", "V"))
    return LoopProblem(
        "attention", "h100", tuple(operations), tuple(edges), UNITS, ROLES, rings,
        tuple(values), MEMORY,
    )  # fmt: skip


def _kept(p: int) -> tuple[tuple[str, str], ...]:
    return (f"m.{p}", f"r.{p}"), (f"l.{p}", f"l.{p}"), (f"a.{p}", f"a.{p}")


def attention_schedule() -> tuple[LoopProblem, Schedule]:
    """Scores of one iteration, then values of the one before; consumer 1 half a period later."""
    problem = attention_problem()
    roles = {o.name: f"consumer{o.name[-1]}" for o in problem.operations if not o.variable}
    delays = {"K": 0, "V": 2000}
    for p, at in enumerate((1024, 2048)):
        delays |= {f"t.{p}": at, f"x.{p}": at + 2348, f"a.{p}": at + 2560}
    return problem, schedule_of(problem, {"K": "load", "V": "load", **roles}, 2048, delays)


ATTENTION = Frame(
    persistent=True,
    tiles=(TileRing("Q", "load_q", "shared", 32768, "K", ("t.0", "t.1")),),
    finishes=tuple(Finish(f"store.{p}", f"a.{p}", (f"a.{p}", f"l.{p}", "Q")) for p in range(2)),
)
GEMM = Frame(
    persistent=True,
    finishes=tuple(Finish(f"store.{p}", f"c.{p}", (f"c.{p}",)) for p in range(2)),
)


def attention() -> Kernel:
    return channels(*attention_schedule(), ATTENTION)


def gemm() -> Kernel:
    return channels(*gemm_schedule(), GEMM)
