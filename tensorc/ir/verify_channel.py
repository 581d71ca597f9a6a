"""The invariants of level 3, each with its number; what can be seen without running roles together.

Declarations: C1 names are unique (rings and values share one kind) and readable,
and a value has one place in registers; C2 what a
statement names is declared, and every ring and token is used; C3 numbers are in range, barrier ids
distinct and slots of one memory disjoint; C4 a ring is put by one role and got by others, full
after its bytes or its one arrival, empty after one arrival for each role that gets it; C5 each
section names iterations from its own anchor, and rings put once per tile are named without one.

Each role alone, for every trip count (`ir/verify_role.py`): C6 it puts, gets and gives back the
elements of a ring in order, each once; C7 it reads what it
holds, or in the tensor core's queue what it has itself put there; C8 it gives back nothing that an
operation in flight still reads; C9 a value read is there, of the iteration named, and a value
written is neither read nor written by an operation in flight, nor ever read by one that no wait
retires; C10 every operation runs once for
each iteration; C11 nothing is left in flight after a tile; C12 its steady state settles.

All roles, for every trip count: C13 only the taker takes a token, others pass it, equally often.

Bodies, if there are any: C14 every operation has one, of statements on lanes, and no other has;
C15 every ring and value holds tiles, save signals and copies of values, and nothing else does.
What they say of level 2 is the matter of `ir/verify_bodies.py`.

Whether roles fit together in time is the matter of `passes/pipelining/check_protocol.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tensorc.ir.channel import (
    BUILTIN,
    At,
    Done,
    Get,
    Kernel,
    Pass,
    Perform,
    Put,
    Result,
    Ring,
    Role,
    Statement,
    Turn,
    Wait,
    When,
    flatten,
    statements,
    unfold,
)
from tensorc.ir.print_channel import print_body, print_statement
from tensorc.ir.verify_role import horizon, verify_role

DEEPEST = 64
"""Most slots of a ring."""

LARGEST = 16
"""Largest first step, distance of an iteration and count of operations in flight in a kernel."""

_NAME = re.compile(r"[^\s,:=()\[\]#]+")


def verify_channel(kernel: Kernel) -> list[str]:
    """All faults of `kernel`; empty if it is well formed.

    Each begins with the number of the invariant and names the statements concerned. C4 and C5 are
    looked at only if C1 to C3 hold, and roles are run only if these hold, too.
    """
    faults = [*_names(kernel), *_references(kernel), *_numbers(kernel)]
    faults = faults or [*_barriers(kernel), *_anchors(kernel)]
    if faults:
        return faults
    for role in kernel.roles:
        faults += verify_role(kernel, role)
    return [*faults, *_tokens(kernel), *_homes(kernel), *_bodies(kernel)]


def _names(kernel: Kernel) -> Iterator[str]:
    values = {v: None for role in kernel.roles for v in results(role)}
    kinds = {
        "ring or value": [*(ring.name for ring in kernel.rings), *values],
        "token": [token.name for token in kernel.tokens],
        "role": [role.name for role in kernel.roles],
    }
    for kind, names in kinds.items():
        for name, count in Counter(names).items():
            if count > 1:
                yield f"C1: {kind} {name} is declared {count} times"
            if not _NAME.fullmatch(name):
                yield f"C1: {kind} {name!r}: a name has none of the characters ' ,:=()[]#'"
    for role in kernel.roles:
        homes = dict[str, str]()
        for result in _results(role):
            if homes.setdefault(result.name, result.into) != result.into:
                places = f"{homes[result.name]} and {result.into}"
                yield f"C1: {role.name}: value {result.name} lies in the registers of {places}"


def results(role: Role) -> list[str]:
    """The values that `role` writes."""
    return list(dict.fromkeys(result.name for result in _results(role)))


def _results(role: Role) -> Iterator[Result]:
    for item in statements(role):
        if isinstance(item, Perform):
            yield from item.results


def _references(kernel: Kernel) -> Iterator[str]:
    rings = {ring.name for ring in kernel.rings}
    tokens = {token.name for token in kernel.tokens}
    used = set[str]()
    for role in kernel.roles:
        values = set(results(role))
        for item in statements(role):
            text = f"{role.name}: `{print_statement(item)}`"
            match item:
                case Put(ring, call):
                    named, known = [ring], rings
                    yield from _unread(text, [r.name for r in call.reads], rings | values)
                case Get(ring, _) | Done(ring, _, _):
                    named, known = [ring], rings
                case Turn(token) | Pass(token):
                    named, known = [token], tokens
                case Perform(call, _, _):
                    named, known = list[str](), rings
                    yield from _unread(text, [r.name for r in call.reads], rings | values)
                case Wait() | When():
                    continue
            used.update(named)
            missing = [name for name in named if name not in known]
            yield from (f"C2: {text}: {name} is not declared" for name in missing)
    yield from (f"C2: {name} is declared and never used" for name in sorted(rings - used))
    yield from (f"C2: {name} is declared and never used" for name in sorted(tokens - used))
    roles = {role.name for role in kernel.roles}
    for token in kernel.tokens:
        if token.taker not in roles:
            yield f"C2: token {token.name}: there is no role {token.taker}"


def _unread(text: str, names: list[str], known: set[str]) -> Iterator[str]:
    for name in names:
        if name not in known:
            yield f"C2: {text}: {name} is no ring and no value of this role"


def _numbers(kernel: Kernel) -> Iterator[str]:
    for ring in kernel.rings:
        if not 1 <= ring.depth <= DEEPEST or ring.bytes < 0 or ring.offset < 0:
            size = f"{ring.bytes} bytes x {ring.depth} at {ring.offset}"
            yield f"C3: ring {ring.name}: {size}; a depth is 1 to {DEEPEST}"
    for role in kernel.roles:
        if role.warps < 1 or not 0 <= role.first <= LARGEST:
            size = f"{role.warps} warps, steady from {role.first}"
            yield f"C3: role {role.name}: {size}; it starts at 0 to {LARGEST}"
        for item in statements(role):
            most = max((abs(at.offset) for at in _iterations(item)), default=0)
            if isinstance(item, Wait):
                most = item.pending if item.pending >= 0 else LARGEST + 1
            if most > LARGEST:
                text = f"{role.name}: `{print_statement(item)}`"
                yield f"C3: {text}: counts and distances are at most {LARGEST}"
    for number, count in Counter(token.barrier for token in kernel.tokens).items():
        if count > 1:
            names = " and ".join(f"`turn {t.name}`" for t in kernel.tokens if t.barrier == number)
            yield f"C3: barrier {number} serves {names}"
    for token in kernel.tokens:
        if not 1 <= token.barrier <= 15 or token.given not in (0, 1):
            yield (
                f"C3: token {token.name}: barrier {token.barrier}, given {token.given}; "
                "a named barrier is 1 to 15 and holds one turn"
            )
    yield from _overlaps(kernel)


def _overlaps(kernel: Kernel) -> Iterator[str]:
    found = [(r.memory, r.offset, r.bytes * r.depth, f"put {r.name}") for r in kernel.rings]
    found += [(a.memory, a.offset, a.bytes, f"area {a.name}") for a in kernel.areas]
    placed = sorted(item for item in found if item[2])
    for one, two in zip(placed, placed[1:], strict=False):
        end = one[1] + one[2]
        if one[0] == two[0] and end > two[1]:
            names = [item[3].partition(" ")[2] for item in (one, two)]
            yield (
                f"C3: `{one[3]}` and `{two[3]}` write the same bytes of {one[0]}: "
                f"{names[0]} ends at {end}, {names[1]} begins at {two[1]}"
            )


def _barriers(kernel: Kernel) -> Iterator[str]:
    for ring in kernel.rings:
        getters = [r.name for r in kernel.roles if any(_of(r, Get, ring.name))]
        yield from _putters(kernel, ring)
        if not getters:
            yield f"C4: `put {ring.name}` fills what no `get {ring.name}` gets"
        elif ring.empty_arrivals != len(getters):
            yield (
                f"C4: `put {ring.name}` waits for {ring.empty_arrivals} arrivals, "
                f"`done {ring.name}` makes {len(getters)} ({', '.join(getters)})"
            )
        yield from _full(ring)


def _putters(kernel: Kernel, ring: Ring) -> Iterator[str]:
    puts = [(r.name, next(_of(r, Put, ring.name), "")) for r in kernel.roles]
    found = [f"{role} does `{text}`" for role, text in puts if text]
    if not found:
        yield f"C4: `get {ring.name}` waits for what no `put {ring.name}` fills"
    elif len(found) > 1:
        yield f"C4: one role fills a ring, but {' and '.join(found)}"


def _full(ring: Ring) -> Iterator[str]:
    expected = ring.bytes if ring.fill == "copy" else 0
    if ring.full_arrivals != 1:
        yield (
            f"C4: `get {ring.name}` waits for {ring.full_arrivals} arrivals, `put {ring.name}` "
            "makes 1"
        )
    if ring.full_bytes != expected:
        yield (
            f"C4: `get {ring.name}` waits for {ring.full_bytes} bytes, `put {ring.name}` by "
            f"{ring.fill} brings {expected}"
        )


def _of(role: Role, kind: type[Put] | type[Get], ring: str) -> Iterator[str]:
    """The role's statements of a kind on a ring."""
    for item in statements(role):
        if isinstance(item, kind) and item.ring == ring:
            yield print_statement(item)


