"""Machine products as data: the rates, sizes and costs of one GPU, read from a TOML file.

A file has `name`, `arch` and one table per group of `KEYS`; every number is
`{ value, source, note }`, its unit is fixed by `KEYS`, and its source is one of: measured (by this
project's benchmarks), published (a vendor's or author's document, named in the note), derived (by
arithmetic from published numbers, given in the note), assumed (nobody measured it for us; the
certificate of a schedule tells how much rests on it).

What a machine can execute (instructions, layouts) is in the architecture files beside this one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib import resources
from pathlib import Path
from typing import cast, get_args

from tensorc.errors import ArgumentError
from tensorc.ir import schedule as ir
from tensorc.ir.schedule import Figure
from tensorc.ir.source import Diagnostic
from tensorc.ir.source import Source as Text

PRODUCTS = ("a100", "rtx4090", "h100", "h200", "b200")
"""The products whose files come with the package."""

KEYS: Mapping[str, tuple[str, str]] = {
    "chip.processors": ("multiprocessors", "how many a kernel may use"),
    "chip.clock": ("MHz", "the clock under tensor-core load"),
    "chip.dram": ("GB/s", "peak bandwidth of device memory"),
    "chip.l2": ("bytes", "second-level cache"),
    "size.shared": ("bytes", "most shared memory of one block"),
    "size.shared_processor": ("bytes", "shared memory of one multiprocessor"),
    "size.reserved": ("bytes", "shared memory that each block loses to the system"),
    "size.tensor": ("bytes", "tensor memory of one multiprocessor, 0 if there is none"),
    "size.registers": ("registers", "32-bit registers of one multiprocessor"),
    "size.threads": ("threads", "most resident threads of one multiprocessor"),
    "size.barriers": ("barriers", "named barriers of one block"),
    "register.ceiling": ("registers", "most registers of a thread"),
    "register.floor": ("registers", "fewest registers of a thread after it gives some back"),
    "register.step": ("registers", "registers are allocated in multiples of this"),
    "register.dynamic": ("0 or 1", "1 if warp groups move registers among themselves"),
    "register.base": ("registers", "taken by addresses and counters of a computing thread"),
    "rate.mma_tf32": ("MAC/cycle", "tensor core of one multiprocessor, tf32"),
    "rate.mma_f16": ("MAC/cycle", "tensor core of one multiprocessor, f16 and bf16, f32 sums"),
    "rate.mma_f8": ("MAC/cycle", "the same for 8-bit floats, 0 if there are none"),
    "rate.mma_i8": ("MAC/cycle", "the same for 8-bit integers"),
    "rate.exp": ("results/cycle", "exp2, rsqrt and other special functions"),
    "rate.fma": ("results/cycle", "f32 add, multiply, fused multiply-add"),
    "rate.alu": ("results/cycle", "compare, minimum, maximum, integer, select"),
    "rate.convert": ("results/cycle", "conversions between 32-bit and narrower types"),
    "rate.shared": ("bytes/cycle", "shared memory port"),
    "rate.copy": ("bytes/cycle", "copies from L2 into one multiprocessor"),
    "cost.copy_latency": (
        "cycles",
        "a tile from global memory, from the start of its copy until it can be read",
    ),
    "cost.copy_per_kib": ("cycles/KiB", "each KiB of the tile more"),
    "cost.copy_issue": ("cycles", "a role is busy for this long to start a copy"),
    "cost.mma_issue": ("cycles", "a role is busy for this long to start a tile product"),
    "cost.mma_drain": ("cycles", "from the last tensor-core cycle until the sums can be read"),
    "cost.tensor_load": ("cycles/column", "tensor memory to registers, 128 lanes x 32 bits"),
    "cost.tensor_store": ("cycles/column", "registers to tensor memory, 128 lanes x 32 bits"),
    "cost.mbarrier": ("cycles", "one role tells another through shared memory"),
    "cost.named_barrier": ("cycles", "one role tells another through a named barrier"),
    "cost.handoff": ("cycles", "a register tile to another role, whatever its size"),
    "cost.handoff_per_kib": ("cycles/KiB", "each KiB of it, stored and loaded"),
}
"""Every key of a machine file: its unit and what is expected there."""


@dataclass(frozen=True)
class Number:
    """A machine number in the unit of its key, where it comes from, and the reason."""

    value: Fraction
    source: ir.Source
    note: str


@dataclass(frozen=True)
class Product:
    """One GPU. `numbers` has exactly the keys of `KEYS`, none negative."""

    name: str
    arch: str
    numbers: Mapping[str, Number]

    def __getitem__(self, key: str) -> Fraction:
        """The value of `key`, in the unit of `KEYS`."""
        return self.numbers[key].value

    def whole(self, key: str) -> int:
        """The value of a `key` that counts things, rounded down."""
        return int(self[key])

    def figure(self, key: str) -> Figure:
        """The number as a certificate cites it."""
        return Figure(key, self.numbers[key].value, self.numbers[key].source)


def scaled(product: Product, key: str, factor: Fraction) -> Product:
    """`product` with one number multiplied by `factor`."""
    number = product.numbers[key]
    changed = {**product.numbers, key: replace(number, value=number.value * factor)}
    return replace(product, numbers=changed)


def load_product(machine: str | Path) -> Product:
    """The product of a name in `PRODUCTS`, or of a TOML file given as a path.

    Raises ArgumentError (E406) for an unknown name, an unreadable file, or a file in which a number
    is missing, negative, unknown or without a source; every fault of the file is listed.
    """
    if isinstance(machine, str) and machine in PRODUCTS:
        return _known(machine)
    if isinstance(machine, str) and not machine.endswith(".toml"):
        raise _refused(
            f"there is no machine {machine!r}", f"{', '.join(PRODUCTS)} or a path to a .toml file"
        )
    try:
        text = Path(machine).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise _refused(
            f"the machine file {machine} cannot be read: {fault}", "UTF-8 TOML"
        ) from None
    return read_product(text, str(machine))


@cache
def _known(machine: str) -> Product:
    """A product of `PRODUCTS`, which is read once."""
    file = resources.files("tensorc.machine").joinpath("products", f"{machine}.toml")
    return read_product(file.read_text("utf-8"), f"{machine}.toml")


def read_product(text: str, path: str) -> Product:
    """The product that `text` describes; `path` is the file's name in messages. See above."""
    try:
        data = cast("dict[str, object]", tomllib.loads(text, parse_float=Decimal))
    except tomllib.TOMLDecodeError as fault:
        raise _refused(f"{path} is not TOML: {fault}", "a TOML file") from None
    faults = list(_faults(data, Text(path, text)))
    if faults:
        raise ArgumentError(faults)
    numbers = {key: _number(cast("dict[str, object]", _at(data, key))) for key in KEYS}
    return Product(str(data["name"]), str(data["arch"]), numbers)


