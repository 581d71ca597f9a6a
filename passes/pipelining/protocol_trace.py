"""Traces of the transition system in `protocol`: a real run through given normal forms."""

from __future__ import annotations

from collections.abc import Iterator

from tensorc.ir.channel import Done, Get, Put
from tensorc.ir.trace import Entry
from tensorc.passes.pipelining.protocol import FINISHED, Fault, Place, State, Step, System, initial
from tensorc.passes.pipelining.protocol_moves import every_move
from tensorc.passes.pipelining.protocol_normal import normal


def replay(system: System, path: list[State], fault: Fault) -> tuple[Entry, ...]:
    """A run through the normal forms of `path`, then into `fault`.

    Normal forms forget which of several like roles is which and count elements from anywhere; the
    run is made of real states, so each entry names the right role and element.
    """
    state = next(s for s in initial(system) if normal(system, s) == path[0])
    entries = list[Entry]()
    for form in path[1:]:
        step, after = next(_leading(system, state, form))
        entries.append(_entry(system, state, step))
        state = after
    for step in every_move(system, state):
        if isinstance(step.after, Fault) and step.after.rule == fault.rule:
            entries.append(_entry(system, state, step))
            break
    return (*entries, *_waiting(system, state, fault))


def _leading(system: System, state: State, form: State) -> Iterator[tuple[Step, State]]:
    for step in every_move(system, state):
        if isinstance(step.after, State) and normal(system, step.after) == form:
            yield step, step.after


def _entry(system: System, state: State, step: Step) -> Entry:
    for code, place in zip(system.codes, state.places, strict=True):
        if code.name == step.agent:
            return Entry(step.agent, step.text + _number(system, state, place, step.agent))
    return Entry(step.agent, step.text)


def _number(system: System, state: State, place: Place, agent: str) -> str:
    """Which element of the kernel, counted over all tiles, an event is about."""
    code = next(code for code in system.codes if code.name == agent)
    event = code.events[place.at]
    if event is None:
        return ""
    match event.item:
        case Put():
            return f"  #{state.channels[event.target].put}"
        case Get():
            return f"  #{place.holdings[code.gets.index(event.target)].got}"
        case Done():
            holding = place.holdings[code.gets.index(event.target)]
            return f"  #{holding.done + holding.deferred}"
        case _:
            return ""


def _waiting(system: System, state: State, fault: Fault) -> Iterator[Entry]:
    """At a deadlock, what each role waits at."""
    if fault.rule != "P1":
        return
    for code, place in zip(system.codes, state.places, strict=True):
        event = code.events[place.at] if place.at != FINISHED else None
        if event:
            number = _number(system, state, place, code.name)
            yield Entry(code.name, f"{event.text}{number}  waits")
