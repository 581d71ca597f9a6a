"""The section on what is left for the call: size conditions, and subscripts that hold data."""

from __future__ import annotations

from tensorc.explain.subject import Section, Subject


def at_the_call(subject: Subject) -> Section | None:
    """What could not be proved for all sizes and all data."""
    from tensorc.ir.print_tensor import show

    program = subject.program
    conditions = [item.what for item in program.conditions]
    checks = [f"{show(item.read)}, dimension {item.axis}" for item in program.checks]
    if not conditions and not checks:
        return None
    lines = [f"decided at the call: {item}" for item in conditions]
    lines += [f"compared while running: {item}" for item in checks]
    return Section("ranges", tuple(lines), {"conditions": conditions, "checked_reads": checks})
