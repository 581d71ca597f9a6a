"""Level 3: what each role of a kernel does, and the only place with synchronisation.

A kernel works on tiles of the output; each tile runs one loop of T iterations, pipelined. Every
role (a warp or a warp group) is a sequential program: its prologue, then `steady` for the steps
first <= i < T, then its epilogue. Roles meet in rings (buffers with a full and an empty barrier
per slot) and in order tokens, and nowhere else.

    Kernel(rings, tokens, roles)    Role(prologue, steady, epilogue)
    Statement = Perform | Put | Get | Done | Turn | Pass | Wait | When

A `Call` names an operation instance of the loop problem. What it computes is said by a `Body`,
which names level-2 statements and the lanes that it does them on, and by `Holds`, which tile lies
in a ring or value; a kernel without them leaves that open. Slots and phases are never written; they
follow from counting, see `slot` and `phase`.

What statements become on a GPU:

    put    wait on the slot's empty barrier; then expect the bytes and issue the copy, or let the
           threads fill it, fence for the asynchronous proxy and arrive
    get    wait on the slot's full barrier
    done   arrive on the slot's empty barrier; deferred: a tcgen05.commit to it
    turn, pass    bar.sync, bar.arrive on the named barrier of the role whose turn it is
    wait   wgmma.wait_group, cp.async.bulk.wait_group
    in flight     wgmma (with the fence before it) and its commit_group, a bulk store

Text form: `ir/print_channel.py` and `ir/read_channel.py`; invariants: `ir/verify_channel.py`;
meaning: `ir/interpret_channel.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tensorc.ir.node import Node, node

Anchor = Literal["tile", "start", "step", "end"]
Filling = Literal["copy", "threads", "commit"]
Period = Literal["iteration", "tile"]


@node
class At(Node):
    """An iteration of the loop: `offset` from its start, from the current step, or from its end.

    Printed [2], [i - 1], [T - 1]. Iterations below 0 are the start values of carried values.
    Anchor "tile" is for what happens once per tile, outside the iterations; it prints as nothing.
    """

    anchor: Anchor
    offset: int = 0


ONCE = At("tile")
START, COPY, SIGNAL = BUILTIN = ("start", "copy", "signal")
COMMIT = "commit"


@node
class Read(Node):
    """What an operation reads: the element of a ring, or the value, of iteration `at`."""

    name: str
    at: At


@node
class Call(Node):
    """The instance of `operation` in iteration `at`, and what it reads, in order.

    Three names are not operations of the loop: `start` makes the start value of what it is
    assigned to, `copy` passes on the one thing it reads, `signal` fills a slot with nothing.
    """

    operation: str
    at: At
    reads: tuple[Read, ...] = ()


@node
class Result(Node):
    """A value that an operation makes, in the registers of `into`.

    Values that take each other's place have one `into`; usually it is the value's own name. The
    copy of a value in another role is called value@role.
    """

    name: str
    into: str


@node
class Perform(Node):
    """Do `call`, leaving its `results`, of the same iteration, in registers.

    `flight` names the unit on which an asynchronous operation stays in flight (empty: it is done
    when the statement is). Until a `Wait` retires it, its operands may be read and its results
    written at any time. Flight "commit": no `Wait` retires it, later arrivals that are deferred
    and slots filled by commit follow it.
    """

    call: Call
    results: tuple[Result, ...] = ()
    flight: str = ""


@node
class Put(Node):
    """Wait until the next slot of `ring` is empty, then let `call` fill it: element `call.at`.

    The slot becomes full on its own when the call is done: by the bytes of a copy, by arrivals of
    this role's threads, or by the commit of a tensor-core operation, as the ring says.
    """

    ring: str
    call: Call


@node
class Get(Node):
    """Wait until the next element of `ring`, that of iteration `at`, is full; then hold it."""

    ring: str
    at: At


@node
class Done(Node):
    """Give back the oldest element held of `ring`, that of iteration `at`: arrive on empty.

    `deferred`: the arrival is made by the tensor core when all that this role has issued on it
    before is complete, not by the role's threads now.
    """

    ring: str
    at: At
    deferred: bool = False


@node
class Turn(Node):
    """Wait for this role's turn on a unit, and take it."""

    token: str


@node
class Pass(Node):
    """Give the turn on a unit to the role that takes `token`. Does not wait."""

    token: str


@node
class Wait(Node):
    """Wait until at most `pending` of this role's operations on `unit` are in flight."""

    unit: str
    pending: int


@node
class When(Node):
    """Do `body` if iteration `at` exists, that is, if it is below T."""

    at: At
    body: tuple[Statement, ...]


