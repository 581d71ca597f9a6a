"""sm_90a: products of warp groups (wgmma) on operands in shared memory, copies by TMA.

Fragments are those of the atom `wgmma` (PTX ISA, wgmma.mma_async), see `fragments`. All shapes are
those of 16-bit operands with f32 sums; only these may have an operand in shared memory whose rows
run across k.
"""

from __future__ import annotations

from tensorc.ir.dtypes import F32, STORAGE
from tensorc.ir.functions import SUM
from tensorc.ir.tile import Frame, Operand
from tensorc.machine.ampere import COPIED, HALF, PRODUCT, SIMT, SPACES, ZERO, A, B, swizzled
from tensorc.machine.instruction import Cost, Instruction, Machine, Place, Role, Slot, table

_ATOM = "wgmma"
_COPY = Cost("rate.copy", "cost.copy_latency", "cost.copy_issue")
COLUMNS = range(8, 257, 8)

TMA = Instruction(
    "tma", Slot("d", (), STORAGE, (Place("shared"),)), None, COPIED,
    (Slot("s", (), STORAGE, (Place("global"),)),), (), _COPY,
    "tc_tma_load_{rank}d({d}, {map}, {barrier}, {coordinates});", fill=ZERO, boxes=True,
)  # fmt: skip
TMA_STORE = Instruction(
    "tma.store", Slot("d", (), STORAGE, (Place("global"),)), None, COPIED,
    (Slot("s", (), STORAGE, (Place("shared"),)),), (), _COPY,
    "tc_tma_store_{rank}d({map}, {s}, {coordinates});", stores=True, boxes=True,
)  # fmt: skip


def wgmma(columns: int, registers: bool) -> Instruction:
    """64 rows by `columns` by 16; the first operand in shared memory, or in registers (`.rs`)."""
    first = (
        (Place("register", Operand(_ATOM, "A", ("m",), ("k",))),)
        if registers
        else (*swizzled("m", "k"), *swizzled("k", "m"))
    )
    text = "tc_wgmma_{type}" + ("_rs<{n}, {tb}>" if registers else "<{n}, {ta}, {tb}>")
    return Instruction(
        f"wgmma.m64n{columns}k16" + (".rs" if registers else ""),
        Slot("d", ("m", "n"), (F32,), (Place("register", Frame(_ATOM, ("m",), ("n",))),)),
        SUM, PRODUCT,
        (
            Slot("a", A, HALF, first),
            Slot("b", B, HALF, (*swizzled("n", "k"), *swizzled("k", "n"))),
        ),
        (Role("m", 64, "any"), Role("n", columns, "any"), Role("k", 16, "pad")),
        Cost("rate.mma_f16", "cost.mma_drain", "cost.mma_issue"),
        text + "({d}, {a}, {b}, {accumulate});", in_place=True,
    )  # fmt: skip


_PRODUCTS = [wgmma(n, registers) for n in reversed(COLUMNS) for registers in (False, True)]
MACHINE = Machine(
    "sm_90a", 16, SPACES, table(SIMT, TMA, TMA_STORE, *_PRODUCTS),
    tuple(item.name for item in _PRODUCTS), "simt",
)  # fmt: skip
