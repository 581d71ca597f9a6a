"""Split a pass into parts that run side by side, and combine their states: a rewrite of level 1.

True afterwards: the pass's index is walked in `parts` chunks, each with states of its own, stored;
and the outputs are made of states combined over the parts. A part's states are moved from its own
shifts to the common ones by the very rule that moves running states from block to block.

    l[m] = sum[n](exp(x[m, n] - r[m]))

    r_part[s, m] = max[w](x[m, |w| * s + w] where |w| * s + w < |n|)
    l_part[s, m] = sum[w](exp(x[m, |w| * s + w] - r_part[s, m]) where ...)
    r_all[m] = max[s](r_part[s, m])
    l_all[m] = sum[s](exp(r_part[s, m] - r_all[m]) * l_part[s, m])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tensorc.ir.dtypes import settled
from tensorc.ir.functions import FUNCTIONS, SUM
from tensorc.ir.node import Node, rebuild
from tensorc.ir.plan import Pass, Plan, PlannedKernel, State
from tensorc.ir.polynomial import polynomial
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Equation,
    Expr,
    Extent,
    Position,
    Program,
    Read,
    Reduce,
    Seen,
    Select,
    Tensor,
    Value,
    free_indices,
    value_type,
)
from tensorc.passes.canonicalise import call, integer
from tensorc.passes.fusion.inline import Unfused


def split(program: Program, plan: Plan, parts: int) -> tuple[Program, tuple[str, ...]]:
    """The program with the only pass of its plan's only kernel in `parts` chunks, and the names of
    the equations that must be stored for that: what `fuse` takes as `stored`.

    Raises Unfused where the plan has no such pass.
    """
    if len(plan.kernels) != 1 or len(plan.kernels[0].passes) != 1:
        raise Unfused("only one kernel with one pass is split")
    (kernel,) = plan.kernels
    (walk,) = kernel.passes
    if len(walk.indices) != 1 or any(state.poison for state in walk.states):
        raise Unfused("a pass over several indices, or relative to infinite maxima, is not split")
    return _Split(program, plan, kernel, walk, parts).program()


@dataclass
class _Split:
    """One pass being split."""

    source: Program
    plan: Plan
    kernel: PlannedKernel
    walk: Pass
    parts: int

    def __post_init__(self) -> None:
        self.extents = dict(self.plan.extents)
        self.index = self.walk.indices[0]
        self.taken = {*self.extents, *(item.tensor.name for item in self.source.equations)}
        self.taken |= {i.tensor.name for i in (*self.source.parameters, *self.source.tables)}
        self.part, self.inner = self.fresh("part"), self.fresh("within")
        size = self.extents[self.index]
        self.extents[self.part] = polynomial(self.parts)
        self.extents[self.inner] = (size + (self.parts - 1)) // polynomial(self.parts)
        whole = call("mul", Extent(self.inner), Position(self.part))
        self.place = call("add", whole, Position(self.inner))
        self.inside = call("lt", self.place, Extent(self.index))
        self.apart: dict[Node, Expr] = {}
        self.whole: dict[Node, Expr] = {}
        self.names: dict[str, Expr] = {}

    def fresh(self, stem: str) -> str:
        name, number = stem, 1
        while name in self.taken:
            number += 1
            name = f"{stem}_{number}"
        self.taken.add(name)
        return name

    def program(self) -> tuple[Program, tuple[str, ...]]:
        count = self.equation("seen", (self.part,), Reduce(
            SUM, (self.inner,), integer(1), self.inside, None))  # fmt: skip
        self.count = Read(count.tensor, (Position(self.part),))
        partial = [self.partial(state) for state in self.walk.states]
        combined = [self.combined(state) for state in self.walk.states]
        outputs = [
            replace(item, body=_replaced(item.body, self.whole)) for item in self.kernel.outputs
        ]
        made = replace(
            self.source, equations=(count, *partial, *combined, *outputs),
            extents=tuple(self.extents.items()), checks=self.plan.checks, conditions=(),
        )  # fmt: skip
        if made.checks:
            raise Unfused("a pass with compared subscripts is not split")
        return made, tuple(item.tensor.name for item in partial)

    def equation(self, stem: str, indices: tuple[str, ...], body: Expr) -> Equation:
        shape = tuple(self.extents[index] for index in indices)
        tensor = Tensor(self.fresh(stem), settled(value_type(body)), shape)
        return Equation(tensor, indices, body)

    def grid(self, state: State) -> tuple[str, ...]:
        free = free_indices(state.reduce)
        return tuple(index for index in self.kernel.grid if index in free)

    def partial(self, state: State) -> Equation:
        """The state of one part."""
        self.shifts(self.apart, "")
        positions: dict[Node, Expr] = {Position(self.index): self.place}
        body = _replaced(_replaced(state.body, self.apart), positions)
        where = self.inside
        if state.where is not None:
            more = _replaced(_replaced(state.where, self.apart), positions)
            where = Apply(FUNCTIONS["and"], (where, more))
        item = state.reduce
        reduce = Reduce(item.reducer, (self.inner,), body, where, item.dtype)
        made = self.equation(f"{state.name}_part", (self.part, *self.grid(state)), reduce)
        read = Read(made.tensor, tuple(Position(index) for index in made.indices))
        self.apart[item] = self.names[state.name] = read
        return made

    def shifts(self, states: dict[Node, Expr], version: str) -> None:
        """The shifts that these states give, where they stand in bodies and in formulas."""
        size = self.extents[self.index]
        for shift in self.walk.shifts:
            counts: dict[Node, Expr] = {}
            if not version:
                same = [name for name, other in self.extents.items() if other is size]
                counts = {Extent(name): self.count for name in same}
            made = _replaced(shift.value, {**counts, **_states(states)})
            self.names[shift.name + version] = made
            if not version:
                self.apart[shift.value] = made

    def combined(self, state: State) -> Equation:
        """The state of all parts."""
        self.shifts(self.whole, "'")
        element: Expr = self.names[state.name]
        if state.moved is not None:
            element = self.formula(state.moved)
            for item in state.empty:
                none = call("eq", self.counted(item), integer(0))
                element = Select(none, self.names[state.name], element)
        item = state.reduce
        reduce = Reduce(item.reducer, (self.part,), element, None, item.dtype)
        made = self.equation(f"{state.name}_all", self.grid(state), reduce)
        self.whole[item] = Read(made.tensor, tuple(Position(index) for index in made.indices))
        return made

    def counted(self, item: Expr) -> Expr:
        while isinstance(item, Cast):
            item = item.arg
        return self.count if isinstance(item, Extent) else _replaced(item, self.apart)

    def formula(self, item: Expr) -> Expr:
        """A rule of the plan, from one part's states to those of all."""
        match item:
            case Value(name):
                return self.names[name]
            case Seen():
                return self.count
            case _:
                return rebuild(item, lambda n: self.formula(n) if isinstance(n, Expr) else n)


def _states(items: Mapping[Node, Expr]) -> dict[Node, Expr]:
    return {key: value for key, value in items.items() if isinstance(key, Reduce)}


def _replaced(expr: Expr, names: Mapping[Node, Expr]) -> Expr:
    """`expr` with nodes replaced, the largest first."""
    memo: dict[Node, Node] = {}

    def replaced(item: Node) -> Node:
        if item in names:
            return names[item]
        if item not in memo:
            memo[item] = rebuild(item, replaced)
        return memo[item]

    found = replaced(expr)
    assert isinstance(found, Expr)
    return found
