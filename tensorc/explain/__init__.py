"""Why a kernel is as it is: `tensorc explain FILE.tc` and `kernel.report`.

A report is a list of sections. Each is a function of a file of its own, from the compile that it
explains to lines and data, or None where there is nothing to say. A pass that decides something
says so here: write the function and add it to `SECTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tensorc.explain.calls import at_the_call
from tensorc.explain.costs import costs
from tensorc.explain.hints import hints
from tensorc.explain.kernels import kernels
from tensorc.explain.numerics import numerics
from tensorc.explain.passes import passes
from tensorc.explain.rewrites import rewrites
from tensorc.explain.subject import Section, Step, Subject
from tensorc.ir.strict_json import Json

__all__ = ["SECTIONS", "Report", "Section", "Step", "Subject", "report"]

SECTIONS: tuple[Callable[[Subject], Section | None], ...] = (
    passes,
    rewrites,
    kernels,
    costs,
    numerics,
    at_the_call,
    hints,
)


@dataclass(frozen=True)
class Report:
    """What `str()` prints and notebooks show; `sections` for those who look for one thing."""

    title: str
    sections: tuple[Section, ...]

    def __str__(self) -> str:
        parts = [self.title]
        for section in self.sections:
            parts += ["", section.title, *(f"  {line}".rstrip() for line in section.lines)]
        return "\n".join(parts)

    def __repr__(self) -> str:
        return f"<report: {self.title}; {', '.join(item.title for item in self.sections)}>"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    @property
    def data(self) -> dict[str, Json]:
        """The same as JSON: the title, and the data of each section under its title."""
        return {"title": self.title, **{item.title: item.data for item in self.sections}}


def report(subject: Subject) -> Report:
    """All sections that have something to say."""
    made = [section(subject) for section in SECTIONS]
    return Report(_title(subject), tuple(item for item in made if item is not None))


def _title(subject: Subject) -> str:
    sizes = ", ".join(f"{name}={size}" for name, size in subject.sizes.items())
    at = f" at {sizes}" if sizes else ", any sizes"
    return f"{subject.program.name} for {subject.machine}{at}"