Statement = Perform | Put | Get | Done | Turn | Pass | Wait | When  # the closed union


@node
class Ring(Node):
    """`depth` slots of `bytes` each from byte `offset` of `memory`, put by one role, in order.

    An element is put once per iteration, or once per tile. A slot is full after `full_arrivals`
    arrivals and `full_bytes` bytes, and empty after `empty_arrivals`. Counting never restarts:
    element number k of the kernel, over all its tiles, lies in slot k % depth.
    """

    name: str
    memory: str
    bytes: int
    offset: int
    depth: int
    fill: Filling
    full_arrivals: int
    full_bytes: int
    empty_arrivals: int
    per: Period = "iteration"


@node
class Token(Node):
    """The turn of role `taker` on `unit`: a named barrier at which others arrive to pass it.

    It starts with `given` turns passed and ends the kernel with as many: whoever emits it lets the
    last giver pass before the first tile and the taker take after the last.
    """

    name: str
    unit: str
    taker: str
    barrier: int
    given: int = 0


@node
class Role(Node):
    """A sequential program for `warps` warps with `registers` registers a thread.

    Per tile: `prologue`; `steady` for each step i in first <= i < T; `epilogue`.
    """

    name: str
    warps: int
    registers: int
    first: int
    prologue: tuple[Statement, ...]
    steady: tuple[Statement, ...]
    epilogue: tuple[Statement, ...]


@node
class Area(Node):
    """`bytes` from byte `offset` of `memory` that no ring uses: storage of what stands after the
    loop, where nothing meets. Each lane belongs to the role whose operation works on it."""

    name: str
    memory: str
    bytes: int
    offset: int


@node
class Window(Node):
    """Lanes [first, first + count) along `index`."""

    index: str
    first: int
    count: int


@node
class Body(Node):
    """What `operation` does: these level-2 statements in order, on the lanes of its `windows`, and
    on all lanes of other indices. A statement is known by the tile that it defines, a store as
    `store.TENSOR`."""

    operation: str
    statements: tuple[str, ...]
    windows: tuple[Window, ...] = ()


@node
class Holds(Node):
    """The level-2 tiles that lie in a ring, value or area, one after another.

    A tile `c'` that continues a carry `c` is read as `c` in the next iteration and after the loop.
    The copy value@role of a value in another role holds what the value does.
    """

    name: str
    tiles: tuple[str, ...]


@node
class Kernel(Node):
    """A kernel for one thread block: `persistent` ones work on any number of tiles, else one."""

    name: str
    machine: str
    persistent: bool
    rings: tuple[Ring, ...]
    tokens: tuple[Token, ...]
    roles: tuple[Role, ...]
    areas: tuple[Area, ...] = ()
    holds: tuple[Holds, ...] = ()
    bodies: tuple[Body, ...] = ()


def slot(ring: Ring, number: int) -> int:
    """Where element `number` (counted over the whole kernel) of `ring` lies."""
    return number % ring.depth


def phase(ring: Ring, number: int) -> int:
    """The parity of the full barrier's phase that element `number` completes.

    A getter waits for this parity on the slot's full barrier; a putter waits for the other parity
    on its empty barrier, which a fresh barrier passes (PTX mbarrier.try_wait.parity).
    """
    return number // ring.depth % 2


def iteration(at: At, step: int, trips: int) -> int:
    """The iteration that `at` names in step `step` of a loop of `trips` iterations."""
    match at.anchor:
        case "tile":
            return 0
        case "start":
            return at.offset
        case "step":
            return step + at.offset
        case "end":
            return trips + at.offset


def unfold(role: Role, trips: int) -> Iterator[tuple[Statement, int]]:
    """What `role` does for one tile of `trips` iterations: statements (no When) with their step."""
    for body, step in _sections(role, trips):
        yield from _chosen(body, step, trips)


def _sections(role: Role, trips: int) -> Iterator[tuple[tuple[Statement, ...], int]]:
    yield role.prologue, 0
    for step in range(role.first, trips):
        yield role.steady, step
    yield role.epilogue, trips


def _chosen(body: tuple[Statement, ...], step: int, trips: int) -> Iterator[tuple[Statement, int]]:
    for item in body:
        if not isinstance(item, When):
            yield item, step
        elif iteration(item.at, step, trips) < trips:
            yield from _chosen(item.body, step, trips)


def flatten(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Every statement of `body`, those inside a When as well as the When itself."""
    for item in body:
        yield item
        if isinstance(item, When):
            yield from flatten(item.body)


def statements(role: Role) -> Iterator[Statement]:
    """Every statement of the three sections, in order."""
    for body in (role.prologue, role.steady, role.epilogue):
        yield from flatten(body)
