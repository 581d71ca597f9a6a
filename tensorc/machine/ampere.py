"""sm_80 and sm_89: products of warps on the tensor core, fed by cp.async and ldmatrix.

Fragments are those of the atom `m16n8` (PTX ISA, mma.m16n8k16), see `fragments`. All shapes are
those of 16-bit operands with f32 sums.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from tensorc.ir.dtypes import BF16, F16, F32, INTEGER, STORAGE
from tensorc.ir.functions import FUNCTIONS, SUM
from tensorc.ir.tensor import Apply, Literal, Value
from tensorc.ir.tile import Frame, Linear, Operand
from tensorc.machine.instruction import Cost, Instruction, Machine, Place, Role, Slot, table

SPACES = ("global", "shared", "register")
HALF = (F16, BF16)
ZERO = Literal(Fraction(0), INTEGER)
COPIED = Value("s", (), F16)
_ATOM = "m16n8"
_ANYWHERE = tuple(Place(space) for space in SPACES)
_FIRST = Place("register", Operand(_ATOM, "A", ("m",), ("k",)))
_SECOND = Place("register", Operand(_ATOM, "B", ("m",), ("k",)))

SIMT = Instruction(
    "simt", Slot("d", (), STORAGE, _ANYWHERE), None, None, (Slot("s", (), STORAGE, _ANYWHERE),), (),
    Cost("rate.fma"), "", stores=True,
)  # fmt: skip


def swizzled(*roles: str) -> tuple[Place, ...]:
    """Shared memory in this order, rows of 32, 64 or 128 bytes, each with its swizzle."""
    return tuple(Place("shared", Linear(roles, span)) for span in (32, 64, 128))


A, B = ("m", "k"), ("k", "n")
PRODUCT = Apply(FUNCTIONS["mul"], (Value("a", A, F16), Value("b", B, F16)))

CP_ASYNC = Instruction(
    "cp.async", Slot("d", (), STORAGE, (Place("shared"),)), None, COPIED,
    (Slot("s", (), STORAGE, (Place("global"),)),), (),
    Cost("rate.copy", "cost.copy_latency", "cost.copy_issue"),
    "tc_cp_async16({d}, {s}, {bytes});", fill=ZERO,
)  # fmt: skip


def _ldmatrix(name: str, source: tuple[str, ...], text: str) -> Instruction:
    """Fragments of 16 by 16 elements; rows of shared memory along k, or across it (`.trans`)."""
    roles = (Role("m", 16, "any"), Role("k", 16, "any"))
    d = Slot("d", ("m", "k"), HALF, (_FIRST, _SECOND))
    s = Slot("s", ("m", "k"), HALF, swizzled(*source))
    body = Value("s", s.roles, F16)
    return Instruction(name, d, None, body, (s,), roles, Cost("rate.shared"), text)


LDMATRIX = _ldmatrix("ldmatrix", ("m", "k"), "tc_ldmatrix_x4({d}, {s});")
LDMATRIX_TRANS = _ldmatrix("ldmatrix.trans", ("k", "m"), "tc_ldmatrix_x4_trans({d}, {s});")
MMA = Instruction(
    "mma.m16n8k16",
    Slot("d", ("m", "n"), (F32,), (Place("register", Frame(_ATOM, ("m",), ("n",))),)),
    SUM, PRODUCT,
    (
        Slot("a", A, HALF, (_FIRST,)),
        Slot("b", B, HALF, (Place("register", Operand(_ATOM, "B", ("n",), ("k",))),)),
    ),
    (Role("m", 16, "any"), Role("n", 8, "any"), Role("k", 16, "pad")),
    Cost("rate.mma_f16", "cost.mma_drain", "cost.mma_issue"),
    "tc_mma_m16n8k16_{type}({d}, {a}, {b[0]}, {b[1]});", in_place=True,
)  # fmt: skip

MACHINE = Machine(
    "sm_80", 16, SPACES, table(SIMT, CP_ASYNC, LDMATRIX, LDMATRIX_TRANS, MMA), (MMA.name,), "simt"
)
ADA = replace(MACHINE, name="sm_89")
