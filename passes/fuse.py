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

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations

from tensorc.ir.functions import MAX, MIN, SUM
from tensorc.ir.node import postorder
from tensorc.ir.plan import Pass, Plan, PlannedKernel, State
from tensorc.ir.polynomial import Polynomial, Symbol, evaluate, symbols
from tensorc.ir.tensor import (
    Equation,
    Expr,
    Position,
    Program,
    Read,
    Reduce,
    Tensor,
    free_indices,
)
from tensorc.passes.delay import delay
from tensorc.passes.inline import Inliner, Unfused
from tensorc.passes.reach import below, needed, outside
from tensorc.passes.rebase import Rebase

_CUTS = 4  # intermediates that may be stored: every subset of them is estimated
_GUESS = 256  # an extent of which nothing is known
# An estimate's rates, of one core: multiply-adds and bytes a nanosecond, nanoseconds a kernel.
RATE, BANDWIDTH, START = 30.0, 10.0, 2000.0

Moved = Callable[[Expr, Mapping[str, Expr]], Expr]


def fuse(program: Program, sizes: Mapping[str, int] | None = None, cuts: str = "cost") -> Plan:
    """The plan of a canonical program.

    `sizes`: extents that are known, for the estimates. `cuts`: "cost", or "none" for as few
    kernels as the outputs allow. Raises Unfused where a program cannot be inlined.
    """
    hints = sizes_of(program, sizes or {})
    choices = _candidates(program) if cuts == "cost" else ()
    subsets = chain.from_iterable(combinations(choices, n) for n in range(len(choices) + 1))
    priced = [(*_priced(program, subset, hints), subset) for subset in subsets]
    best = min(priced, key=lambda item: (item[0], len(item[2])))
    note = tuple(f"stored {', '.join(s) or 'nothing'}: {text}" for _, text, s in priced)
    return _planned(program, best[2], note)


