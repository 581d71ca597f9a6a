"""The constraint model of one loop at one initiation interval, for CP-SAT.

For every operation v: a phase in [0, ii) and a stage in [0, stages), with start = phase + ii *
stage, and one role. At a fixed ii every rule is linear or a (cumulative) no-overlap:

- dependence: start(v) + ii * distance >= start(u) + latency + transfer if the roles differ;
- unit, role: the intervals of a period, twice (shifted by ii), do not overlap;
- ring: start(reader) + ii * distance + hold + transfer - start(writer) <= ii * depth;
- registers: lifetimes, twice, stacked by width, stay within what the role is given.

A rotation of all phases and the renaming of like roles change nothing, so one operation stands at
phase 0 and roles are numbered by first use. The modulo reservation by two copies is exact because
every interval is at most ii long. What is minimised is said by the callers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

from tensorc.ir.capacity import room, sharing
from tensorc.ir.schedule import Dependence, LoopProblem, Operation, Ring, Role, held, readers_of
from tensorc.passes.scheduling.cp_sat import Cp, Interval, Linear, Literal, new_model, total
from tensorc.passes.scheduling.schedule_symmetry import Cuts, symmetries


@dataclass
class Model:
    """A CP-SAT model and the variables that its answer is read from."""

    problem: LoopProblem
    ii: int
    stages: int
    cp: Cp
    phase: dict[str, Linear] = field(default_factory=dict[str, Linear])
    stage: dict[str, Linear] = field(default_factory=dict[str, Linear])
    within: dict[tuple[str, str], Literal] = field(default_factory=dict[tuple[str, str], Literal])
    crossing: dict[Dependence, Literal] = field(default_factory=dict[Dependence, Literal])
    depth: dict[str, Linear] = field(default_factory=dict[str, Linear])
    used: dict[str, Literal] = field(default_factory=dict[str, Literal])
    registers: dict[str, Linear] = field(default_factory=dict[str, Linear])
    busy: dict[str, list[Interval]] = field(default_factory=dict[str, list[Interval]])
    units: dict[str, list[tuple[Interval, int]]] = field(
        default_factory=dict[str, list[tuple[Interval, int]]]
    )
    before: dict[tuple[str, str], Literal] = field(default_factory=dict[tuple[str, str], Literal])
    heads: dict[str, str] = field(default_factory=dict[str, str])
    together: dict[tuple[str, str], Literal | None] = field(
        default_factory=dict[tuple[str, str], Literal | None]
    )
    moving: dict[str, None] = field(default_factory=dict[str, None])
    launches: list[Literal] = field(default_factory=list[Literal])

    def start(self, name: str) -> Linear:
        """The start of iteration 0 as a linear expression."""
        return self.phase[name] + self.ii * self.stage[name]


def build(
    problem: LoopProblem, ii: int, stages: int, alike: LoopProblem | None = None
) -> Model:  # fmt: skip
    """The model of all schedules of `problem` with period `ii` and at most `stages` stages.

    The first stage is for operations of variable latency alone, if there are any. `alike`: a
    problem whose exchanges of operations leave this one as it is too, if that is known.
    """
    from tensorc.passes.scheduling.schedule_registers import allot

    model = Model(problem, ii, stages, new_model())
    ahead = any(item.variable for item in problem.operations)
    for item in problem.operations:
        model.phase[item.name] = model.cp.new_int_var(0, ii - 1, f"phase {item.name}")
        first = int(ahead and not item.variable)
        model.stage[item.name] = model.cp.new_int_var(first, stages - 1, f"stage {item.name}")
    _assign_roles(model)
    _order_roles(model)
    for edge in problem.dependences:
        _depend(model, edge)
    for item in problem.operations:
        _occupy(model, item)
    for edge in problem.dependences:
        if edge.transfer and edge.transfer.busy:
            _move(model, edge)
    _exclude(model)
    _fill_rings(model)
    allot(model)
    _cut(model, symmetries(alike or problem))
    return model


def clusters(problem: LoopProblem) -> dict[str, str]:
    """For each operation the first one that must be in the same role: no transfer between them."""
    head = {item.name: item.name for item in problem.operations}

    def find(name: str) -> str:
        while head[name] != name:
            name = head[name]
        return name

    rank = {item.name: i for i, item in enumerate(problem.operations)}
    for edge in problem.dependences:
        if edge.transfer is None:
            one, two = sorted((find(edge.source), find(edge.target)), key=rank.__getitem__)
            head[two] = one
    return {name: find(name) for name in head}


def legal_roles(problem: LoopProblem, members: list[Operation]) -> list[Role]:
    """The roles in which all of `members` may be."""
    isolated = any(role.variable for role in problem.roles)
    return [
        role
        for role in problem.roles
        if all(role.warps >= item.warps for item in members)
        and (not isolated or all(role.variable == item.variable for item in members))
    ]


def _assign_roles(model: Model) -> None:
    """One role for each cluster; whether a dependence crosses; at most `issuers` per unit."""
    cp, problem = model.cp, model.problem
    groups: dict[str, list[Operation]] = {}
    model.heads = clusters(problem)
    for item in problem.operations:
        groups.setdefault(model.heads[item.name], []).append(item)
    for name, members in groups.items():
        choices = {
            r.name: cp.new_bool_var(f"{name} in {r.name}") for r in legal_roles(problem, members)
        }
        cp.add_exactly_one(*choices.values())
        for item in members:
            model.within.update({(item.name, role): var for role, var in choices.items()})
    for edge in problem.dependences:
        model.crossing[edge] = _crosses(model, edge)
    for role in problem.roles:
        members = [var for (_, name), var in model.within.items() if name == role.name]
        model.used[role.name] = any_of(model, members, f"{role.name} used")
    for unit in problem.units:
        if unit.issuers:
            cp.add(total(issuers(model, unit.name)) <= unit.issuers)


def any_of(model: Model, literals: list[Literal], name: str) -> Literal:
    """A literal that is true exactly if one of `literals` is."""
    made = model.cp.new_bool_var(name)
    model.cp.add_bool_or(*literals, ~made)
    for literal in {id(literal): literal for literal in literals}.values():
        model.cp.add_implication(literal, made)
    return made


def issuers(model: Model, unit: str) -> list[Literal]:
    """For each role, whether an operation that uses `unit` is in it."""
    users = {
        item.name for item in model.problem.operations if any(use.unit == unit for use in item.uses)
    }
    chosen: dict[str, list[Literal]] = {}
    for (name, role), var in model.within.items():
        if name in users:
            chosen.setdefault(role, []).append(var)
    return [any_of(model, literals, f"{role} issues {unit}") for role, literals in chosen.items()]


def _crosses(model: Model, edge: Dependence) -> Literal:
    cp = model.cp
    crosses = cp.new_bool_var(f"{edge.source} {edge.target} {edge.distance} crosses")
    for role in model.problem.roles:
        here = model.within.get((edge.source, role.name))
        there = model.within.get((edge.target, role.name))
        if here is None or there is None:
            for one in (here, there):
                if one is not None:
                    cp.add_implication(one, crosses)
        elif here is there:
            cp.add(crosses <= 0)
        else:
            cp.add_bool_or(~here, there, crosses)
            cp.add_bool_or(here, ~there, crosses)
            cp.add_bool_or(~here, ~there, ~crosses)
    return crosses


def _order_roles(model: Model) -> None:
    """Roles of a class of interchangeable ones are taken in order, by their first operation."""
    heads = list(dict.fromkeys(model.heads.values()))
    for members in sharing(model.problem):
        for one, two in zip(members, members[1:], strict=False):
            seen: list[Literal] = []
            for name in heads:
                later = model.within.get((name, two.name))
                if later is not None:
                    model.cp.add_bool_or(*seen, ~later)
                    seen.append(model.within[name, one.name])


def _depend(model: Model, edge: Dependence) -> None:
    delay: Linear | int = edge.latency
    if edge.transfer:
        delay = edge.transfer.latency * model.crossing[edge] + edge.latency
    begin, end = model.start(edge.source), model.start(edge.target)
    model.cp.add(end + model.ii * edge.distance >= begin + delay)


def _occupy(model: Model, item: Operation) -> None:
    """The operation's time in its role and on its units."""
    for use in item.uses:
        for interval in turns(model, item.name, use.offset, use.cycles, None):
            model.units.setdefault(use.unit, []).append((interval, use.demand))
    for role in model.problem.roles:
        if (item.name, role.name) in model.within:
            literal = model.within[item.name, role.name]
            found = turns(model, item.name, 0, item.busy, literal)
            model.busy.setdefault(role.name, []).extend(found)


