"""What the catalogue of faults is made of: a code's title, its messages, its explanation.

The entries stand in `faults_text`, `faults_program` and `faults_call`; `diagnostics` fills them in.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Message:
    """One sentence with fields in braces, and the lines below it, with the same fields."""

    text: str
    found: str = ""
    allowed: str = ""
    do: str = ""


@dataclass(frozen=True)
class Entry:
    """A code: what it is in a few words, why it is a fault, and its messages.

    `message` is what most of its faults say; `others` are named variants, used as `E201.call`.
    `wrong` and `right` are a pair of short programs in the language, shown by `explain`.
    """

    title: str
    why: str
    message: Message
    others: dict[str, Message] = field(default_factory=dict[str, Message])
    wrong: str = ""
    right: str = ""
