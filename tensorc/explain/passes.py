"""The section on passes: what each one changed."""

from __future__ import annotations

from difflib import ndiff

from tensorc.explain.subject import Section, Step, Subject
from tensorc.ir.plan import Planned
from tensorc.ir.strict_json import Json
from tensorc.ir.tensor import Program
from tensorc.ir.tile import TileProgram
from tensorc.observe import show

MOST_LINES = 40  # of one pass; TENSORC_DUMP writes all


def passes(subject: Subject) -> Section:
    """Every pass in order, with the lines of the program that it took away and those it wrote."""
    lines: list[str] = []
    data: list[Json] = []
    for step in subject.steps:
        changed = changes(step)
        lines.append(f"{step.name}: {_summary(step)}")
        if step.stopped:
            lines.append(f"  TC-N401 {step.stopped}")
        if step.undecided:
            lines.append(f"  not verified: {step.undecided}")
        shown = changed[:MOST_LINES]
        lines += [f"  {line}" for line in shown]
        if len(changed) > len(shown):
            lines.append(f"  {len(changed) - len(shown)} more lines; TENSORC_DUMP=DIR writes all")
        data.append({"pass": step.name, "purpose": step.purpose, "changed": changed})
    return Section("passes", tuple(lines), data)


def _summary(step: Step) -> str:
    if step.killed:
        return f"changes nothing: its solver was stopped ({step.killed})"
    if isinstance(step.after, TileProgram):
        count = len(step.after.kernels)
        return f"{count} kernel{'s' * (count != 1)}"
    if isinstance(step.after, Planned):
        return "no plan: see fusion" if step.after.plan is None else "a plan: see fusion"
    return step.purpose if show(step.before) != show(step.after) else "changes nothing here"


def changes(step: Step) -> list[str]:
    """The lines of a level-1 program that differ, marked - and +; none for a pass that plans or
    lowers."""
    if not isinstance(step.before, Program) or not isinstance(step.after, Program):
        return []
    before, after = (show(state).splitlines() for state in (step.before, step.after))
    return [line[:2] + line[2:].strip() for line in ndiff(before, after) if line[0] in "-+"]
