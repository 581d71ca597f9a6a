"""Deal reductions to passes: which of them share a loop.

A pass is a walk over some indices. It carries every reduction over them that needs nothing but
what earlier passes computed, and those that depend on others of the pass where `rebase` finds how
they move. Passes are chosen greedily, the one that carries most first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tensorc.ir.functions import MAX, MIN, SUM
from tensorc.ir.plan import Pass, State
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import Expr, Position, Reduce, free_indices
from tensorc.passes.fusion.inline import Unfused
from tensorc.passes.fusion.reach import needed, reductions
from tensorc.passes.fusion.rebase import Rebase

_DEEP = 3  # sums that are carried only so that others can move: a cubic needs two
Moved = Callable[[Expr, Mapping[str, Expr]], Expr]


def passes(
    roots: Sequence[Expr],
    bound: frozenset[str],
    extents: Mapping[str, Polynomial],
    moved: Moved,
    known: Callable[[Expr], bool] | None = None,
) -> list[Pass]:
    """The reductions in `roots` whose free indices are `bound`, dealt to passes in order."""
    found = needed(roots, known or _nothing)
    waiting: list[Reduce] = [item for item in found if free_indices(item) <= bound]
    done = set[Reduce]()
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
        inner = reductions(item) - {item}
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
        needs = {n for n in reductions(item) if n in self.waiting and n is not item}
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
        """Take the state into the pass, if there is a rule for it."""
        states = self.solver.terms.states
        if len(self.indices) > 1:  # no rules over several indices: what depends on a state waits
            if any(self.solver.terms.depends(part) for part in _parts(state.reduce)):
                return False
            states.append(state)
            return True
        known = len(states)
        made, missing = self.solver.moved(state)
        if made is None and missing and depth < _DEEP and self._carried(missing, depth):
            made, _ = self.solver.moved(self._state(state.reduce))
        if made is None:
            del states[known:]
            return False
        states.append(made)
        return True

    def _carried(self, missing: Sequence[Reduce], depth: int) -> bool:
        """Carry further sums, from which a rule can be made."""
        return all(self._join(self._state(item), depth + 1) for item in missing)


def _parts(item: Reduce) -> tuple[Expr, ...]:
    return (item.body,) if item.where is None else (item.body, item.where)


def _nothing(item: Expr) -> bool:
    """Nothing is known yet."""
    return False
