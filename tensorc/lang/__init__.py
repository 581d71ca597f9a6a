"""The language: its surfaces, and the checker that turns them into level-1 programs."""

from __future__ import annotations

from tensorc.ir.source import Source
from tensorc.ir.tensor import Program


def read(text: str | Source, name: str = "<string>") -> list[Program]:
    """The programs of a `.tc` text, parsed and checked, in order.

    `name` is what messages call a text given as a string. NotationError: all faults at once.
    """
    from tensorc.lang.check import check
    from tensorc.lang.parse import parse_file

    return check(parse_file(text if isinstance(text, Source) else Source(name, text)))
