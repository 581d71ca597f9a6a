"""Roles that do the same on other lanes, which one source serves: a team.

    role consumer0   s.0[i] = s.0(Q, K[i])   pass mma.consumer1
    role consumer1   s.1[i] = s.1(Q, K[i])   pass mma.consumer0

True of a team: its roles are neighbours and differ in the number at the end of names, in the lanes
of bodies, which are `part` times a constant further on, and in the names of tokens, each role
taking its own turns and passing those of the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tensorc.ir import channel
from tensorc.ir.channel import Body, Kernel, Pass, Perform, Role, Statement, Turn, When
from tensorc.ir.print_channel import print_statement


def teams(made: Kernel) -> list[tuple[Role, ...]]:
    """The roles of a kernel in order, those alike together."""
    found: list[list[Role]] = []
    for role in made.roles:
        if found and _joins(made, found[-1], role):
            found[-1].append(role)
        else:
            found.append([role])
    return [team for group in found for team in _checked(made, group)]


def steps(made: Kernel, team: tuple[Role, ...]) -> dict[str, int]:
    """Of each index of which a team's roles have lanes each, how far it is from one to the next."""
    if len(team) < 2:
        return {}
    bodies = {body.operation: body for body in made.bodies}
    first, second = ([bodies[o].windows for o in _operations(r, bodies)] for r in team[:2])
    pairs = ((a, b) for ours, theirs in zip(first, second, strict=True)
             for a, b in zip(ours, theirs, strict=True))  # fmt: skip
    return {a.index: b.first - a.first for a, b in pairs}


def plain(text: str, role: Role) -> str:
    """A statement without the number of the role's part."""
    part = part_of(role)
    return text if part is None else re.sub(rf"\.{part}(?=[\[(~, ]|$)", "", text)


def each(texts: Sequence[str]) -> str:
    """What a value is in each role of a team."""
    made = texts[-1]
    for place in reversed(range(len(texts) - 1)):
        made = f"member == {place} ? {texts[place]} : {made}"
    return made


def barrier(verb: str, numbers: Sequence[int], threads: int) -> str:
    """A named barrier, of which each role of a team has its own: numbers are immediates, or ptxas
    would reserve all that there are."""
    calls = [f"tc_bar_{verb}<{number}, {threads}>();" for number in numbers]
    made = calls[-1]
    for place in reversed(range(len(calls) - 1)):
        made = f"if (member == {place}) {calls[place]} else {made}"
    return made


def part_of(role: Role) -> int | None:
    """The number that a role's operations end in; None: there is no such one."""
    names = (i.call.operation for i in channel.statements(role) if isinstance(i, Perform))
    found = {name.rpartition(".")[2] for name in names if name not in channel.BUILTIN}
    (only, *more) = found or {""}
    return int(only) if not more and only.isdigit() else None


def _joins(made: Kernel, team: list[Role], role: Role) -> bool:
    if part_of(role) is None or (part_of(team[0]) or 0) + len(team) != part_of(role):
        return False
    sizes = {(item.warps, item.first) for item in (team[0], role)}
    return len(sizes) == 1 and _lines(made, team[0]) == _lines(made, role)


def _checked(made: Kernel, group: list[Role]) -> Iterator[tuple[Role, ...]]:
    """A team whose lanes and tokens are as they have to be, else its roles one by one."""
    team = tuple(group)
    if len(team) < 2 or (_regular(made, team) and _in_turn(made, team)):
        yield team
    else:
        yield from ((role,) for role in team)


def _lines(made: Kernel, role: Role) -> list[str]:
    """A role's program as it reads for all of its team."""
    sections = (role.prologue, role.steady, role.epilogue)
    return [plain(line, role) for body in sections for line in _texts(made, body)] + [
        str(len(body)) for body in sections
    ]


def _texts(made: Kernel, body: tuple[Statement, ...]) -> Iterator[str]:
    for item in body:
        match item:
            case When(at, inner):
                yield f"when {at} {len(inner)}"
                yield from _texts(made, inner)
            case Turn(token) | Pass(token):
                unit = next(item.unit for item in made.tokens if item.name == token)
                yield f"{type(item).__name__} {unit}"
            case _:
                yield print_statement(item)


def _operations(role: Role, bodies: Mapping[str, Body]) -> list[str]:
    names = [i.call.operation for i in channel.statements(role) if isinstance(i, Perform)]
    return [name for name in names if name in bodies]


def _regular(made: Kernel, team: tuple[Role, ...]) -> bool:
    """Whether lanes move by the same step from role to role, and statements are the same."""
    bodies = {body.operation: body for body in made.bodies}
    moved = steps(made, team)
    for place, role in enumerate(team):
        for name, other in zip(
            _operations(team[0], bodies), _operations(role, bodies), strict=True
        ):
            there = tuple(replace(w, first=w.first + place * moved[w.index])
                          for w in bodies[name].windows)  # fmt: skip
            if bodies[other].windows != there or bodies[name].statements != (
                bodies[other].statements
            ):
                return False
    return True


def _in_turn(made: Kernel, team: tuple[Role, ...]) -> bool:
    """Whether each takes its own turns and passes those of the next, and nobody else does."""
    taker = {token.name: token.taker for token in made.tokens}
    names = [role.name for role in team]
    for place, role in enumerate(team):
        following = names[(place + 1) % len(names)]
        for item in channel.statements(role):
            if isinstance(item, Turn) and taker[item.token] != role.name:
                return False
            if isinstance(item, Pass) and taker[item.token] != following:
                return False
    return True