def turns(
    model: Model, name: str, offset: int, cycles: int, literal: Literal | None
) -> list[Interval]:
    """Intervals of `cycles` from `offset` after the start of `name`, in every period that matters.

    Two copies where the interval starts in [0, ii), three where the offset may carry it beyond.
    """
    if not cycles:
        return []
    begin = model.phase[name] + offset % model.ii
    label = f"{name} {offset}"
    copies = (0, 1) if offset % model.ii == 0 else (-1, 0, 1)
    shifted = [begin + copy * model.ii for copy in copies]
    if literal is None:
        return [model.cp.new_fixed_size_interval_var(s, cycles, label) for s in shifted]
    made = model.cp.new_optional_fixed_size_interval_var
    return [made(s, cycles, literal, label) for s in shifted]


def both(model: Model, one: Literal, two: Literal) -> Literal:
    """A literal that is true if both are."""
    made = model.cp.new_bool_var("")
    model.cp.add_bool_or(~one, ~two, made)
    return made


def _move(model: Model, edge: Dependence) -> None:
    """The store and the load of a value that changes roles, and the slot it lies in meanwhile."""
    assert edge.transfer
    busy, crosses = edge.transfer.busy, model.crossing[edge]
    for name, offset in ((edge.source, edge.latency), (edge.target, -busy)):
        for role in model.problem.roles:
            if (name, role.name) in model.within:
                literal = both(model, crosses, model.within[name, role.name])
                model.busy.setdefault(role.name, []).extend(
                    turns(model, name, offset, busy, literal)
                )
                model.moving[role.name] = None
        if edge.transfer.unit:
            found = turns(model, name, offset, busy, crosses)
            model.units.setdefault(edge.transfer.unit, []).extend((each, 1) for each in found)
    late = model.start(edge.target) + model.ii * edge.distance
    stored = model.start(edge.source) + edge.latency
    model.cp.add(late <= stored + model.ii).only_enforce_if(crosses)


