"""Whether the roles of a level-3 kernel fit together, for every trip count and interleaving.

Given a kernel that keeps the invariants of `ir/verify_channel.py`, the rules P1 to P7 of
`protocol_moves` are decided by exploring all interleavings that can differ. The exploration ends by
itself: trip counts are unbounded, but states are finite up to normal form (`protocol_normal`). A
fault is shown by a trace, the shortest there is unless that takes more than `SHORTEST` states.

Rings are explored one at a time, and the tokens of a unit together, first alone, then with one
ring more. Leaving out the rest of the kernel only adds interleavings, so a group that keeps P2 to
P6 keeps them in the kernel; if a group breaks a rule, the whole kernel is explored to tell. Once
P2 to P6 hold, a wait that may pass stays so until it does, and no two roles compete for it: for
given trip counts all interleavings perform the same statements. One interleaving therefore decides
P1 and P7 for all, and the last group follows just one: whoever lags most moves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from tensorc.ir.channel import Kernel
from tensorc.ir.trace import Entry, table
from tensorc.ir.verify_channel import verify_channel
from tensorc.passes.pipelining.protocol import (
    FINISHED,
    Fault,
    Place,
    State,
    Step,
    System,
    build,
    initial,
)
from tensorc.passes.pipelining.protocol_moves import autonomous, every_move, move, moves, stuck
from tensorc.passes.pipelining.protocol_normal import normal
from tensorc.passes.pipelining.protocol_trace import replay

CAP = 200_000
SHORTEST = 60_000  # states visited for a trace that is certainly a shortest one

Outcome = Literal["PASS", "FAIL", "UNDECIDED"]
Expand = Callable[[System, State], Iterable[Step]]


@dataclass(frozen=True)
class Explored:
    """One exploration: the rings and tokens in it, and how many states it visited."""

    group: str
    states: int


@dataclass(frozen=True)
class Verdict:
    """The answer: FAIL has a rule, the two operations and a trace; UNDECIDED a reason."""

    outcome: Outcome
    explored: tuple[Explored, ...] = ()
    rule: str = ""
    sentence: str = ""
    operations: tuple[str, str] = ("", "")
    trace: tuple[Entry, ...] = ()

    @property
    def states(self) -> int:
        """All states visited."""
        return sum(part.states for part in self.explored)

    def __str__(self) -> str:
        lines = [f"{self.outcome}, {self.states:,} states"]
        if self.rule:
            named = " and ".join(f"`{name}`" for name in self.operations if name)
            lines.append(f"TC-E405 {self.rule}: {named}{': ' if named else ''}{self.sentence}")
        elif self.sentence:
            lines.append(self.sentence)
        return "\n".join([*lines, *table(self.trace)])


@dataclass(frozen=True)
class _Search:
    """What one exploration found: None for a fault if all states were visited without one."""

    states: int
    fault: Fault | None = None
    trace: tuple[Entry, ...] = ()
    capped: bool = False

    @property
    def clean(self) -> bool:
        return self.fault is None and not self.capped


def check_protocol(kernel: Kernel, cap: int = CAP, thorough: bool = False) -> Verdict:
    """PASS, FAIL or UNDECIDED for `kernel`, visiting at most `cap` states in one exploration.

    A kernel that breaks an invariant of its own (C1 to C13) fails with it, unexplored. `thorough`
    follows moves in every order, also where orders cannot differ (see `protocol_moves.moves`).
    """
    faults = verify_channel(kernel)
    if faults:
        rule, sentence = faults[0].split(": ", 1)
        return Verdict("FAIL", rule=rule, sentence=sentence, operations=_quoted(sentence))
    return explore_protocol(kernel, cap, thorough)


def explore_protocol(kernel: Kernel, cap: int = CAP, thorough: bool = False) -> Verdict:
    """The exploration alone: P1 to P7 of a kernel whose roles are taken as they are."""
    expand = every_move if thorough else moves
    explored = list[Explored]()
    for rings, tokens in _groups(kernel):
        if _holds_alone(kernel, (rings, tokens), expand, cap, explored):
            continue
        system, search = _whole(kernel, expand, cap, explored)
        return _verdict(system, search, explored)
    system, search = _whole(kernel, _hindmost, cap, explored)
    return _verdict(system, search, explored)


def _quoted(sentence: str) -> tuple[str, str]:
    """The first two statements that a sentence quotes."""
    parts = sentence.split("`")[1::2]
    return (parts[0] if parts else "", parts[1] if len(parts) > 1 else "")


def _groups(kernel: Kernel) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    for ring in kernel.rings:
        yield frozenset({ring.name}), frozenset()
    for unit in dict.fromkeys(token.unit for token in kernel.tokens):
        yield frozenset(), frozenset(t.name for t in kernel.tokens if t.unit == unit)


def _holds_alone(
    kernel: Kernel,
    group: tuple[frozenset[str], frozenset[str]],
    expand: Expand,
    cap: int,
    explored: list[Explored],
) -> bool:
    """Whether a group of rings and tokens, or it with one more ring, keeps the rules."""
    rings, tokens = group
    others = sorted((r for r in kernel.rings if r.name not in rings), key=lambda r: r.depth)
    for more in [(), *((ring.name,) for ring in others)]:
        system = build(kernel, rings | set(more), tokens)
        search = search_all(system, expand, cap)
        explored.append(Explored(_name(system), search.states))
        if search.clean or search.capped:
            return search.clean
    return False


def _whole(
    kernel: Kernel,
    expand: Expand,
    cap: int,
    explored: list[Explored],
) -> tuple[System, _Search]:
    """Explore everything at once; a fault is sought again for its shortest trace."""
    rings = frozenset(ring.name for ring in kernel.rings)
    tokens = frozenset(token.name for token in kernel.tokens)
    system = build(kernel, rings, tokens)
    search = search_all(system, expand, cap)
    kind = "one interleaving of " if expand is _hindmost else ""
    explored.append(Explored(kind + _name(system), search.states))
    if search.fault:
        shortest = search_all(system, every_move, min(cap, SHORTEST))
        explored.append(Explored(f"shortest trace in {_name(system)}", shortest.states))
        search = shortest if shortest.fault else search
    return system, search


def _name(system: System) -> str:
    return ", ".join([*(ring.name for ring in system.rings), *system.tokens])


def _verdict(system: System, search: _Search, explored: list[Explored]) -> Verdict:
    if search.fault:
        rule, sentence, operations = search.fault
        return Verdict("FAIL", tuple(explored), rule, sentence, operations, search.trace)
    if search.capped:
        reason = f"more than {search.states:,} states of {_name(system)}"
        return Verdict("UNDECIDED", tuple(explored), sentence=reason)
    return Verdict("PASS", tuple(explored))


def search_all(system: System, expand: Expand, cap: int) -> _Search:
    """Breadth first over normal forms, up to the first fault, the last state or the cap."""
    parents = dict[State, State | None]()
    queue = deque[State]()
    for first in initial(system):
        form = normal(system, first)
        if form not in parents:
            parents[form] = None
            queue.append(form)
    while queue:
        state = queue.popleft()
        moved = False
        for step in expand(system, state):
            moved = True
            if isinstance(step.after, Fault):
                return _faulty(system, parents, state, step.after)
            form = normal(system, step.after)
            if form not in parents:
                parents[form] = state
                queue.append(form)
        fault = None if moved else stuck(system, state)
        if fault:
            return _faulty(system, parents, state, fault)
        if len(parents) > cap:
            return _Search(len(parents), capped=True)
    return _Search(len(parents))


def _faulty(
    system: System, parents: dict[State, State | None], state: State, fault: Fault
) -> _Search:
    path = [state]
    while (before := parents[path[-1]]) is not None:
        path.append(before)
    return _Search(len(parents), fault, replay(system, path[::-1], fault))


def _hindmost(system: System, state: State) -> Iterator[Step]:
    """The transitions of one agent: whatever happens by itself, else the role furthest behind."""
    for step, _ in autonomous(system, state):
        yield step
        return
    for role in sorted(range(len(system.codes)), key=lambda k: _progress(system, state, k)):
        steps = list(move(system, state, role))
        if steps:
            yield from steps
            return


def _progress(system: System, state: State, role: int) -> tuple[int, int, int, int]:
    place: Place = state.places[role]
    code = system.codes[role]
    if place.at == FINISHED:
        return (len(state.tiles), 0, 0, 0)
    section = (place.at > code.head) + (place.at >= code.exit)
    return (place.tile, section, place.step, place.at)
