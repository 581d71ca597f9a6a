"""The section on costs: operations, bytes, temporaries. Counts, no times."""

from __future__ import annotations

from tensorc.explain.subject import Section, Subject
from tensorc.ir.polynomial import symbols


def costs(subject: Subject) -> Section:
    """The counts of `passes.tiling.audit` at the sizes given, or which sizes are missing."""
    from tensorc.passes.tiling.audit import audit

    tiles, missing = subject.tiles, _missing(subject)
    if missing:
        names = ", ".join(f"{name}=..." for name in missing)
        return Section("costs", (f"counted where all sizes are known: give {names}",), None)
    found = audit(tiles, subject.sizes)
    per_byte = found.operations / max(1, found.bytes)
    lines = (
        f"{found.operations:,} operations, {found.loads:,} elements read",
        f"{found.bytes:,} bytes have to move: {per_byte:.2f} operations a byte",
        f"{found.temporaries:,} bytes of temporaries{_named(subject)}",
    )
    data = {
        "kernels": found.kernels, "operations": found.operations, "bytes": found.bytes,
        "loads": found.loads, "temporaries": found.temporaries,
    }  # fmt: skip
    return Section("costs", lines, data)


def _named(subject: Subject) -> str:
    names = [tensor.name for tensor in subject.tiles.workspaces]
    return f" ({', '.join(names)})" if names else ""


def _missing(subject: Subject) -> list[str]:
    """Extents, and `const` integers that sizes use, that are neither given nor follow."""
    tiles, found = subject.tiles, dict[str, None]()
    written = [t.shape for t in tiles.workspaces] + [o.tensor.shape for o in tiles.outputs]
    sizes = [size for _, size in tiles.extents] + [size for shape in written for size in shape]
    for symbol in (item for size in sizes for item in symbols(size)):
        if symbol.name not in subject.sizes:
            found[symbol.name] = None
    return list(found)
