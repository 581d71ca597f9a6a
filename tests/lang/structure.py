"""Surface trees as prefix text, so that tests compare structure without spans."""

from __future__ import annotations

from tensorc.ir.syntax import (
    Access,
    Binding,
    Call,
    Chain,
    Constant,
    Convert,
    Name,
    Reduction,
    SizeOf,
    Syntax,
)
from tensorc.lang.surface import Constants, Statement


def shape(item: Syntax) -> str:
    """The tree as prefix text, `add(a, mul(b, 2))`, so that structure is seen without spans."""
    match item:
        case Constant(literal):
            return str(literal.value)
        case Name(name):
            return name
        case SizeOf(name):
            return f"|{name}|"
        case Access(name, subscripts):
            return f"{name}[{', '.join(map(shape, subscripts))}]"
        case Call(name, args):
            return f"{name}({', '.join(map(shape, args))})"
        case Chain(operators, args):
            return f"chain<{' '.join(operators)}>({', '.join(map(shape, args))})"
        case Convert(dtype, arg, bits):
            return f"{'bits ' if bits else ''}{dtype}({shape(arg)})"
        case Reduction(reducer, bindings, dtype, body, where):
            after = f" where {shape(where)}" if where else ""
            typed = f", {dtype}" if dtype else ""
            return f"{reducer}[{_bound(bindings)}{typed}]({shape(body)}{after})"


def _bound(bindings: tuple[Binding, ...]) -> str:
    return ", ".join(b.name + (f"={shape(b.size)}" if b.size else "") for b in bindings)


def statement(item: Statement) -> str:
    """`name: dtype[indices] = body`."""
    dtype = f": {item.dtype}" if item.dtype else ""
    return f"{item.name}{dtype}[{_bound(item.left)}] = {shape(item.body)}"


def table(item: Constants) -> str:
    """The nested rows of a table."""
    return f"table {_rows([shape(entry) for entry in item.entries], item.shape)}"


def _rows(entries: list[str], dims: tuple[int, ...]) -> str:
    if not dims:
        return entries[0]
    step = len(entries) // dims[0]
    rows = [_rows(entries[k * step : (k + 1) * step], dims[1:]) for k in range(dims[0])]
    return f"[{', '.join(rows)}]"
