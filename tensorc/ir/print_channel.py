"""Level 3 as text, which `read_channel` turns back into the same kernel.

    kernel gemm for sm_90a, persistent
      ring A: 16384 bytes x 4 in shared at 0, by copy, full 1 + 16384 bytes, empty 2
      token go0: turn of consumer0 on tensor, barrier 1, given 1
      area O: 32768 bytes in shared at 131072
      hold c: c'
      body mma: c' on m 0..64
      role load: 1 warp, 24 registers
        steady i from 0
          put A[i] = a()
      role consumer0: 4 warps, 240 registers
        prologue
          c[-1] = start()
        steady i from 0
          get A[i]
          c[i] = mma(A[i], c[i - 1]) in flight on tensor
        epilogue
          wait 0 on tensor
          when [0] exists
            done A[T - 1]

What follows `#` on a line is a comment.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorc.ir.channel import (
    At,
    Body,
    Call,
    Done,
    Get,
    Kernel,
    Pass,
    Perform,
    Put,
    Read,
    Result,
    Ring,
    Role,
    Statement,
    Token,
    Turn,
    Wait,
    When,
)


def print_channel(kernel: Kernel) -> str:
    """The whole kernel, one statement a line."""
    return "\n".join(_kernel(kernel)) + "\n"


def _kernel(kernel: Kernel) -> Iterator[str]:
    kind = ", persistent" if kernel.persistent else ""
    yield f"kernel {kernel.name} for {kernel.machine}{kind}{_totals(kernel)}"
    for ring in kernel.rings:
        yield f"  {print_ring(ring)}"
    for token in kernel.tokens:
        yield f"  {print_token(token)}"
    for area in kernel.areas:
        yield f"  area {area.name}: {area.bytes} bytes in {area.memory} at {area.offset}"
    for item in kernel.holds:
        yield f"  hold {item.name}: {', '.join(item.tiles)}"
    for body in kernel.bodies:
        yield f"  {print_body(body)}"
    for role in kernel.roles:
        yield from _role(role)


def print_body(body: Body) -> str:
    """What an operation does, `body r.0: s, r' on m 0..64`."""
    spans = ", ".join(f"{w.index} {w.first}..{w.first + w.count}" for w in body.windows)
    where = f" on {spans}" if spans else ""
    return f"body {body.operation}: {', '.join(body.statements)}{where}"


def _totals(kernel: Kernel) -> str:
    """A comment with the threads and the bytes of each memory."""
    sizes = [(ring.memory, ring.bytes * ring.depth) for ring in kernel.rings]
    sizes += [(area.memory, area.bytes) for area in kernel.areas]
    sums = [
        f"{sum(size for memory, size in sizes if memory == name):,} bytes of {name}"
        for name in dict.fromkeys(memory for memory, _ in sizes)
    ]
    return "  # " + ", ".join([f"{32 * sum(r.warps for r in kernel.roles)} threads", *sums])


def print_ring(ring: Ring) -> str:
    """A ring's declaration."""
    full = f"{ring.full_arrivals}" + (f" + {ring.full_bytes} bytes" if ring.full_bytes else "")
    per = " per tile" if ring.per == "tile" else ""
    return (
        f"ring {ring.name}: {ring.bytes} bytes x {ring.depth}{per} in {ring.memory} at "
        f"{ring.offset}, by {ring.fill}, full {full}, empty {ring.empty_arrivals}"
    )


def print_token(token: Token) -> str:
    """A token's declaration."""
    given = f", given {token.given}" if token.given else ""
    where = f"turn of {token.taker} on {token.unit}, barrier {token.barrier}"
    return f"token {token.name}: {where}{given}"


def _role(role: Role) -> Iterator[str]:
    warps = "1 warp" if role.warps == 1 else f"{role.warps} warps"
    yield f"  role {role.name}: {warps}, {role.registers} registers"
    if role.prologue:
        yield "    prologue"
        yield from _body(role.prologue, 6)
    yield f"    steady i from {role.first}"
    yield from _body(role.steady, 6)
    if role.epilogue:
        yield "    epilogue"
        yield from _body(role.epilogue, 6)


def _body(body: tuple[Statement, ...], indent: int) -> Iterator[str]:
    for item in body:
        yield " " * indent + print_statement(item)
        if isinstance(item, When):
            yield from _body(item.body, indent + 2)


def print_statement(item: Statement) -> str:
    """One statement; of a When its first line."""
    match item:
        case Perform(call, results, flight):
            head = f"{', '.join(_result(r, call.at) for r in results)} = {call.operation}"
            head = head if results else f"do {call.operation}{print_at(call.at)}"
            return head + _reads(call) + (f" in flight on {flight}" if flight else "")
        case Put(ring, call):
            return f"put {ring}{print_at(call.at)} = {call.operation}{_reads(call)}"
        case Get(ring, at):
            return f"get {ring}{print_at(at)}"
        case Done(ring, at, deferred):
            return f"done {ring}{print_at(at)}" + (" on completion" if deferred else "")
        case Turn(token):
            return f"turn {token}"
        case Pass(token):
            return f"pass {token}"
        case Wait(unit, pending):
            return f"wait {pending} on {unit}"
        case When(at, _):
            return f"when {print_at(at)} exists"


def _result(item: Result, at: At) -> str:
    return item.name + print_at(at) + (f" into {item.into}" if item.into != item.name else "")


def _reads(call: Call) -> str:
    return f"({', '.join(print_read(item) for item in call.reads)})"


def print_read(item: Read) -> str:
    """A read as `name[iteration]`."""
    return item.name + print_at(item.at)


def print_at(at: At) -> str:
    """An iteration in brackets; nothing for what happens once per tile."""
    match at.anchor:
        case "tile":
            return ""
        case "start":
            return f"[{at.offset}]"
        case "step":
            return f"[{_shifted('i', at.offset)}]"
        case "end":
            return f"[{_shifted('T', at.offset)}]"


def _shifted(name: str, offset: int) -> str:
    if not offset:
        return name
    return f"{name} {'+' if offset > 0 else '-'} {abs(offset)}"
