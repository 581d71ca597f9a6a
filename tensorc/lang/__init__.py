"""The language: its surfaces, and the checker that turns them into level-1 programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorc.ir.source import Source
from tensorc.ir.tensor import Program

if TYPE_CHECKING:
    from tensorc.lang.parse import Limits


def read(text: str | Source, name: str = "<string>", limits: Limits | None = None) -> list[Program]:
    """The programs of a `.tc` text, parsed and checked, in order.

    `name` is what messages call a text given as a string; `limits` how large it may be.
    NotationError: all faults at once.
    """
    from tensorc.lang.check import check
    from tensorc.lang.parse import Limits, parse_file

    source = text if isinstance(text, Source) else Source(name, text)
    return check(parse_file(source, limits or Limits()))
