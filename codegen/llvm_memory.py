"""Loads and stores as LLVM IR: one element, a run of neighbours or of every other element, or
elements anywhere, in the lanes of a mask. No lane outside its mask touches memory."""

from __future__ import annotations

from tensorc.codegen.llvm_builder import Builder
from tensorc.codegen.llvm_convert import narrowed, nonzero
from tensorc.codegen.llvm_types import Operand, memory_type, register_type, vector_of
from tensorc.ir.dtypes import BOOL, I8, I64, DType


def load(
    b: Builder, base: str, dtype: DType, offset: Operand, step: int, lanes: int,
    mask: Operand | None, least: int,
) -> Operand:  # fmt: skip
    """Stored elements as registers of the storage type, loaded in region `least` or deeper.

    `offset`: in elements from `base`, that of the first lane of a run (lanes `step` elements apart,
    1 or 2), else (`step` 0) of every lane. `base` has an element 0 that may be read whatever the
    mask says.
    """
    element = memory_type(dtype)
    if lanes == 1:
        return _load_one(b, base, dtype, offset, mask, least)
    depth = max(offset.depth, mask.depth if mask else 0, least)
    kind, align = vector_of(element, lanes), max(1, dtype.bits // 8)
    test = b.splat(mask or b.const(1, BOOL), lanes)
    if step == 2:
        return _load_every_other(b, base, dtype, offset, test, depth)
    if step == 1:
        place = address(b, element, base, offset)
        if mask is None:
            text = f"load {kind}, ptr {place}, align {align}"
        else:
            text = _masked(b, "masked.load", kind, f"ptr {place}", align, test, "p0")
    else:
        spread = b.splat(offset, lanes)
        place = b.raw(f"getelementptr {element}, ptr {base}, {spread.type} {spread.ref}",
                      spread.depth)  # fmt: skip
        pointers = f"<{lanes} x ptr> {place}"
        text = _masked(b, "masked.gather", kind, pointers, align, test, f"v{lanes}p0")
    return _from_memory(b, b.raw(text, depth), dtype, lanes, depth)


def _load_every_other(
    b: Builder, base: str, dtype: DType, offset: Operand, test: Operand, depth: int
) -> Operand:
    """Twice the lanes, of which the even ones are loaded and kept."""
    element, lanes = memory_type(dtype), test.lanes
    twice, place = vector_of(element, 2 * lanes), address(b, element, base, offset)
    wide = _masked(b, "masked.load", twice, f"ptr {place}", dtype.bits // 8, _spread(b, test), "p0")
    kept = ", ".join(f"i32 {2 * lane}" for lane in range(lanes))
    text = f"shufflevector {twice} {b.raw(wide, depth)}, {twice} poison, <{lanes} x i32> <{kept}>"
    return _from_memory(b, b.raw(text, depth), dtype, lanes, depth)


def _spread(b: Builder, test: Operand) -> Operand:
    """A mask on the even ones of twice the lanes; the odd ones are off."""
    lanes = test.lanes
    places = ", ".join(f"i32 {lane}, i32 {lanes}" for lane in range(lanes))
    text = f"shufflevector {test}, {test.type} zeroinitializer, <{2 * lanes} x i32> <{places}>"
    return b.result(text, BOOL, 2 * lanes, test.depth)


def _load_one(
    b: Builder, base: str, dtype: DType, offset: Operand, mask: Operand | None, least: int
) -> Operand:
    """Under a guard the address is moved to element 0, which every buffer has."""
    element = memory_type(dtype)
    if mask is not None:
        offset = b.select(mask, offset, b.const(0, I64))
    place = address(b, element, base, offset)
    depth = max(offset.depth, least)
    raw = b.raw(f"load {element}, ptr {place}, align {max(1, dtype.bits // 8)}", depth)
    return _from_memory(b, raw, dtype, 1, depth)


def _masked(
    b: Builder, name: str, kind: str, place: str, align: int, test: Operand, pointer: str
) -> str:
    """A masked load or gather; lanes outside the mask are zero."""
    callee = f"llvm.{name}.{_shape(kind)}.{pointer}"
    b.declare(callee, kind, f"{place.rsplit(' ', 1)[0]}, i32, {test.type}, {kind}")
    return f"call {kind} @{callee}({place}, i32 {align}, {test}, {kind} zeroinitializer)"


def _shape(kind: str) -> str:
    """The mangling of a vector type: `<4 x float>` is `v4f32`."""
    name = kind[1:-1].replace(" x ", "")
    for word, short in (("float", "f32"), ("double", "f64"), ("half", "f16")):
        name = name.replace(word, short)
    return f"v{name}"


def address(b: Builder, element: str, base: str, offset: Operand) -> str:
    """The address of one element, or of the first of a run."""
    if offset.ref == "0":
        return base
    return b.raw(f"getelementptr {element}, ptr {base}, i64 {offset.ref}", offset.depth)


def fetch(b: Builder, base: str, dtype: DType, offset: Operand) -> None:
    """Bring the line of an element into the caches; it may lie anywhere, also outside memory."""
    place = address(b, memory_type(dtype), base, offset)
    b.declare("llvm.prefetch.p0", "void", "ptr, i32, i32, i32")
    b.emit(f"call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 3, i32 1)", b.depth)


def _from_memory(b: Builder, raw: str, dtype: DType, lanes: int, depth: int) -> Operand:
    if dtype is BOOL:
        return nonzero(b, Operand(raw, I8, lanes, depth))
    return Operand(raw, register_type(dtype), lanes, depth)


def store(
    b: Builder, base: str, dtype: DType, offset: Operand, step: int, lanes: int, value: Operand,
    mask: Operand | None,
) -> None:  # fmt: skip
    """Store `value`, rounded to the type `dtype`, in the lanes of the mask; `step` as in `load`."""
    stored = narrowed(b, value, dtype)
    if dtype is BOOL:
        stored = b.convert("zext", stored, I8)
    stored = b.splat(stored, lanes)
    element, align = memory_type(dtype), max(1, dtype.bits // 8)
    kind = vector_of(element, lanes)
    if lanes == 1 or (step == 1 and mask is None):
        place = address(b, element, base, offset)
        b.emit(f"store {kind} {stored.ref}, ptr {place}, align {align}", b.depth)
        return
    test = b.splat(mask or b.const(1, BOOL), lanes)
    if step == 2:
        twice = vector_of(element, 2 * lanes)
        places = ", ".join(f"i32 {lane}, i32 {lanes}" for lane in range(lanes))
        text = f"shufflevector {kind} {stored.ref}, {kind} poison, <{2 * lanes} x i32> <{places}>"
        stored = Operand(b.raw(text, stored.depth), stored.dtype, 2 * lanes, stored.depth)
        kind, test = twice, _spread(b, test)
    _masked_store(b, kind, stored, element, base, offset, step > 0, align, test)


def _masked_store(
    b: Builder, kind: str, stored: Operand, element: str, base: str, offset: Operand, run: bool,
    align: int, test: Operand,
) -> None:  # fmt: skip
    name = "masked.store" if run else "masked.scatter"
    spread = offset if run else b.splat(offset, stored.lanes)
    place = b.raw(f"getelementptr {element}, ptr {base}, {spread.type} {spread.ref}", spread.depth)
    pointer = "ptr" if run else f"<{stored.lanes} x ptr>"
    tail = "p0" if run else f"v{stored.lanes}p0"
    callee = f"llvm.{name}.{_shape(kind)}.{tail}"
    b.declare(callee, "void", f"{kind}, {pointer}, i32, {test.type}")
    b.emit(
        f"call void @{callee}({kind} {stored.ref}, {pointer} {place}, i32 {align}, {test})",
        b.depth,
    )
