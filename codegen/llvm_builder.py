"""Text of one LLVM function in SSA form, built region by region.

A region is the straight-line part of one loop body (region 0: the function's). An instruction goes
into the deepest region among its operands', so loop-invariant code stands outside loops without a
pass over the text: each region keeps an insertion list that lies before the loop opened last in it.
No instruction emitted here traps, so running it early is harmless.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tensorc.codegen.llvm_types import Operand, constant, element_type, llvm_type, suffix
from tensorc.ir.dtypes import F32, F64, I64, DType

Lines = list["str | Lines"]


@dataclass
class Region:
    """One loop body, and the index whose blocks or lanes it runs over."""

    depth: int
    index: str | None
    tail: Lines
    known: dict[object, Operand] = field(default_factory=dict[object, Operand])
    texts: dict[str, str] = field(default_factory=dict[str, str])


class Builder:
    """Emits instructions, loops and declarations; knows nothing of tensors."""

    def __init__(self, contract: bool) -> None:
        self.lines: Lines = []
        self.regions = [Region(0, None, self.lines)]
        self.declarations: dict[str, str] = {}
        self.functions: dict[str, str] = {}  # definitions of functions that are called
        self.label = "work"  # the function's own first block, behind what prepares its memory
        self.count = 0
        self.flags = "contract " if contract else ""

    @property
    def depth(self) -> int:
        """The depth of the innermost open region."""
        return len(self.regions) - 1

    def fresh(self, stem: str = "v") -> str:
        """A new name, without its sigil."""
        self.count += 1
        return f"{stem}{self.count}"

    def emit(self, text: str, depth: int) -> None:
        """One instruction without a result."""
        self.regions[depth].tail.append(f"  {text}")

    def texts_forgotten(self) -> None:
        """Another branch begins: values of the one before are not there."""
        for region in self.regions:
            region.texts.clear()
            region.known.clear()

    def mark(self, label: str) -> None:
        """Start a basic block in the innermost region."""
        self.regions[-1].tail.append(f"{label}:")
        self.label = label

    def result(self, text: str, dtype: DType, lanes: int, depth: int) -> Operand:
        """One instruction with a result."""
        return Operand(self.raw(text, depth), dtype, lanes, depth)

    def raw(self, text: str, depth: int, pure: bool | None = None) -> str:
        """The result's name alone, for types outside the language (bits, pointers).

        Operands are names of values, so equal text is an equal value: what does not read memory
        is emitted once per region. `pure`: whether that is so; None: unless it loads or calls.
        """
        pure = not text.startswith(("load", "call")) if pure is None else pure
        if pure:
            for region in self.regions[: depth + 1]:
                if text in region.texts:
                    return region.texts[text]
        name = f"%{self.fresh()}"
        self.emit(f"{name} = {text}", depth)
        if pure:
            self.regions[depth].texts[text] = name
        return name

    def const(self, value: object, dtype: DType) -> Operand:
        """A scalar constant."""
        return Operand(constant(value, dtype), dtype, 1, 0)  # type: ignore[arg-type]

    def splat(self, operand: Operand, lanes: int) -> Operand:
        """The same value in every lane."""
        if operand.lanes == lanes:
            return operand
        if not operand.ref.startswith("%"):
            return Operand(f"splat ({operand})", operand.dtype, lanes, 0)
        element = element_type(operand.dtype)
        one = self.raw(
            f"insertelement <{lanes} x {element}> poison, {operand}, i64 0", operand.depth
        )
        return self.result(
            f"shufflevector <{lanes} x {element}> {one}, <{lanes} x {element}> poison, "
            f"<{lanes} x i32> zeroinitializer",
            operand.dtype, lanes, operand.depth,
        )  # fmt: skip

    def level(self, operands: Sequence[Operand]) -> tuple[list[Operand], int, int]:
        """The operands with equal lanes, the number of lanes, and the depth of the result."""
        lanes = max(operand.lanes for operand in operands)
        same = [self.splat(operand, lanes) for operand in operands]
        return same, lanes, max(operand.depth for operand in same)

    def op(self, opcode: str, a: Operand, b: Operand, dtype: DType | None = None) -> Operand:
        """A two-operand instruction; `dtype` is the result's where it differs (comparisons)."""
        (a, b), lanes, depth = self.level([a, b])
        return self.result(f"{opcode} {a}, {b.ref}", dtype or a.dtype, lanes, depth)

    def float_op(self, opcode: str, a: Operand, b: Operand) -> Operand:
        """fadd, fsub, fmul, fdiv with the flags that the numerics policy allows."""
        return self.op(f"{opcode} {self.flags}".rstrip(), a, b)

    def convert(self, opcode: str, a: Operand, dtype: DType) -> Operand:
        """A conversion instruction to another type."""
        return self.result(f"{opcode} {a} to {llvm_type(dtype, a.lanes)}", dtype, a.lanes, a.depth)

    def select(self, condition: Operand, yes: Operand, no: Operand) -> Operand:
        """yes where condition, else no."""
        if condition.lanes == 1:
            (yes, no), lanes, depth = self.level([yes, no])
            depth = max(depth, condition.depth)
        else:
            (condition, yes, no), lanes, depth = self.level([condition, yes, no])
        return self.result(f"select {condition}, {yes}, {no}", yes.dtype, lanes, depth)

    def intrinsic(
        self, name: str, args: Sequence[Operand], dtype: DType | None = None, extra: str = ""
    ) -> Operand:
        """A call of llvm.`name`, mangled over the first argument; `extra`: constant arguments."""
        same, lanes, depth = self.level(args)
        kind = dtype or same[0].dtype
        callee = f"llvm.{name}.{suffix(same[0].dtype, lanes)}"
        types = ", ".join(operand.type for operand in same) + (", i1" if extra else "")
        self.declare(callee, llvm_type(kind, lanes), types)
        values = ", ".join(map(str, same)) + (f", i1 {extra}" if extra else "")
        text = f"call {llvm_type(kind, lanes)} @{callee}({values})"
        return Operand(self.raw(text, depth, True), kind, lanes, depth)

    def declare(self, name: str, result: str, args: str) -> None:
        """Remember an external function."""
        self.declarations[name] = f"declare {result} @{name}({args})"

    def each_lane(self, name: str, args: Sequence[Operand], dtype: DType) -> Operand:
        """Call the scalar function `name` lane by lane."""
        same, lanes, depth = self.level(args)
        element = element_type(dtype)
        self.declare(name, element, ", ".join(element_type(arg.dtype) for arg in same))
        if lanes == 1:
            values = ", ".join(map(str, same))
            return self.result(f"call {element} @{name}({values})", dtype, 1, depth)
        total = "poison"
        for lane in range(lanes):
            parts = [self.raw(f"extractelement {arg}, i64 {lane}", depth) for arg in same]
            values = ", ".join(
                f"{element_type(arg.dtype)} {part}" for arg, part in zip(same, parts, strict=True)
            )
            one = self.raw(f"call {element} @{name}({values})", depth)
            total = self.raw(
                f"insertelement <{lanes} x {element}> {total}, {element} {one}, i64 {lane}", depth
            )
        return Operand(total, dtype, lanes, depth)

    def add(self, a: Operand, b: Operand) -> Operand:
        """i64 addition, folded where both are constants or one is zero."""
        m, n = integer_of(a), integer_of(b)
        if m is not None and n is not None:
            return self.const(m + n, I64)
        if m == 0:
            return b
        return a if n == 0 else self.op("add", a, b)

    def mul(self, a: Operand, b: Operand) -> Operand:
        """i64 multiplication, folded where both are constants or one is 0 or 1."""
        m, n = integer_of(a), integer_of(b)
        if m is not None and n is not None:
            return self.const(m * n, I64)
        if m == 0 or n == 0:
            return self.const(0, I64)
        if m == 1:
            return b
        return a if n == 1 else self.op("mul", a, b)

    def extreme(self, which: str, a: Operand, b: Operand) -> Operand:
        """The "min" or "max" of two i64, folded where both are constants or the same."""
        m, n = integer_of(a), integer_of(b)
        if m is not None and n is not None:
            return self.const(min(m, n) if which == "min" else max(m, n), I64)
        return a if a.ref == b.ref else self.intrinsic(f"s{which}", [a, b])

    def minus(self, a: Operand, b: Operand) -> Operand:
        """i64 subtraction, folded where both are constants or the second is zero."""
        m, n = integer_of(a), integer_of(b)
        if m is not None and n is not None:
            return self.const(m - n, I64)
        return a if n == 0 else self.op("sub", a, b)

    def iota(self, lanes: int, dtype: DType = I64) -> Operand:
        """<0, 1, 2, ...> of an integer type."""
        numbers = ", ".join(f"{element_type(dtype)} {lane}" for lane in range(lanes))
        return Operand(f"<{numbers}>", dtype, lanes, 0)

    def open_loop(
        self, index: str | None, step: int, lower: Operand, upper: Operand,
        carried: Sequence[Operand] = (),
    ) -> OpenLoop:  # fmt: skip
        """Start a loop in the innermost region; every carried value becomes a phi."""
        outer = self.regions[-1]
        head, body, done = self.fresh("head"), self.fresh("body"), self.fresh("done")
        before: Lines = []
        outer.tail.append(before)
        outer.tail.append(f"  br label %{head}")
        phis: Lines = []
        base = Operand(f"%{self.fresh('i')}", I64, 1, self.depth + 1)
        values = [
            Operand(f"%{self.fresh('c')}", item.dtype, item.lanes, self.depth + 1)
            for item in carried
        ]
        test = self.fresh("t")
        inside: Lines = []
        outer.tail.extend(
            [f"{head}:", phis, f"  %{test} = icmp slt i64 {base.ref}, {upper.ref}",
             f"  br i1 %{test}, label %{body}, label %{done}", f"{body}:", inside]
        )  # fmt: skip
        loop = OpenLoop(
            head, done, self.label, base, lower, step, values, list(carried), phis, outer.tail
        )
        outer.tail = before
        self.regions.append(Region(self.depth + 1, index, inside))
        self.label = body
        return loop

    def close_loop(self, loop: OpenLoop, following: Sequence[Operand] = ()) -> list[Operand]:
        """End the loop; returns the carried values after it."""
        region = self.regions.pop()
        region.tail.append(f"  %{loop.base.ref[1:]}n = add i64 {loop.base.ref}, {loop.block}")
        region.tail.append(f"  br label %{loop.head}")
        loop.phis.append(
            f"  {loop.base.ref} = phi i64 [ {loop.lower.ref}, %{loop.before} ], "
            f"[ {loop.base.ref}n, %{self.label} ]"
        )
        for phi, first, after in zip(loop.values, loop.carried, following, strict=True):
            loop.phis.append(
                f"  {phi.ref} = phi {phi.type} [ {first.ref}, %{loop.before} ], "
                f"[ {after.ref}, %{self.label} ]"
            )
        loop.lines.append(f"{loop.done}:")
        after_loop: Lines = []
        loop.lines.append(after_loop)
        self.regions[-1].tail = after_loop
        self.label = loop.done
        return [Operand(v.ref, v.dtype, v.lanes, self.depth) for v in loop.values]

    def text(self) -> Iterator[str]:
        """The body, line by line."""
        return _flat(self.lines)


def integer_of(operand: Operand) -> int | None:
    """The value of a scalar integer constant, else None."""
    if operand.lanes == 1 and operand.ref.lstrip("-").isdigit():
        return int(operand.ref)
    return None


@dataclass
class OpenLoop:
    """What closing a loop needs."""

    head: str
    done: str
    before: str
    base: Operand
    lower: Operand
    block: int
    values: list[Operand]
    carried: list[Operand]
    phis: Lines
    lines: Lines


def _flat(lines: Lines) -> Iterator[str]:
    stack: list[Iterator[str | Lines]] = [iter(lines)]
    while stack:
        for item in stack[-1]:
            if isinstance(item, str):
                yield item
            else:
                stack.append(iter(item))
                break
        else:
            stack.pop()


def float_name(dtype: DType, stem: str) -> str:
    """The C library's name of a float function for a type: `expf`, `exp`."""
    return stem + {F32: "f", F64: ""}[dtype]