def _anchors(kernel: Kernel) -> Iterator[str]:
    rings = {ring.name: ring for ring in kernel.rings}
    for role in kernel.roles:
        sections = {
            "prologue": (role.prologue, ("tile", "start")),
            "steady": (role.steady, ("tile", "step")),
            "epilogue": (role.epilogue, ("tile", "start", "end")),
        }
        for name, (body, allowed) in sections.items():
            for item in flatten(body):
                text = f"C5: {role.name}, {name}: `{print_statement(item)}`"
                if any(at.anchor not in allowed for at in _iterations(item)):
                    yield f"{text} names an iteration that this section does not have"
                yield from _period(text, item, rings, name)


def _iterations(item: Statement) -> list[At]:
    match item:
        case Perform(call, _, _) | Put(_, call):
            return [call.at, *(read.at for read in call.reads)]
        case Get(_, at) | Done(_, at, _) | When(at, _):
            return [at]
        case Turn() | Pass() | Wait():
            return []


def _period(text: str, item: Statement, rings: dict[str, Ring], section: str) -> Iterator[str]:
    match item:
        case Put(ring, call):
            own, reads = [(ring, call.at)], call.reads
        case Get(ring, at) | Done(ring, at, _):
            own, reads = [(ring, at)], ()
        case Perform(call, _, _):
            own, reads = list[tuple[str, At]](), call.reads
        case Turn() | Pass() | Wait() | When():
            return
    for name, at in [*own, *((read.name, read.at) for read in reads if read.name in rings)]:
        once = rings[name].per == "tile"
        if (at.anchor == "tile") != once:
            yield f"{text}: {name} is put once per {'tile' if once else 'iteration'}"
    for name, _ in own:
        if section == "steady" and rings[name].per == "tile":
            yield f"{text} repeats in every step what happens once per tile"


