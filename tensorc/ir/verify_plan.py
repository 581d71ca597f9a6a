"""The invariants of a plan beside its program.

P1  every output, and every stored intermediate, is planned in one kernel, and nothing else is
P2  kernels read parameters, tables and what earlier kernels store
P3  the grid of a kernel has the indices of its outputs, each once, and every index has an extent
P4  passes reduce what no earlier pass does, over indices of the extents that it has
P5  a rule speaks of states and shifts of its own pass, before (NAME) or after it (NAME')
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorc.ir.node import postorder
from tensorc.ir.plan import Pass, Plan, Planned, PlannedKernel
from tensorc.ir.tensor import Read, Reduce, Value, free_indices


def verify(item: Planned) -> list[str]:
    """All faults, each with its number; none where there is no plan."""
    if item.plan is None:
        return []
    return [*_stores(item, item.plan), *_reads(item, item.plan), *_kernels(item.plan)]


def _stores(item: Planned, plan: Plan) -> Iterator[str]:
    wanted = [output.tensor.name for output in item.program.outputs] + list(plan.stored)
    found = [output.tensor.name for kernel in plan.kernels for output in kernel.outputs]
    for name in dict.fromkeys((*wanted, *found)):
        if wanted.count(name) != found.count(name):
            yield f"P1: {name} is planned {found.count(name)} times"


def _reads(item: Planned, plan: Plan) -> Iterator[str]:
    program = item.program
    known = {one.tensor.name for one in (*program.parameters, *program.tables)}
    for number, kernel in enumerate(plan.kernels, start=1):
        reads = [n for n in postorder([o.body for o in kernel.outputs]) if isinstance(n, Read)]
        for name in dict.fromkeys(read.tensor.name for read in reads):
            if name not in known:
                yield f"P2: kernel {number} reads {name}, which nothing has stored yet"
        known |= {output.tensor.name for output in kernel.outputs}


def _kernels(plan: Plan) -> Iterator[str]:
    extents = dict(plan.extents)
    for number, kernel in enumerate(plan.kernels, start=1):
        named = {index for output in kernel.outputs for index in output.indices}
        if named != set(kernel.grid) or len(named) != len(kernel.grid):
            yield f"P3: kernel {number}: the grid is {', '.join(kernel.grid) or 'empty'}"
        used = named | {i for walk in kernel.passes for i in walk.indices} | _bound(kernel)
        for index in sorted(used - extents.keys()):
            yield f"P3: kernel {number}: {index} has no extent"
        done = set[Reduce]()
        for walk in kernel.passes:
            yield from _pass(plan, walk, done, number)
            done |= {state.reduce for state in walk.states}


def _bound(kernel: PlannedKernel) -> set[str]:
    nodes = postorder([output.body for output in kernel.outputs])
    return {index for node in nodes if isinstance(node, Reduce) for index in node.indices}


def _pass(plan: Plan, walk: Pass, done: set[Reduce], number: int) -> Iterator[str]:
    extents = dict(plan.extents)
    own = {item.name for item in (*walk.states, *walk.shifts)}
    names = own | {f"{name}'" for name in own}
    for state in walk.states:
        where = f"kernel {number}, {state.name}"
        if state.reduce in done:
            yield f"P4: {where}: an earlier pass has it"
        sizes = [extents.get(index) for index in state.reduce.indices]
        if sizes != [extents.get(index) for index in walk.indices]:
            yield f"P4: {where}: reduces over other extents than its pass walks"
        if not free_indices(state.reduce) <= _outer(plan, number):
            yield f"P4: {where}: depends on more than the grid"
        moved = () if state.moved is None else (state.moved,)
        for value in postorder(moved):
            if isinstance(value, Value) and value.tile not in names:
                yield f"P5: {where}: its rule uses {value.tile}"


def _outer(plan: Plan, number: int) -> set[str]:
    return set(plan.kernels[number - 1].grid)
