"""Decide which equations share a kernel and which reductions share a loop.

True afterwards: every output is planned in one kernel, as an expression over parameters and what
other kernels store; in each kernel the reductions that depend on the grid alone are dealt to
passes, in order. A pass carries every reduction over its indices that is ready, and those that
depend on others of the pass where `rebase` finds how they move.

    p[m, n] = exp(s[m, n] - max[n](s[m, n]));  o[m] = sum[n](p[m, n] * v[n])

    kernel 1 -> o: grid m
      pass 0 over n: r1, s1      s1 from exp(r1 - r1') * s1

Kernels end where storing an intermediate is estimated to take less time than computing it where it
is read: work over the rate of the machine, plus bytes over its bandwidth, plus a kernel's start.
The estimates stand in the plan. No operator is known by name here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations

from tensorc.ir.node import postorder
from tensorc.ir.plan import Plan, PlannedKernel
from tensorc.ir.tensor import (
    Equation,
    Expr,
    Extent,
    Position,
    Program,
    Read,
    Reduce,
    free_indices,
)
from tensorc.passes.fusion.delay import delay
from tensorc.passes.fusion.guards import Reads
from tensorc.passes.fusion.inline import Inliner
from tensorc.passes.fusion.price import BANDWIDTH, RATE, START, grid_of, sizes_of, traffic, work
from tensorc.passes.fusion.reach import reductions
from tensorc.passes.fusion.share import passes

_CUTS = 4  # so many intermediates that may be stored: every subset of them is estimated


def fuse(
    program: Program,
    sizes: Mapping[str, int] | None = None,
    cuts: str = "cost",
    stored: Sequence[str] = (),
) -> Plan:
    """The plan of a canonical program.

    `sizes`: extents that are known, for the estimates. `cuts`: "cost", or "none" for as few
    kernels as the outputs allow. `stored`: intermediates that go through memory in any case.
    Raises Unfused where a program cannot be inlined.
    """
    choices = intermediates(program, stored) if cuts == "cost" else ()
    kernels = _Kernels(program, sizes_of(program, sizes or {}))

    def draft(chosen: Sequence[str]) -> _Draft:
        return _draft(
            _Cuts(program, (*stored, *chosen), tuple(stored), sizes or {}, cuts != "cost"), kernels
        )

    drafts = _every(choices, draft) if len(choices) <= _CUTS else _joining(choices, draft)
    best = min(drafts, key=lambda item: (item.time, len(item.cuts.stored)))
    return _planned(best, tuple(item.note for item in drafts))


def is_large(program: Program) -> bool:
    """Whether a program has too many intermediates for every choice of cuts to be estimated: one
    kernel of all of it would compute far more than several."""
    return len(intermediates(program, ())) > _CUTS


def _every(choices: Sequence[str], draft: Callable[[Sequence[str]], _Draft]) -> list[_Draft]:
    """Every subset of these intermediates stored."""
    subsets = chain.from_iterable(combinations(choices, n) for n in range(len(choices) + 1))
    return [draft(subset) for subset in subsets]


def _joining(choices: Sequence[str], draft: Callable[[Sequence[str]], _Draft]) -> list[_Draft]:
    """All of them stored, then one after another computed where it is read if that takes less
    time: the estimates of large programs grow with their length, not with the number of subsets."""
    best = draft(choices)
    found, stored = [best], list(choices)
    for name in choices:
        made = draft([other for other in stored if other != name])
        found.append(made)
        if made.time < best.time:
            best = made
            stored.remove(name)
    return found


@dataclass(frozen=True)
class _Cuts:
    """Where the kernels of a program end: `stored` intermediates go through memory, the `forced`
    ones among them in one kernel. `known`: extents that are fixed. `few`: as few kernels as can
    be, whatever they take."""

    program: Program
    stored: tuple[str, ...]
    forced: tuple[str, ...]
    known: Mapping[str, int]
    few: bool


@dataclass(frozen=True)
class _Draft:
    """The kernels of these cuts, as outputs over parameters and stored tensors; and their price."""

    cuts: _Cuts
    groups: list[list[Equation]]
    inliner: Inliner
    time: float
    note: str


# --- kernels ------------------------------------------------------------------------------------


def intermediates(program: Program, stored: Sequence[str]) -> tuple[str, ...]:
    """Intermediates with reductions, of which storing is worth a thought."""
    outputs = {*stored, *(item.tensor.name for item in program.outputs)}
    found = [
        item.tensor.name
        for item in program.equations
        if item.tensor.name not in outputs and reductions(item.body)
    ]
    return tuple(found)


def _groups(cuts: _Cuts, kernels: _Kernels) -> list[list[Equation]]:
    """Stored equations by kernel: those of one grid together, and those of part of it that share
    a reduction, unless one needs what another kernel stores, or takes less time in a kernel of its
    own where that may be. `forced` ones share one anyway."""
    program = cuts.program
    kept = {item.tensor.name for item in program.outputs} | set(cuts.stored)
    needs = _needs(program, kept)
    groups: list[list[Equation]] = []
    for item in program.equations:
        if item.tensor.name not in kept:
            continue
        before = set[str]()
        for group in groups:
            names = {other.tensor.name for other in group}
            before |= names
            if needs[item.tensor.name] <= before and _joins(item, group, kept, cuts, kernels):
                group.append(item)
                break
        else:
            groups.append([item])
    return groups


def _joins(
    item: Equation, group: list[Equation], kept: set[str], cuts: _Cuts, kernels: _Kernels
) -> bool:
    """Whether an equation goes into the kernel of others."""
    if {item.tensor.name, *(other.tensor.name for other in group)} <= set(cuts.forced):
        return True
    if not _together(item, group, kernels.whole, cuts.known):
        return False
    apart = kernels.of(group, kept).time + kernels.of([item], kept).time
    return cuts.few or kernels.of([*group, item], kept).time <= apart


def _together(
    item: Equation, group: list[Equation], inliner: Inliner, known: Mapping[str, int]
) -> bool:
    grid = set(grid_of(group))
    if item.indices == grid_of(group):
        return True
    # One index more: it lies in a tile, unless it may be empty and would have nothing stored.
    more = set(item.indices) ^ grid
    nested = len(more) == 1 and all(known.get(index, 0) > 0 for index in more)
    return nested and bool(_shared(item, inliner) & {r for e in group for r in _shared(e, inliner)})


def _shared(item: Equation, inliner: Inliner) -> frozenset[Reduce]:
    return reductions(inliner.whole(item.body))


def _needs(program: Program, kept: set[str]) -> dict[str, set[str]]:
    """The kept equations that each equation reads, through others too."""
    found: dict[str, set[str]] = {}
    for item in program.equations:
        reads = {node.tensor.name for node in postorder([item.body]) if isinstance(node, Read)}
        own = {name for name in reads if name in kept}
        found[item.tensor.name] = own.union(*(found[name] for name in reads if name in found))
    return found


class _Kernels:
    """Kernels of one program as outputs over parameters and stored tensors, factors pulled out.
    Each is made once, however many choices of cuts have it."""

    def __init__(self, program: Program, hints: Mapping[str, int]) -> None:
        self.program, self.hints = program, hints
        self.inliner, self.whole = Inliner(program, ()), Inliner(program, ())
        self._made: dict[tuple[frozenset[str], ...], _Made] = {}

    def of(self, group: Sequence[Equation], kept: set[str]) -> _Made:
        """A kernel where these intermediates and outputs are `kept` in memory."""
        names = frozenset(item.tensor.name for item in group)
        inside, ends = self._reached(group, kept - names)
        key = (names, inside, ends)
        if key not in self._made:
            self._made[key] = self._anew(group, ends)
        return self._made[key]

    def _reached(
        self, group: Sequence[Equation], kept: set[str]
    ) -> tuple[frozenset[str], frozenset[str]]:
        """The equations that a kernel computes, and the kept ones that it reads."""
        inside: set[str] = set()
        ends: set[str] = set()
        waiting = [item.tensor.name for item in group]
        while waiting:
            name = waiting.pop()
            if name in kept:
                ends.add(name)
            elif name in self.inliner.equations and name not in inside:
                inside.add(name)
                nodes = postorder([self.inliner.equations[name].body])
                waiting += [node.tensor.name for node in nodes if isinstance(node, Read)]
        return frozenset(inside), frozenset(ends)

    def _anew(self, group: Sequence[Equation], ends: frozenset[str]) -> _Made:
        inliner = self.inliner
        inliner.kept = ends
        inliner.forget()
        bodies = [inliner.whole(item.body) for item in group]
        judge = Reads(self.program, inliner.extents, inliner.checked, inliner.bound)
        exprs = judge.guarded([delay(body, inliner.extents) for body in bodies])
        taken = {index for item in group for index in item.indices}
        named = inliner.named(exprs, taken | _free_names(exprs))
        made = [replace(i, body=e) for i, e in zip(group, named, strict=True)]
        values = {inliner.extents[name]: size for name, size in self.hints.items()}
        sizes = {name: values[size] for name, size in inliner.extents.items() if size in values}
        return _Made(made, work(made, sizes), traffic(made, self.hints))


@dataclass(frozen=True)
class _Made:
    """The outputs of one kernel, its operations and the bytes that it moves."""

    outputs: list[Equation]
    operations: float
    bytes: float

    @property
    def time(self) -> float:
        """Nanoseconds, as estimated."""
        return self.operations / RATE + self.bytes / BANDWIDTH + START


def _free_names(exprs: Sequence[Expr]) -> set[str]:
    return {index for expr in exprs for index in free_indices(expr)}


def _planned(draft: _Draft, note: tuple[str, ...]) -> Plan:
    """The plan that was chosen: reductions dealt to passes."""
    groups, inliner, stored = draft.groups, draft.inliner, draft.cuts.stored
    kernels: list[PlannedKernel] = []
    for group in groups:
        roots = [item.body for item in group]
        grid = grid_of(group)
        made = passes(roots, frozenset(grid), inliner.extents, inliner.moved)
        kernels.append(PlannedKernel(tuple(group), grid, tuple(made)))
    exprs = [item.body for group in groups for item in group]
    for kernel in kernels:
        exprs += [state.body for item in kernel.passes for state in item.states]
    used = {name for name, _ in draft.cuts.program.extents} | _names(exprs)
    extents = tuple(item for item in inliner.extents.items() if item[0] in used)
    return Plan(tuple(kernels), stored, extents, inliner.checks(exprs), note)


def _names(exprs: Iterable[Expr]) -> set[str]:
    nodes = list(postorder(exprs))
    bound = {index for node in nodes if isinstance(node, Reduce) for index in node.indices}
    return bound | {node.index for node in nodes if isinstance(node, Position | Extent)}


def _draft(cuts: _Cuts, kernels: _Kernels) -> _Draft:
    """The kernels of these cuts with an estimate of their time, and how it comes about."""
    kept = {item.tensor.name for item in cuts.program.outputs} | set(cuts.stored)
    made = [kernels.of(group, kept) for group in _groups(cuts, kernels)]
    done, moved = sum(item.operations for item in made), sum(item.bytes for item in made)
    text = f"{len(made)} kernels, {done:.3g} operations, {moved:.3g} bytes"
    note, time = f"stored {_names_of(cuts.stored)}: {text}", sum(item.time for item in made)
    return _Draft(cuts, [item.outputs for item in made], kernels.inliner, time, note)


def _names_of(stored: Sequence[str]) -> str:
    return ", ".join(stored) or "nothing"