def _tokens(kernel: Kernel) -> Iterator[str]:
    for token in kernel.tokens:
        for role in kernel.roles:
            for item in statements(role):
                match item:
                    case Turn(name) if name == token.name and role.name != token.taker:
                        yield f"C13: {role.name}: `turn {name}`: only {token.taker} takes it"
                    case Pass(name) if name == token.name and role.name == token.taker:
                        yield f"C13: {role.name}: `pass {name}`: its taker cannot pass it"
                    case _:
                        pass
    for trips in range(horizon(kernel) + 1):
        counts = Counter(s for role in kernel.roles for s, _ in unfold(role, trips))
        for token in kernel.tokens:
            turns, passes = counts[Turn(token.name)], counts[Pass(token.name)]
            if turns != passes:
                yield (
                    f"C13: with T = {trips}, `turn {token.name}` happens {turns} times and "
                    f"`pass {token.name}` {passes} times"
                )
                break


def _homes(kernel: Kernel) -> Iterator[str]:
    """C10 across roles: an operation has one role."""
    home = dict[str, str]()
    for role in kernel.roles:
        for item in statements(role):
            if isinstance(item, Perform | Put) and item.call.operation not in BUILTIN:
                name = item.call.operation
                if home.setdefault(name, role.name) != role.name:
                    yield f"C10: operation {name} is in roles {home[name]} and {role.name}"


def _bodies(kernel: Kernel) -> Iterator[str]:
    if not (kernel.bodies or kernel.holds):
        return
    items = [i for r in kernel.roles for i in statements(r) if isinstance(i, Perform | Put)]
    calls = {item.call.operation: None for item in items}
    done = Counter(body.operation for body in kernel.bodies)
    for name in dict.fromkeys((*calls, *done)):
        if done[name] != int(name in calls and name not in BUILTIN):
            yield f"C14: operation {name} has {done[name]} bodies, calls of it: {name in calls}"
    for body in kernel.bodies:
        if any(w.first < 0 or w.count < 1 for w in body.windows) or not body.statements:
            yield f"C14: `{print_body(body)}` does nothing"
    signals = {i.ring for i in items if isinstance(i, Put) and i.call.operation in BUILTIN}
    values = {v for role in kernel.roles for v in results(role) if "@" not in v}
    wanted = ({ring.name for ring in kernel.rings} - signals) | values
    wanted |= {area.name for area in kernel.areas}
    for name, count in Counter(item.name for item in kernel.holds).items():
        if count > 1 or name not in wanted:
            kind = "storage of data" if name in wanted else "no storage of data"
            yield f"C15: {name} holds tiles {count} times and is {kind}"
    for name in sorted(wanted - {item.name for item in kernel.holds}):
        yield f"C15: {name} holds no tile"
