"""Why a loop has no schedule at any interval: which resource, how much it needs, what would fit.

One kind of limit at a time is lifted at an interval at which operations simply follow one another.
If that helps, the least that the loop can do with of it is found; if no single one does, all are
named. Then small changes to the problem are tried for one that makes it fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tensorc.errors import Infeasible
from tensorc.ir.capacity import groups, pool, room, sharing
from tensorc.ir.schedule import LoopProblem, Memory, Registers, Role
from tensorc.passes.scheduling.cp_sat import Linear, total
from tensorc.passes.scheduling.schedule_bounds import sequential
from tensorc.passes.scheduling.schedule_model import Model, build, padded
from tensorc.passes.scheduling.schedule_search import Meter

HUGE = 1 << 24
WORK = 4.0
"""Deterministic time of each question asked here."""


def infeasible(problem: LoopProblem, meter: Meter) -> Infeasible:
    """The error to raise for a `problem` that has no schedule."""
    meter = Meter(replace(meter.effort, total=meter.spent + 20 * WORK), meter.spent)
    if _fits(problem, meter, settle=True):
        sentence = "a schedule exists but none was found within the effort\n  do: allow more of it"
        return _error(problem, [Need("effort", 0, 0, sentence)])
    for reason in (_registers, _memory):
        if found := reason(problem, meter):
            change = next(_changes(problem, meter))
            return _error(problem, [replace(found, sentence=f"{found.sentence}\n  do: {change}")])
    registers = _registers(_all_memory(problem), meter)
    memory = _memory(replace(problem, registers=_lifted(problem)), meter)
    if registers and memory:
        both = replace(memory, sentence=f"{memory.sentence}\n  do: smaller tiles or more roles")
        return _error(problem, [registers, both])
    return _error(problem, [Need("roles", 0, 0, _structure(problem))])


@dataclass(frozen=True)
class Need:
    """A resource, how much the loop needs at least, how much there is, and that in words."""

    resource: str
    need: int
    limit: int
    sentence: str


def _error(problem: LoopProblem, needs: list[Need]) -> Infeasible:
    told = "; ".join(need.sentence for need in needs)
    message = f"TC-E403: {problem.name} has no schedule on {problem.machine}: {told}"
    names = " and ".join(need.resource for need in needs)
    return Infeasible(message, resource=names, need=needs[0].need, limit=needs[0].limit)


def _lifted(problem: LoopProblem) -> Registers:
    return replace(problem.registers, total=HUGE, ceiling=4096, dynamic=True)


def _all_memory(problem: LoopProblem) -> LoopProblem:
    memories = tuple(replace(memory, bytes=HUGE) for memory in problem.memories)
    return replace(problem, memories=memories)


def limiting(problem: LoopProblem, ii: int, meter: Meter) -> tuple[Need, ...]:
    """What keeps `problem` from the interval `ii`: each resource that, if it alone were lifted,
    would give it a schedule, or else those that do together. Empty if it has a schedule, and if
    waits and units leave it none."""
    meter = Meter(replace(meter.effort, total=meter.spent + 40 * WORK), meter.spent)
    if _fits(problem, meter, ii):
        return ()
    alone = (_registers(problem, meter, ii), _memory(problem, meter, ii))
    if any(alone):
        return tuple(need for need in alone if need)
    registers = _registers(_all_memory(problem), meter, ii)
    memory = _memory(replace(problem, registers=_lifted(problem)), meter, ii)
    return (registers, memory) if registers and memory else ()


def _fits(problem: LoopProblem, meter: Meter, ii: int | None = None, settle: bool = False) -> bool:
    """Whether a schedule is found at `ii` (None: the sequential interval); `settle`: or could not
    be refuted."""
    model = build(problem, ii or sequential(problem), meter.stages(problem))
    answer = meter.ask(model, WORK)
    return answer.solution is not None or (settle and not answer.exact)


def _least(
    problem: LoopProblem, meter: Meter, measure: Callable[[Model], Linear], ii: int | None
) -> int | None:
    """The smallest value of `measure` that was found over the schedules of one interval."""
    model = build(problem, ii or sequential(problem), meter.stages(problem))
    value = measure(model)
    model.cp.minimize(value)
    answer = meter.ask(model, 2 * WORK)
    return answer.solution.value(value) if answer.solution else None


def _registers(problem: LoopProblem, meter: Meter, ii: int | None = None) -> Need | None:
    """Registers of a thread, or of the block, if lifting them makes the loop fit."""
    limits = problem.registers
    lifted = replace(problem, registers=_lifted(problem))
    need = _least(lifted, meter, _widest, ii)
    if need is None:
        return None
    wide = [role for role in problem.roles if role.warps >= 4]
    single = len(problem.roles) - len(wide)
    need *= limits.step
    if need > limits.ceiling:
        names = " ".join(role.name for role in wide)
        most = limits.ceiling // limits.step * limits.step
        sentence = f"registers: a thread of {names} needs {need}, limit {most}"
        return Need("registers", need, most, sentence)
    lifted = replace(problem, registers=replace(limits, total=HUGE, dynamic=True))
    steps = _least(lifted, meter, _all_registers, ii) or 0
    helpers = -(-single // 4)
    count = sum(groups(role.warps) for role in wide) + helpers
    total_need = 128 * (steps * limits.step + helpers * limits.floor)
    have = max(pool(limits, n) for n in range(1, count + 1))
    sentence = f"registers: the block needs {total_need}, limit {have} in {count} warp groups"
    return Need("registers", total_need, have, sentence)


def _widest(model: Model) -> Linear:
    widest = model.cp.new_int_var(0, 4096, "widest role")
    for steps in model.registers.values():
        model.cp.add(steps <= widest)
    return widest


def _all_registers(model: Model) -> Linear:
    wide = [role for role in model.problem.roles if role.warps >= 4]
    return total(groups(role.warps) * model.registers[role.name] for role in wide)


def _memory(problem: LoopProblem, meter: Meter, ii: int | None = None) -> Need | None:
    """The memory that, if lifted, makes the loop fit."""
    for memory in problem.memories:
        lifted = _with_memory(problem, replace(memory, bytes=HUGE))
        need = _least(lifted, meter, lambda model, name=memory.name: _bytes(model, name), ii)
        if need is not None:
            limit = room(problem, memory)
            rings = [ring for ring in problem.rings if ring.memory == memory.name]
            slots = ", ".join(f"{ring.name} {padded(ring)} bytes a slot" for ring in rings)
            sentence = f"{memory.name} memory: the rings need {need} bytes, limit {limit} ({slots})"
            return Need(f"{memory.name} memory", need, limit, sentence)
    return None


def _with_memory(problem: LoopProblem, memory: Memory) -> LoopProblem:
    memories = tuple(memory if m.name == memory.name else m for m in problem.memories)
    return replace(problem, memories=memories)


def _bytes(model: Model, name: str) -> Linear:
    rings = [ring for ring in model.problem.rings if ring.memory == name]
    return total(padded(ring) * model.depth[ring.name] for ring in rings)


def _changes(problem: LoopProblem, meter: Meter) -> Iterator[str]:
    """Changes that make the loop fit, smallest first: a role more, all roles of a kind twice."""
    for members in sharing(problem):
        if members[0].warps >= 4:
            for count in (1, len(members)):
                more = tuple(_named(members[0], i) for i in range(count))
                if _fits(replace(problem, roles=(*problem.roles, *more)), meter):
                    groups = f"warp group{'s' * (count > 1)} like {members[0].name}"
                    yield f"offer {count} more {groups}; then it fits"
    for ring in problem.rings:
        if ring.shallowest > 1:
            rings = tuple(
                replace(r, shallowest=1) if r.name == ring.name else r for r in problem.rings
            )
            if _fits(replace(problem, rings=rings), meter):
                yield f"allow ring {ring.name} a depth of 1 instead of {ring.shallowest}"
    yield "smaller tiles, or fewer values alive at once"


def _named(role: Role, number: int) -> Role:
    return replace(role, name=f"{role.name}+{number + 1}")


def _structure(problem: LoopProblem) -> str:
    """What is left when neither registers nor memory alone are to blame."""
    names = " ".join(role.name for role in problem.roles)
    return (
        f"no assignment to the roles {names} keeps together what may not change roles and keeps "
        "registers, memory and issuers within their limits at once\n"
        "  do: smaller tiles or more roles"
    )