def sizes_of(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """Every index's extent, guessed where it is not known."""
    known: dict[Symbol, int] = {}
    for name, _ in program.extents:
        known[Symbol(name, "extent")] = sizes.get(name, _GUESS)
    for item in program.parameters:
        known[Symbol(item.tensor.name, "parameter")] = sizes.get(item.tensor.name, _GUESS)
    return {name: evaluate(size, known) for name, size in program.extents}


# --- kernels ------------------------------------------------------------------------------------


def _candidates(program: Program) -> tuple[str, ...]:
    """Intermediates with reductions, of which storing is worth a thought."""
    outputs = {item.tensor.name for item in program.outputs}
    found = [
        item.tensor.name
        for item in program.equations
        if item.tensor.name not in outputs
        and any(isinstance(node, Reduce) for node in postorder([item.body]))
    ]
    return tuple(found[-_CUTS:])


def _groups(program: Program, stored: Iterable[str]) -> list[list[Equation]]:
    """Stored equations by kernel: those of one grid together, and those of part of it that share
    a reduction, unless one needs what another kernel stores."""
    kept = {item.tensor.name for item in program.outputs} | set(stored)
    needs = _needs(program, kept)
    inliner = Inliner(program, kept)
    groups: list[list[Equation]] = []
    for item in program.equations:
        if item.tensor.name not in kept:
            continue
        for group in groups:
            names = {other.tensor.name for other in group}
            if needs[item.tensor.name] <= names and _together(item, group, inliner):
                group.append(item)
                break
        else:
            groups.append([item])
    return groups


def _together(item: Equation, group: list[Equation], inliner: Inliner) -> bool:
    grid = set(grid_of(group))
    if item.indices == grid_of(group):
        return True
    nested = set(item.indices) <= grid or grid <= set(item.indices)
    return nested and bool(_shared(item, inliner) & {r for e in group for r in _shared(e, inliner)})


def _shared(item: Equation, inliner: Inliner) -> set[Reduce]:
    body = inliner.inlined(item.body)
    return {node for node in postorder([body]) if isinstance(node, Reduce)}


def grid_of(group: Sequence[Equation]) -> tuple[str, ...]:
    """The indices of the outputs of a kernel: those of the largest one."""
    return max((item.indices for item in group), key=len)


def _needs(program: Program, kept: set[str]) -> dict[str, set[str]]:
    """The kept equations that each equation reads, through others too."""
    found: dict[str, set[str]] = {}
    for item in program.equations:
        reads = {node.tensor.name for node in postorder([item.body]) if isinstance(node, Read)}
        own = {name for name in reads if name in kept}
        found[item.tensor.name] = own.union(*(found[name] for name in reads if name in found))
    return found


def _expressions(program: Program, stored: Iterable[str]) -> tuple[list[list[Equation]], Inliner]:
    """Kernels' outputs with bodies over parameters and stored tensors, factors pulled out."""
    kept = {item.tensor.name for item in program.outputs} | set(stored)
    groups = _groups(program, stored)
    made: list[list[Equation]] = []
    inliner = Inliner(program, kept)
    for group in groups:
        inliner.kept = frozenset(kept - {item.tensor.name for item in group})
        inliner.forget()
        bodies = [inliner.inlined(item.body) for item in group]
        exprs = [delay(body, inliner.extents) for body in bodies if isinstance(body, Expr)]
        taken = {index for item in group for index in item.indices}
        named = inliner.named(exprs, taken | _free_names(exprs))
        made.append([replace(i, body=e) for i, e in zip(group, named, strict=True)])
    return made, inliner


def _free_names(exprs: Sequence[Expr]) -> set[str]:
    return {index for expr in exprs for index in free_indices(expr)}


def _planned(program: Program, stored: tuple[str, ...], note: tuple[str, ...]) -> Plan:
    groups, inliner = _expressions(program, stored)
    kernels: list[PlannedKernel] = []
    for group in groups:
        roots = [item.body for item in group]
        grid = grid_of(group)
        made = passes(roots, frozenset(grid), inliner.extents, inliner.moved)
        kernels.append(PlannedKernel(tuple(group), grid, tuple(made)))
    exprs = [item.body for group in groups for item in group]
    for kernel in kernels:
        exprs += [state.body for item in kernel.passes for state in item.states]
    used = {name for name, _ in program.extents} | _names(exprs)
    extents = tuple(item for item in inliner.extents.items() if item[0] in used)
    return Plan(tuple(kernels), stored, extents, inliner.checks(exprs), note)


def _names(exprs: Iterable[Expr]) -> set[str]:
    return {node.index for node in postorder(exprs) if isinstance(node, Position)}


# --- passes -------------------------------------------------------------------------------------


def passes(
    roots: Sequence[Expr],
    bound: frozenset[str],
    extents: Mapping[str, Polynomial],
    moved: Moved,
    known: Callable[[Expr], bool] | None = None,
) -> list[Pass]:
    """The reductions in `roots` whose free indices are `bound`, dealt to passes in order."""
    waiting = [item for item in needed(roots, known or _nothing) if free_indices(item) <= bound]
    done: set[Reduce] = set()
    made: list[Pass] = []
    counts: dict[tuple[Polynomial, ...], int] = {}
    letters: dict[str, int] = {}
    while waiting:
        classes = dict.fromkeys(_class(item, extents) for item in waiting)
        options = [
            _Filling(c, waiting, done, extents, moved, dict(letters)).filled() for c in classes
        ]
        chosen = max(options, key=lambda item: len(item.states))
        key = tuple(extents[index] for index in chosen.indices)
        made.append(replace(chosen, number=counts.get(key, 0)))
        counts[key] = counts.get(key, 0) + 1
        for item in (*chosen.states, *chosen.shifts):
            letters[item.name[0]] = letters.get(item.name[0], 0) + 1
        done |= {state.reduce for state in chosen.states}
        waiting = [item for item in waiting if item not in done]
    return made


def _class(item: Reduce, extents: Mapping[str, Polynomial]) -> tuple[Polynomial, ...]:
    return tuple(extents[index] for index in item.indices)


class _Filling:
    """One pass over indices of certain extents, being filled with all that may join."""

    def __init__(
        self, sizes: tuple[Polynomial, ...], waiting: list[Reduce], done: set[Reduce],
        extents: Mapping[str, Polynomial], moved: Moved, letters: dict[str, int],
    ) -> None:  # fmt: skip
        self.waiting, self.done, self.extents, self.moved = waiting, done, extents, moved
        self.members = [item for item in waiting if _class(item, extents) == sizes]
        self.indices = self._indices()
        self.solver = Rebase(self.indices[0], extents, first=letters.get("h", 0))
        self.letters = letters

    def _indices(self) -> tuple[str, ...]:
        """Names that no member binds inside, short ones first."""
        for item in sorted(self.members, key=lambda m: (*map(len, m.indices), m.indices)):
            if not any(self._captures(other, item.indices) for other in self.members):
                return item.indices
        raise Unfused("no common name for the index of a pass")

    def _captures(self, item: Reduce, indices: tuple[str, ...]) -> bool:
        inner = (n for n in postorder(_parts(item)) if isinstance(n, Reduce))
        own = set(item.indices)
        return any(set(n.indices) & set(indices) and free_indices(n) & own for n in inner)

    def filled(self) -> Pass:
        for item in self.members:
            if self._ready(item):
                self._join(self._state(item), 0)
        return Pass(
            0, self.indices, tuple(self.solver.terms.states), tuple(self.solver.terms.shifts)
        )

    def _ready(self, item: Reduce) -> bool:
        """Everything that the reduction needs is computed before the pass or in it."""
        inside = {state.reduce for state in self.solver.terms.states}
        needs = {n for n in postorder(_parts(item)) if n in self.waiting and n is not item}
        return needs <= inside | self.done

    def _state(self, item: Reduce) -> State:
        names: dict[str, Expr] = {
            old: Position(new) for old, new in zip(item.indices, self.indices, strict=True)
        }
        where = None if item.where is None else self.moved(item.where, names)
        letter = "r" if item.reducer in (MAX, MIN) else "s" if item.reducer is SUM else "t"
        own = sum(state.name.startswith(letter) for state in self.solver.terms.states)
        name = f"{letter}{self.letters.get(letter, 0) + own + 1}"
        return State(name, item, self.moved(item.body, names), where)

    def _join(self, state: State, depth: int) -> bool:
        if len(self.indices) > 1:
            if not any(
                other.reduce in postorder(_parts(state.reduce))
                for other in self.solver.terms.states
            ):
                self.solver.terms.states.append(state)
            return True
        made, missing = self.solver.moved(state)
        if made is None and missing and depth < 3 and self._carried(missing, depth):
            made, _ = self.solver.moved(self._state(state.reduce))
        if made is None:
            return False
        self.solver.terms.states.append(made)
        return True

    def _carried(self, missing: Sequence[Reduce], depth: int) -> bool:
        """Carry further sums, from which a rule can be made."""
        return all(self._join(self._state(item), depth + 1) for item in missing)


def _parts(item: Reduce) -> tuple[Expr, ...]:
    return (item.body,) if item.where is None else (item.body, item.where)


def _nothing(item: Expr) -> bool:
    """Nothing is known yet."""
    return False


# --- cost ---------------------------------------------------------------------------------------


def _priced(
    program: Program, stored: tuple[str, ...], hints: Mapping[str, int]
) -> tuple[float, str]:
    """An estimate of the time of all kernels, and how it comes about."""
    groups, inliner = _expressions(program, stored)
    values = {inliner.extents[name]: size for name, size in hints.items()}
    sizes = {name: values[size] for name, size in inliner.extents.items() if size in values}
    work = sum(_work(group, sizes) for group in groups)
    moved = sum(_bytes(group, program, hints) for group in groups)
    time = work / RATE + moved / BANDWIDTH + START * len(groups)
    return time, f"{len(groups)} kernels, {work:.3g} operations, {moved:.3g} bytes"


def _work(group: Sequence[Equation], sizes: Mapping[str, int]) -> float:
    """Operations: a reduction's body once for each point of its own free indices, of its
    indices, and of those grid indices that are walked outside."""
    roots = [item.body for item in group]
    outer = set(grid_of(group))
    inside = in_tile(group, sizes)
    total = 0.0
    for item in needed(roots, _nothing):
        around = (outer - ({inside} if inside else set())) | free_indices(item)
        points = math.prod(sizes[index] for index in {*around, *item.indices})
        total += points * operations(item.body)
    return total + math.prod(sizes[index] for index in outer) * sum(map(operations, roots))


def in_tile(group: Sequence[Equation], sizes: Mapping[str, int]) -> str | None:
    """The grid index that lies whole in a tile, so that reductions which lack it are computed
    once for all of it: the one for which that saves most."""
    indices = grid_of(group)
    saved: dict[str, float] = {}
    for item in needed([e.body for e in group], _nothing):
        if not free_indices(item) <= set(indices):
            continue
        points = math.prod(sizes[i] for i in {*item.indices, *free_indices(item)})
        for index in set(indices) - free_indices(item):
            saved[index] = saved.get(index, 0.0) + points * sizes[index]
    best = max(indices, key=lambda i: (saved.get(i, 0.0), indices.index(i)), default=None)
    return best if best is not None and saved.get(best, 0.0) > 0 else None


def operations(expr: Expr) -> int:
    """Scalar operations of one element, outside reductions."""
    plain = [item for item in outside(expr) if below(item) and not isinstance(item, Read)]
    return max(1, len(plain))


def _bytes(group: Sequence[Equation], program: Program, hints: Mapping[str, int]) -> float:
    """Every tensor read or stored once."""
    tensors = {n.tensor for e in group for n in postorder([e.body]) if isinstance(n, Read)}
    tensors |= {item.tensor for item in group}
    return sum(size_in_bytes(tensor, hints) for tensor in tensors)


def size_in_bytes(tensor: Tensor, hints: Mapping[str, int]) -> float:
    """The bytes of a tensor at these extents."""
    known = {Symbol(name, "extent"): size for name, size in hints.items()}
    return math.prod(_value(size, known) for size in tensor.shape) * tensor.dtype.bits / 8


def _value(size: Polynomial, known: Mapping[Symbol, int]) -> int:
    every = {**dict.fromkeys(symbols(size), _GUESS), **known}
    return evaluate(size, every)
