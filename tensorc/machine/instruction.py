"""Instructions as data: an equation with role names, where operands may lie, cost, and text.

An equation is that of a statement whose axes are roles (batch, m, n, k): a statement is done by an
instruction if its own equation is the instruction's with a group of axes for each role. What an
instruction does with lanes outside the domain is said role by role. A machine is one file of these,
`cpu`, `ampere`, `hopper`; how fast they are stands in the products' tables (`product`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal as OneOf

from tensorc.ir.dtypes import STORAGE, DType
from tensorc.ir.functions import Reducer
from tensorc.ir.node import Node, node, rebuild
from tensorc.ir.print_tensor import show
from tensorc.ir.print_tile import ONTO, layout
from tensorc.ir.tensor import Expr, Literal, Value
from tensorc.ir.tile import Layout

Outside = OneOf["exact", "pad", "any"]


@node
class Role(Node):
    """A group of axes: `atom` lanes of it are done at once.

    `outside`, of lanes beyond the domain: "exact", it stops before them; "pad", it takes them, and
    they must hold what changes nothing; "any", it takes them, and they change only themselves.
    """

    name: str
    atom: int
    outside: Outside


@node
class Place(Node):
    """A space, and a layout that names roles where that of a tile names axes (None: any)."""

    space: str
    layout: Layout | None = None


@node
class Slot(Node):
    """An operand or the result: its name in the equation and the text, its roles, the types it may
    have, the places where it may lie. No roles: whatever axes the statement gives it."""

    name: str
    roles: tuple[str, ...]
    dtypes: tuple[DType, ...]
    places: tuple[Place, ...]


@node
class Cost(Node):
    """Which numbers of a product an instruction is priced by (keys of `product.KEYS`).

    `rate`: an atom occupies its unit for work / rate, the work being multiply-adds, bytes or
    results by the unit of the key; `latency`: cycles until the result may be read after that;
    `issue`: cycles for which whoever starts it is busy. "": not in the table, taken as none.
    """

    rate: str
    latency: str = ""
    issue: str = ""


@node
class Instruction(Node):
    """result = [result op] op over k of body, by the hardware.

    `body` is an expression of `Value`s named as the operands, with roles as axes; None: any body,
    pointwise or reducing, computed by the machine's threads or vectors. `op`: what it reduces by,
    always onto the result (`in_place`: in its own storage). `fill`: what it delivers beyond the
    bounds of a tensor. `stores`: it does a `Store`; its result is a tensor in memory.
    `boxes`: it copies boxes, of which each dimension follows one index.
    `text`: with holes named as the operands, {type}, and what the emitter fills in; "": the emitter
    writes the body function by function.
    """

    name: str
    result: Slot
    op: Reducer | None
    body: Expr | None
    operands: tuple[Slot, ...]
    roles: tuple[Role, ...]
    cost: Cost
    text: str
    in_place: bool = False
    fill: Literal | None = None
    stores: bool = False
    boxes: bool = False

    def __str__(self) -> str:
        return equation(self)


@dataclass(frozen=True)
class Machine:
    """What one kind of machine can execute.

    `vector`: bytes of a vector register, on a GPU the most that one thread moves at once.
    `products`: instructions for products of two factors, best first; `plain`: the instruction that
    does any statement. `registers`: vector registers, on a CPU.
    """

    name: str
    vector: int
    spaces: tuple[str, ...]
    instructions: Mapping[str, Instruction]
    products: tuple[str, ...]
    plain: str
    registers: int = 0

    def lanes(self, dtype: DType) -> int:
        """Elements of a storage type in one vector."""
        return self.vector * 8 // dtype.bits


def table(*instructions: Instruction) -> dict[str, Instruction]:
    """Instructions by name."""
    return {item.name: item for item in instructions}


def equation(item: Instruction) -> str:
    """The equation as text, `d[m, n] = d + sum[k](a[m, k] * b[k, n])`."""
    left = _element(item.result)
    if item.body is None:
        return f"{left} = any function of {', '.join(slot.name for slot in item.operands)}"
    named = {slot.name: Value(_element(slot), (), slot.dtypes[0]) for slot in item.operands}
    right = show(_renamed(item.body, named))
    if item.op is None:
        return f"{left} = {right}"
    reduced = ", ".join(role.name for role in item.roles if role.name not in item.result.roles)
    return f"{left} = {ONTO[item.op].format(item.result.name, f'{item.op}[{reduced}]({right})')}"


def _renamed(body: Expr, named: Mapping[str, Value]) -> Expr:
    """The body with every operand printed as an element."""
    if isinstance(body, Value):
        return named[body.tile]
    return rebuild(body, lambda item: _renamed(item, named) if isinstance(item, Expr) else item)


def describe(item: Instruction) -> str:
    """Equation, roles and places, a line each."""
    roles = ", ".join(f"{role.name} {role.atom} {role.outside}" for role in item.roles)
    lines = [f"{item.name}: {equation(item)}"] + ([f"  roles: {roles}"] if roles else [])
    for slot in (item.result, *item.operands):
        types = "any type" if slot.dtypes == STORAGE else " ".join(map(str, slot.dtypes))
        places = " or ".join(_place(place, slot) for place in slot.places)
        lines.append(f"  {slot.name}: {types} in {places}")
    return "\n".join(lines)


def _element(slot: Slot) -> str:
    return f"{slot.name}[{', '.join(slot.roles)}]" if slot.roles else slot.name


def _place(place: Place, slot: Slot) -> str:
    where = layout(place.layout, slot.roles) if place.layout else ""
    return f"{place.space} {where}".rstrip()
