"""Operands of a call by the names of the parameters."""

from __future__ import annotations

from collections.abc import Mapping

from tensorc.ir.tensor import Program


def by_name(
    program: Program, operands: tuple[object, ...], named: Mapping[str, object]
) -> dict[str, object]:
    """Operands by the names of the parameters, as Python binds a call. TypeError: they are missing,
    unknown, too many or given twice."""
    names = [item.tensor.name for item in program.parameters]
    call = f"{program.name}({', '.join(names)})"
    if len(operands) > len(names):
        raise TypeError(f"{call} takes {len(names)} operands, {len(operands)} given")
    given = dict(zip(names, operands, strict=False))
    for name, value in named.items():
        if name not in names or name in given:
            raise TypeError(f"{call}: {name} is {'given twice' if name in names else 'unknown'}")
        given[name] = value
    missing = [name for name in names if name not in given]
    if missing:
        raise TypeError(f"{call}: {', '.join(missing)} not given")
    return given
