"""The catalogue of faults: every code with its title, messages and explanation, in one place.

Whoever finds a fault says which code and gives the fields; the words stand in the tables.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from tensorc.ir.entry import Entry, Message
from tensorc.ir.faults_cache import CACHE_FAULTS
from tensorc.ir.faults_call import CALL_FAULTS
from tensorc.ir.faults_program import PROGRAM_FAULTS
from tensorc.ir.faults_schedule import SCHEDULE_FAULTS
from tensorc.ir.faults_text import TEXT_FAULTS
from tensorc.ir.source import Diagnostic, Place

CATALOGUE: Mapping[str, Entry] = (
    TEXT_FAULTS | PROGRAM_FAULTS | CALL_FAULTS | CACHE_FAULTS | SCHEDULE_FAULTS
)


def fault(
    code: str,
    span: Place | None = None,
    *,
    found: str = "",
    allowed: str = "",
    do: str = "",
    related: tuple[tuple[str, Place], ...] = (),
    **fields: object,
) -> Diagnostic:
    """The fault `code` ("E201", or a variant of its message, "E201.call") at `span`.

    `fields` fill the braces of the catalogue's message; `found`, `allowed` and `do`, where given,
    replace the catalogue's. KeyError: an unknown code, variant or a missing field.
    """
    return filled(code, span, fields, Message("", found, allowed, do), related)


def filled(
    code: str,
    span: Place | None,
    fields: Mapping[str, object],
    instead: Message | None = None,
    related: tuple[tuple[str, Place], ...] = (),
) -> Diagnostic:
    """As `fault`, with the fields in a mapping; `instead` holds the lines that replace."""
    main, _, variant = code.partition(".")
    message = message_of(main, variant)
    other = instead or Message("")
    return Diagnostic(
        main,
        message.text.format_map(fields),
        span,
        other.found or message.found.format_map(fields),
        other.allowed or message.allowed.format_map(fields),
        other.do or message.do.format_map(fields),
        related,
    )


def message_of(code: str, variant: str = "") -> Message:
    """The message of a code, or the named variant of it."""
    entry = CATALOGUE[code]
    return entry.others[variant] if variant else entry.message


def explain(code: str) -> str:
    """What `code` ("E215", "TC-E215") means, with a program that has the fault and one without.

    KeyError: no such code.
    """
    name = code.upper().removeprefix("TC-")
    entry = CATALOGUE[name]
    pieces = [f"TC-{name}: {entry.title}", textwrap.fill(entry.why, 80)]
    if entry.wrong:
        pieces.append("Wrong:\n" + _indented(entry.wrong))
    if entry.right:
        pieces.append("Right:\n" + _indented(entry.right))
    return "\n\n".join(pieces) + "\n"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.strip("\n").split("\n"))
