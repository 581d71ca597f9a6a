"""Loops to pipeline, as numbers, and their schedules: when and where each operation runs.

A `LoopProblem` is the innermost loop of a level-2 program as numbers: operations with unit uses and
latencies, dependences with iteration distances, storage, roles. It knows machines only through
cycles and capacities and operators not at all. A `Schedule` is a mapping beside the program: it
repeats every `ii` cycles, iteration `i` of an operation starting at `start + i * ii`.

All times are whole cycles of one multiprocessor. Names are unique within their kind. Who made a
problem, how it is solved, printed and checked is said elsewhere: `passes/scheduling/schedule.py`,
`ir/print_schedule.py`, `passes/scheduling/check_schedule.py`.

Numbered invariants of a problem (`verify_problem`) and of a schedule's form (`verify_schedule`)
are in `ir/verify_schedule.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from tensorc.ir.node import Node, fact, node

Source = Literal["measured", "derived", "published", "assumed"]
Filling = Literal["copy", "threads", "commit"]
Proof = Literal["closed form", "refuted below", "none"]


@node
class Figure(Node):
    """A machine number that a problem was built from: its key in the machine file and its source.

    `value` is in the unit that the machine file states for the key.
    """

    key: str
    value: Fraction
    source: Source


@node
class Unit(Node):
    """A resource of one multiprocessor that operations occupy: tensor core, exp unit, copy engine.

    At most `capacity` of demand is in use in any cycle. On an `ordered` unit the order of
    operations of different roles is kept at run time by tokens; on others it is only a prediction.
    `issuers` limits how many roles may use the unit (0: no limit).
    """

    name: str
    capacity: int = 1
    ordered: bool = False
    issuers: int = 0


@node
class Use(Node):
    """An operation holds `demand` of `unit` for `cycles` cycles from `offset` after its start."""

    unit: str
    cycles: int
    offset: int = 0
    demand: int = 1


@node
class Operation(Node):
    """One tile statement of one sub-tile.

    `statement` is the level-2 name it comes from and `part` its sub-tile (None: not divided).
    `busy`: cycles for which its role issues nothing else, from its start (the whole duration of a
    synchronous operation, the issue cost of an asynchronous one). `latency`: cycles from its start
    until its result may be read. `hold`: cycles from its start until its operands may be
    overwritten. `warps`: how many warps its role needs at least. `variable`: its latency is not
    known when compiling (a copy from global memory). `threads` is True when the role's threads do
    the work themselves; slack stretches these and nothing else.
    """

    name: str
    statement: str
    part: int | None
    uses: tuple[Use, ...]
    busy: int
    latency: int
    hold: int
    warps: int = 1
    variable: bool = False
    threads: bool = False


@node
class Transfer(Node):
    """What a dependence costs when its ends are in different roles.

    `latency` cycles are added to the dependence. Each end's role is busy for `busy` more cycles
    (after the source's latency, before the target's start) and `unit` is occupied for as long
    (empty: none); these are the stores and loads of a value that leaves its registers. On its way
    it lies in `bytes` of `memory` (empty: none), one slot: the target starts before the source of
    the next iteration ends. In the target's role the value has its registers from the load on.
    """

    latency: int
    busy: int = 0
    unit: str = ""
    memory: str = ""
    bytes: int = 0


@node
class Dependence(Node):
    """`target` of iteration i + distance needs `source` of iteration i.

    start(target) + ii * distance >= start(source) + latency + (transfer.latency if the roles
    differ). `carries` names the ring or value that the target reads (empty: order only).
    Without a `transfer` both ends are in one role. The target needs what it reads for `hold` cycles
    from its start (None: its operation's); less than that where the next writer comes behind it in
    the same pipeline of the machine.
    """

    source: str
    target: str
    distance: int
    latency: int
    carries: str = ""
    transfer: Transfer | None = None
    hold: int | None = None


@node
class Ring(Node):
    """Buffers of `bytes` each in `memory`, written by `writer` and read along dependences.

    Slot i % depth is written in iteration i. A reader gives its slot back `hold` cycles after its
    start, plus the transfer's latency if its role is not the writer's; the writer may start again
    then. `fill` says how a slot becomes full: by the bytes of an asynchronous copy, by arrivals of
    the writing threads, or by the commit of a tensor-core operation. `shallowest` to `deepest` are
    the depths allowed; equal ends fix the depth.
    """

    name: str
    memory: str
    bytes: int
    writer: str
    fill: Filling
    shallowest: int = 1
    deepest: int = 8
    align: int = 1024


@node
class Value(Node):
    """A register tile of `registers` 32-bit registers per thread, defined by `writer`.

    It lives from the start of `writer` until each reader (a dependence that carries it) in the same
    role has started and `hold` cycles passed, and for a reader in another role until it is stored
    there; that reader has a copy of its own from the load until `hold` cycles after its start. One
    copy only: a lifetime is at most `ii`. A `resident` value is updated in place and
    occupies its registers for the whole loop; all operations that touch it are in one role.
    """

    name: str
    writer: str
    registers: int
    resident: bool = False


@node
class Role(Node):
    """A warp (warps = 1), a warp group (4) or several that work as one (8, 12, ...), to which
    operations may be given.

    `base` registers per thread are taken by addresses and counters. A role that is `variable`
    takes the operations of variable latency and no other; if a problem has such a role, they run
    nowhere else. Roles that differ in name alone are interchangeable. Single warps share warp
    groups, four to one, whose registers are the largest of theirs.
    """

    name: str
    warps: int
    base: int
    variable: bool = False


@node
class Memory(Node):
    """A memory of one thread block: `bytes` available to rings beside what is `taken` already."""

    name: str
    bytes: int
    taken: int = 0


@node
class Registers(Node):
    """The register file: `total` 32-bit registers of a multiprocessor for the one block on it.

    A thread has between `floor` and `ceiling` of them, in steps of `step`. If `dynamic`, roles
    move registers among themselves after the launch (setmaxnreg), which needs whole warp groups;
    else every thread has the same number.
    """

    total: int = 65536
    floor: int = 24
    ceiling: int = 255
    step: int = 8
    dynamic: bool = True


@node
class LoopProblem(Node):
    """One loop and the machine it is to run on, as numbers; see the classes above.

    `trip` is the iteration count if known. `barriers` is how many named barriers a block has.
    `figures` are the machine numbers used. `origin` says where the problem comes from.
    """

    name: str
    machine: str
    operations: tuple[Operation, ...]
    dependences: tuple[Dependence, ...]
    units: tuple[Unit, ...]
    roles: tuple[Role, ...]
    rings: tuple[Ring, ...] = ()
    values: tuple[Value, ...] = ()
    memories: tuple[Memory, ...] = ()
    registers: Registers = Registers()
    barriers: int = 16
    trip: int | None = None
    figures: tuple[Figure, ...] = ()
    origin: str = ""


@node
class Placement(Node):
    """An operation in its role: iteration i starts at (stage + i) * ii + cycle.

    In the steady state, period p runs iteration p - stage; `cycle` is in [0, ii).
    """

    operation: str
    role: str
    stage: int
    cycle: int


@node
class RingPlan(Node):
    """A ring's `depth` slots from byte `offset` of its memory, and its two kinds of barrier.

    A slot is full after `full_arrivals` arrivals and `full_bytes` bytes (0 unless copied) and
    empty after `empty_arrivals`: one arrival for each role that reads it.
    """

    ring: str
    depth: int
    offset: int
    full_arrivals: int
    full_bytes: int
    empty_arrivals: int


@node
class UnitOrder(Node):
    """The operations of a unit of capacity 1 in the order in which they occupy it in a period.

    `barriers` has one named barrier for each role that takes turns on it, in the order of first
    turn, as (role, barrier id); it is empty where no token is needed (one role, or a unit that is
    not ordered).
    """

    unit: str
    operations: tuple[str, ...]
    barriers: tuple[tuple[str, int], ...] = ()


@node
class RolePlan(Node):
    """A role in use: its warps and registers per thread."""

    role: str
    warps: int
    registers: int


@node
class Sensitivity(Node):
    """The optimum when one assumed number is multiplied by `factor`; `ii` None: infeasible."""

    key: str
    factor: Fraction
    ii: int | None
    roles: tuple[str, ...]


@node
class Certificate(Node):
    """Why `ii` is what it is.

    No schedule of at most `stages` stages, the first of them for operations of variable latency
    alone, has an initiation interval below `bound`. `limit` names
    the resource or recurrence that gives the largest closed-form bound. `proof`: "closed form"
    when `ii` equals that, "refuted below" when a solver refuted ii - 1, "none" when neither, and
    then the gap is (ii - bound) / bound. `slack`: the fraction by which every operation done by
    threads and every transfer may be stretched, in all iterations, without a longer period.
    """

    bound: int
    limit: str
    proof: Proof
    stages: int
    slack: Fraction = Fraction(0)
    figures: tuple[Figure, ...] = ()
    sensitivity: tuple[Sensitivity, ...] = ()
    note: str = ""


@node
class Schedule(Node):
    """When, where and in which order a loop's operations run.

    The placements of one role stand in the role's program order: by cycle, and among equal cycles
    so that an operation follows what it depends on in the same period.
    """

    problem: str
    machine: str
    ii: int
    roles: tuple[RolePlan, ...]
    placements: tuple[Placement, ...]
    orders: tuple[UnitOrder, ...]
    rings: tuple[RingPlan, ...]
    certificate: Certificate


@dataclass(frozen=True)
class Run:
    """A simulated run: starts of each operation by iteration, the cycles until all is done, and the
    mean period of the second half of the iterations."""

    starts: dict[str, tuple[float, ...]]
    cycles: float
    period: float


@fact
def placement_of(schedule: Schedule) -> dict[str, Placement]:
    """Every placement by its operation's name."""
    return {place.operation: place for place in schedule.placements}


def start(schedule: Schedule, operation: str) -> int:
    """The cycle in which iteration 0 of `operation` starts."""
    place = placement_of(schedule)[operation]
    return place.stage * schedule.ii + place.cycle


def stages(schedule: Schedule) -> int:
    """How many iterations are in flight: the largest stage plus one."""
    return 1 + max(place.stage for place in schedule.placements)


def span(problem: LoopProblem, schedule: Schedule) -> int:
    """Cycles from the first start of an iteration to the end of its last operation."""
    begins = [start(schedule, item.name) for item in problem.operations]
    ends = [
        start(schedule, item.name) + max(item.latency, item.busy) for item in problem.operations
    ]
    return max(ends) - min(begins)


def program(schedule: Schedule, role: str) -> tuple[Placement, ...]:
    """What `role` issues in one period of the steady state, in order."""
    return tuple(place for place in schedule.placements if place.role == role)


def occupies(problem: LoopProblem, operation: str, unit: str) -> int | None:
    """Cycles from the start of `operation` until it first occupies `unit`; None: it does not."""
    uses = operation_of(problem)[operation].uses
    return min((use.offset for use in uses if use.unit == unit and use.cycles), default=None)


@fact
def operation_of(problem: LoopProblem) -> dict[str, Operation]:
    """Every operation by name."""
    return {item.name: item for item in problem.operations}


def held(problem: LoopProblem, edge: Dependence) -> int:
    """Cycles from the target's start until it no longer needs what the dependence carries."""
    return operation_of(problem)[edge.target].hold if edge.hold is None else edge.hold


@fact
def readers_of(problem: LoopProblem) -> dict[str, tuple[Dependence, ...]]:
    """The dependences that carry each ring and value, by its name."""
    names = [item.name for item in (*problem.rings, *problem.values)]
    return {n: tuple(d for d in problem.dependences if d.carries == n) for n in names}