def _exclude(model: Model) -> None:
    """No two operations at once in a role; no more on a unit than it has."""
    cp, problem = model.cp, model.problem
    for one, two in combinations([item for item in problem.operations if item.busy], 2):
        beside = _beside(model, one.name, two.name)
        if beside is not None:
            _separate(model, (one.name, one.busy), (two.name, two.busy), *beside)
    for role in model.moving:
        cp.add_no_overlap(model.busy[role])
    for unit in problem.units:
        users = _plain_users(problem, unit.name)
        uses = model.units.get(unit.name, [])
        if unit.capacity > 1:
            demands = [demand for _, demand in uses]
            cp.add_cumulative([interval for interval, _ in uses], demands, unit.capacity)
        elif users is None:
            cp.add_no_overlap([interval for interval, _ in uses])
        else:
            for one, two in combinations(users, 2):
                _separate(model, one, two)


def _beside(model: Model, one: str, two: str) -> tuple[Literal, ...] | None:
    """A literal that is true where two operations are in one role, nothing where they always are,
    None where they never are."""
    first, second = model.heads[one], model.heads[two]
    if first == second:
        return ()
    if (first, second) not in model.together:
        roles = [role.name for role in model.problem.roles]
        pairs = [(model.within.get((first, r)), model.within.get((second, r))) for r in roles]
        both = [(here, there) for here, there in pairs if here is not None and there is not None]
        made = model.cp.new_bool_var(f"{first} beside {second}")
        for here, there in both:
            model.cp.add_bool_or(~here, ~there, made)
        found = made if both else None
        model.together[first, second] = model.together[second, first] = found
    found = model.together[first, second]
    return None if found is None else (found,)