def _refused(message: str, allowed: str) -> ArgumentError:
    return ArgumentError([Diagnostic("E406", message, allowed=allowed)])


def _at(data: Mapping[str, object], key: str) -> object:
    group, _, name = key.partition(".")
    table = data.get(group)
    return cast("dict[str, object]", table).get(name) if isinstance(table, dict) else None


def _number(entry: Mapping[str, object]) -> Number:
    value, source = entry["value"], cast(ir.Source, entry["source"])
    return Number(Fraction(cast("int | Decimal", value)), source, str(entry["note"]))


def _faults(data: Mapping[str, object], text: Text) -> Iterator[Diagnostic]:
    for name in ("name", "arch"):
        value = data.get(name)
        if not isinstance(value, str) or not value or not value.isprintable() or " " in value:
            yield _fault(text, name, repr(value), "a word in quotes")
    for key, (unit, meaning) in KEYS.items():
        yield from _entry_faults(text, key, _at(data, key), f"{meaning}, in {unit}")
    groups = {key.partition(".")[0] for key in KEYS}
    for group, table in data.items():
        names = cast("dict[str, object]", table) if isinstance(table, dict) else {}
        for key in [f"{group}.{name}" for name in names] if group in groups else [group]:
            if key not in KEYS and key not in ("name", "arch"):
                yield _fault(
                    text, key, "an unknown key", "the keys of tensorc.machine.product.KEYS"
                )


def _entry_faults(text: Text, key: str, entry: object, meaning: str) -> Iterator[Diagnostic]:
    expected = f"{key} = {{ value, source, note }}: {meaning}"
    if not isinstance(entry, dict):
        yield _fault(text, key, "nothing" if entry is None else repr(entry), expected)
        return
    fields = cast("dict[str, object]", entry)
    value, least = fields.get("value"), Fraction(int(key in _POSITIVE))
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        yield _fault(text, key, f"value {value!r}", f"a number, {meaning}")
    elif not Decimal(value).is_finite() or value < least:
        yield _fault(text, key, f"value {value}", f"a number of at least {least}, {meaning}")
    if fields.get("source") not in get_args(ir.Source):
        sources = ", ".join(get_args(ir.Source))
        yield _fault(text, key, f"source {fields.get('source')!r}", f"one of {sources}")
    if not isinstance(fields.get("note"), str) or not fields.get("note"):
        yield _fault(text, key, f"note {fields.get('note')!r}", "where the number comes from")
    if unknown := sorted(set(fields) - {"value", "source", "note"}):
        yield _fault(text, key, f"unknown field {unknown[0]}", "value, source and note")


_POSITIVE = frozenset(
    key for key in KEYS if key.startswith(("chip.", "size.", "rate.")) or key == "register.step"
) - {"size.tensor", "size.reserved", "rate.mma_f8", "rate.mma_tf32", "rate.mma_i8", "rate.mma_f16"}


def _fault(text: Text, key: str, found: str, allowed: str) -> Diagnostic:
    message = f"machine file {text.name}: {key}"
    return Diagnostic("E406", message, _place(text, key), found=found, allowed=allowed)


def _place(text: Text, key: str):
    """The span of the last part of `key` where it is assigned, or of the file's first line."""
    group, _, name = key.rpartition(".")
    table = re.search(rf"^\[{re.escape(group)}\]", text.text, re.MULTILINE) if group else None
    begin = table.end() if table else 0
    found = re.compile(rf"^{re.escape(name)}(?=\s*=)", re.MULTILINE).search(text.text, begin)
    if found and (table or not group):
        return text.span(found.start(), found.end())
    return text.span(0, len(text.line(1)))
