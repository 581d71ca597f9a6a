"""CPUs: AVX-512, AVX2 with FMA, NEON, and any processor with vectors of 16 bytes.

Every statement can be done by `vector`, one vector of the last axis at a time. Products have a
register tile of R rows by C columns, `fma.RxC`: its accumulators, one row of B and a broadcast
element of A fit the register file (6 x 4 + 4 + 1 of 32 registers of 64 bytes; 6 x 2 + 2 + 1 of 16
of 32 bytes; of 16 bytes 6 x 4 + 4 + 1 of 32, or 4 x 2 + 2 + 1 of 16), and no more than 6 rows lets
A stay in place. B is packed in panels of C columns, or is one panel as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorc.ir.dtypes import F32, STORAGE
from tensorc.ir.functions import FUNCTIONS, SUM
from tensorc.ir.tensor import Apply, Value
from tensorc.ir.tile import Layout, Linear, Panel, Strided
from tensorc.machine.instruction import Cost, Instruction, Machine, Place, Role, Slot, table


@dataclass(frozen=True)
class Caches:
    """What one core has, as tiles are ranked by: bytes of the first and second cache, ways of the
    second, and bytes a cycle that the second one, and what lies behind it, deliver."""

    first: int = 32 << 10
    second: int = 1 << 20
    ways: int = 16
    near: float = 32.0
    far: float = 12.0

    @property
    def span(self) -> int:
        """Bytes from one line to the next that has its set in the second cache."""
        return self.second // self.ways


CACHES = Caches()  # of server processors of the last years, the smaller ones; ranks depend little
SPACES = ("global", "packed", "memory", "register")
_ANYWHERE = tuple(Place(space) for space in SPACES)
_ANY = Slot("s", (), STORAGE, _ANYWHERE)
_COPIED = Value("s", (), F32)

VECTOR = Instruction(
    "vector", Slot("d", (), STORAGE, _ANYWHERE), None, None, (_ANY,), (), Cost("rate.fma"), "",
    stores=True,
)  # fmt: skip
VIEW = Instruction(
    "view", Slot("d", (), STORAGE, (Place("global"),)), None, _COPIED,
    (Slot("s", (), STORAGE, (Place("global"),)),), (), Cost(""), "",
)  # fmt: skip
PACK = Instruction(
    "pack", Slot("d", (), STORAGE, (Place("global"), Place("packed"))), None, _COPIED, (_ANY,), (),
    Cost("rate.copy"), "", stores=True,
)  # fmt: skip


def product(rows: int, columns: int) -> Instruction:
    """`fma.RxC`: sums of products in f32, kept in registers along k, added to memory at its end.

    Fewer rows and columns at the edge of the domain are done by smaller variants.
    """
    a = Slot("a", ("m", "k"), (F32,), _rows(("m", "k"), "global", "memory"))
    panels = (Place("global", Panel("n", columns)), Place("packed", Panel("n", columns)))
    b = Slot("b", ("k", "n"), (F32,), (*panels, *_rows(("k", "n"), "global", "memory")))
    c = Slot("c", ("m", "n"), (F32,), _rows(("m", "n"), "memory"))
    body = Apply(FUNCTIONS["mul"], (Value("a", a.roles, F32), Value("b", b.roles, F32)))
    roles = (Role("m", rows, "any"), Role("n", columns, "any"), Role("k", 1, "exact"))
    text = f"call void @fma_{rows}x{columns}(ptr {{a}}, ptr {{b}}, ptr {{c}}, i64 {{k}})"
    return Instruction(
        f"fma.{rows}x{columns}", c, SUM, body, (a, b), roles, Cost("rate.fma"), text, in_place=True
    )


def _rows(roles: tuple[str, ...], *spaces: str) -> tuple[Place, ...]:
    """In place, or row by row."""
    layouts: tuple[Layout, ...] = (Strided(), Linear(roles, 0))
    return tuple(Place(space, layout) for space in spaces for layout in layouts)


def _cpu(name: str, vector: int, registers: int, rows: int, columns: int) -> Machine:
    fma = product(rows, columns)
    instructions = table(VECTOR, VIEW, PACK, fma)
    return Machine(name, vector, SPACES, instructions, (fma.name,), "vector", registers)


AVX512 = _cpu("avx512", 64, 32, 6, 64)
AVX2 = _cpu("avx2", 32, 16, 6, 16)
NEON = _cpu("neon", 16, 32, 6, 16)
GENERIC = _cpu("generic", 16, 16, 4, 8)
