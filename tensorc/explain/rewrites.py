"""The section on rewriting: the chain of rules, and the program after each."""

from __future__ import annotations

from tensorc.explain.passes import changes
from tensorc.explain.subject import Section, Step, Subject
from tensorc.ir.print_tensor import show_program
from tensorc.ir.strict_json import Json
from tensorc.ir.tensor import Program


def rewrites(subject: Subject) -> Section | None:
    """Every rule in order with its law, and the lines of the program that it took away and wrote;
    None where nothing was rewritten."""
    from tensorc.passes.algebra.chain import explain_rewrite

    lines: list[str] = []
    data: list[Json] = []
    for done in subject.steps:
        before = done.before
        if done.name != "saturate" or done.after is before or not isinstance(before, Program):
            continue
        for number, step in enumerate(explain_rewrite(before, subject.sizes), start=1):
            way = ", from right to left" if step.backwards else ""
            lines.append(f"{number}. {step.rule}{way}: {step.law}")
            if step.program is not None:
                shown = Step("", "", before, step.program)
                lines += [f"     {line}" for line in changes(shown)]
                before = step.program
            text = None if step.program is None else show_program(step.program)
            data.append({"rule": step.rule, "law": step.law, "backwards": step.backwards,
                         "program": text})  # fmt: skip
    return Section("rewrites", tuple(lines), data) if lines else None