def _plain_users(problem: LoopProblem, unit: str) -> list[tuple[str, int]] | None:
    """The operations on a unit and their cycles, or None if that is not all there is to say: an
    offset, two uses by one operation, or a transfer."""
    uses = [(o.name, u) for o in problem.operations for u in o.uses if u.unit == unit and u.cycles]
    moved = any(e.transfer and e.transfer.unit == unit for e in problem.dependences)
    if moved or any(u.offset for _, u in uses) or len({name for name, _ in uses}) < len(uses):
        return None
    return [(name, use.cycles) for name, use in uses]


def _separate(model: Model, one: tuple[str, int], two: tuple[str, int], *together: Literal) -> None:
    """In every period one of the two intervals comes first, and neither reaches into the other.

    One literal orders the phases; the modulo copies are in the upper bounds. This is what makes
    the models quick: two copies in a no-overlap need three literals for each pair. The rule holds
    if all of `together` are true.
    """
    (first, lasts), (second, takes) = one, two
    if lasts + takes > model.ii:
        model.cp.add_bool_or(*[~literal for literal in together])
        return
    key = (first, second)
    if key not in model.before:
        model.before[key] = model.cp.new_bool_var(f"{first} before {second}")
    before, gap = model.before[key], model.phase[second] - model.phase[first]
    ahead = model.cp.add_linear_constraint(gap, lasts, model.ii - takes)
    ahead.only_enforce_if(before, *together)
    behind = model.cp.add_linear_constraint(gap, lasts - model.ii, -takes)
    behind.only_enforce_if(~before, *together)


def _fill_rings(model: Model) -> None:
    """Depths that cover every slot's life, within the memories."""
    cp, problem = model.cp, model.problem
    for ring in problem.rings:
        depth = cp.new_int_var(ring.shallowest, ring.deepest, f"depth {ring.name}")
        model.depth[ring.name] = depth
        for edge in readers_of(problem)[ring.name]:
            cp.add(life(model, edge) <= model.ii * depth)
    for memory in problem.memories:
        rings = [ring for ring in problem.rings if ring.memory == memory.name]
        slots = total(padded(ring) * model.depth[ring.name] for ring in rings)
        moved = total(
            edge.transfer.bytes * model.crossing[edge]
            for edge in problem.dependences
            if edge.transfer and edge.transfer.memory == memory.name
        )
        cp.add(slots + moved <= room(problem, memory))


def life(model: Model, edge: Dependence) -> Linear:
    """Cycles from the start of a slot's writer until the reader of `edge` has given it back."""
    free = model.start(edge.target) + model.ii * edge.distance + held(model.problem, edge)
    if edge.transfer:
        free += edge.transfer.latency * model.crossing[edge]
    return free - model.start(edge.source)


def padded(ring: Ring) -> int:
    """Bytes from one slot to the next."""
    return -(-ring.bytes // ring.align) * ring.align


def _cut(model: Model, cuts: Cuts) -> None:
    """Of the schedules that rotations and exchanges of like parts make equal, keep one."""
    cp = model.cp
    cp.add(model.phase[cuts.anchor] <= 0)
    if cuts.opposite:
        cp.add(2 * model.phase[cuts.opposite] <= model.ii)
    for one, two in cuts.ordered:
        cp.add(model.start(one) <= model.start(two))
