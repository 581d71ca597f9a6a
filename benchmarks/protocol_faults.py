"""Planted faults in the channel programs of `benchmarks/channels`: one edit each, named.

A fault is an edit of a program's text: in the block of a role (or among the declarations), one
line becomes others. An edit that finds no such line is an error, so faults cannot go stale.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tensorc.ir.channel import Kernel
from tensorc.ir.read_channel import read_channel

FOLDER = Path(__file__).parent / "channels"


@dataclass(frozen=True)
class Edit:
    """In `block` (a role, or "" for the declarations) the line `old`, its `nth` one, is `new`."""

    block: str
    old: str
    new: str = ""
    nth: int = 0


@dataclass(frozen=True)
class Plant:
    """A fault: what is wrong, in which program, by which edits."""

    name: str
    program: str
    edits: tuple[Edit, ...]


def load(program: str) -> Kernel:
    """The channel program of that name, as written."""
    return read_channel(_text(program), f"{program}.txt")


def planted(plant: Plant) -> Kernel:
    """The program with the fault in it."""
    text = _text(plant.program)
    for edit in plant.edits:
        text = _edited(text, edit)
    return read_channel(text, plant.name)


def _text(program: str) -> str:
    return (FOLDER / f"{program}.txt").read_text()


def _edited(text: str, edit: Edit) -> str:
    lines = text.split("\n")
    inside = list(_block(lines, edit.block))
    places = [k for k in inside if lines[k].strip() == edit.old]
    if len(places) <= edit.nth:
        raise ValueError(f"no line {edit.old!r} in {edit.block or 'the declarations'}")
    place = places[edit.nth]
    indent = " " * (len(lines[place]) - len(lines[place].lstrip()))
    new = [indent + line for line in edit.new.split("\n") if line]
    return "\n".join([*lines[:place], *new, *lines[place + 1 :]])


def _block(lines: list[str], block: str) -> Iterator[int]:
    inside = block == ""
    for k, line in enumerate(lines):
        if line.startswith("  role "):
            inside = line.startswith(f"  role {block}:") if block else False
        if inside:
            yield k


_A, _G, _B = "attention", "gemm", "balanced"
_PV = "a.0[i - 1] = values.0(P.0[i - 1], V[i - 1], a.0~[i - 1]) in flight on tensor"
_PACK = "P.0[i] = pack.0(y.0[i])"


def _one(name: str, program: str, block: str, old: str, new: str = "", nth: int = 0) -> Plant:
    return Plant(name, program, (Edit(block, old, new, nth),))


PLANTS: tuple[Plant, ...] = (
    _one("no wait for a full slot", _A, "consumer0", "get K[i]"),
    _one("slot never given back", _A, "consumer0", "done K[i]"),
    _one("slot given back before its reader is retired", _A, "consumer0", "wait 1 on tensor"),
    _one("wait leaves one too many in flight", _A, "consumer0", "wait 0 on tensor",
         "wait 1 on tensor", 1),
    _one("slot given back twice", _A, "consumer0", "done K[i]", "done K[i]\ndone K[i]"),
    _one("wrong element given back", _A, "consumer0", "done V[i - 1]", "done V[i]"),
    _one("wrong element read", _A, "consumer0", _PV,
         "a.0[i - 1] = values.0(P.0[i - 1], V[i], a.0~[i - 1]) in flight on tensor"),
    _one("result read while in flight", _A, "consumer0", "wait 0 on tensor", "", 0),
    Plant("operand overwritten while in flight", _A, (
        Edit("consumer0", _PACK), Edit("consumer0", "wait 0 on tensor",
                                       f"{_PACK}\nwait 0 on tensor", 1))),
    _one("epilogue leaves out the last element", _A, "load", "put V[T - 1] = load_v()",
         "put V[T - 2] = load_v()"),
    Plant("epilogue without guard for an empty loop", _G, (
        Edit("consumer0", "when [0] exists", "when [-1] exists", 1),)),
    _one("steady state starts one late", _A, "load", "steady i from 1", "steady i from 2"),
    _one("steady state starts one early", _A, "consumer1", "steady i from 1", "steady i from 0"),
    _one("empty barrier counts too few", _A, "",
         "ring K: 32768 bytes x 2 in shared at 32768, by copy, full 1 + 32768 bytes, empty 2",
         "ring K: 32768 bytes x 2 in shared at 32768, by copy, full 1 + 32768 bytes, empty 1"),
    _one("empty barrier counts too many", _A, "",
         "ring K: 32768 bytes x 2 in shared at 32768, by copy, full 1 + 32768 bytes, empty 2",
         "ring K: 32768 bytes x 2 in shared at 32768, by copy, full 1 + 32768 bytes, empty 3"),
    _one("too few bytes expected", _A, "",
         "ring V: 32768 bytes x 3 in shared at 98304, by copy, full 1 + 32768 bytes, empty 2",
         "ring V: 32768 bytes x 3 in shared at 98304, by copy, full 1 + 32000 bytes, empty 2"),
    _one("no bytes expected", _A, "",
         "ring V: 32768 bytes x 3 in shared at 98304, by copy, full 1 + 32768 bytes, empty 2",
         "ring V: 32768 bytes x 3 in shared at 98304, by copy, full 1, empty 2"),
    _one("full barrier counts too many", _G, "",
         "ring A: 16384 bytes x 4 in shared at 0, by copy, full 1 + 16384 bytes, empty 2",
         "ring A: 16384 bytes x 4 in shared at 0, by copy, full 2 + 16384 bytes, empty 2"),
    _one("slots overlap in memory", _A, "",
         "ring V: 32768 bytes x 3 in shared at 98304, by copy, full 1 + 32768 bytes, empty 2",
         "ring V: 32768 bytes x 3 in shared at 65536, by copy, full 1 + 32768 bytes, empty 2"),
    _one("turn not waited for", _A, "consumer1", "turn go1", "", 1),
    _one("turn not passed", _A, "consumer1", "pass go0", "", 1),
    _one("turn passed twice", _A, "consumer1", "pass go0", "pass go0\npass go0", 1),
    _one("turn given to nobody at the start", _A, "",
         "token go0: turn of consumer0 on tensor, barrier 1, given 1",
         "token go0: turn of consumer0 on tensor, barrier 1"),
    _one("turn given to both at the start", _A, "",
         "token go1: turn of consumer1 on tensor, barrier 2",
         "token go1: turn of consumer1 on tensor, barrier 2, given 1"),
    _one("one barrier for two tokens", _A, "",
         "token go1: turn of consumer1 on tensor, barrier 2",
         "token go1: turn of consumer1 on tensor, barrier 1"),
    Plant("pass before the turn is taken", _A, (
        Edit("consumer0", "pass go1", "", 1), Edit("consumer0", "turn go0",
                                                   "pass go1\nturn go0", 1))),
    Plant("ring too shallow for what is held", _G, (
        Edit("", "ring A: 16384 bytes x 4 in shared at 0, by copy, full 1 + 16384 bytes, empty 2",
             "ring A: 16384 bytes x 1 in shared at 0, by copy, full 1 + 16384 bytes, empty 2"),)),
    Plant("two rings wait for each other", _A, (
        Edit("load", "put K[i] = load_k()"),
        Edit("load", "put V[i - 1] = load_v()", "put V[i - 1] = load_v()\nput K[i] = load_k()"),
        Edit("load", "put Q = load_q()"),
        Edit("load", "put V[T - 1] = load_v()", "put V[T - 1] = load_v()\nput Q = load_q()"))),
    Plant("per-tile slot never given back", _A, (Edit("consumer1", "done Q"),)),
    _one("two roles put one ring", _A, "consumer0", "get Q", "get Q\nput Q = load_q()"),
    _one("turns counted per tile, tile ring too deep", _B, "",
         "ring Q: 32768 bytes x 1 per tile in shared at 0, by copy, full 1 + 32768 bytes, empty 2",
         "ring Q: 16384 bytes x 2 per tile in shared at 0, by copy, full 1 + 16384 bytes, empty 2"),
    _one("nothing waits for the last in flight", _G, "consumer0", "wait 0 on tensor"),
)  # fmt: skip
