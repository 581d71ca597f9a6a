"""Whether ptxas kept the order of a pipeline, and its hands off registers of products in flight.

ptxas moves waits for wgmma inside of basic blocks without a word, and with them goes the overlap
that the schedule is about. The steady loop of a role is compared with its steady section at level
3:

    get K    turn    product    pass    wait 1    done K    66 exponentials    wait 0    done V

`order_faults`: another order of these, or work of threads that moved past one of them.
`flight_faults`: an instruction that writes a register which a product in flight reads or adds to,
or reads one that it adds to. Both return sentences; none is good.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.sass import Instruction
from tensorc.ir import channel
from tensorc.ir.channel import Done, Get, Pass, Perform, Put, Turn, Wait, When
from tensorc.ir.tile import Let, Store
from tensorc.passes.scheduling.extract_problem import LoopText
from tensorc.passes.scheduling.statement_costs import Turning, turning, work

THREADS = 128
LEEWAY = 8  # instructions of a kind that may be on the other side of a step
SPECIAL, PACKED = "MUFU", "F2FP"
_RATES = {"exp": SPECIAL, "convert": PACKED}


@dataclass(frozen=True)
class Step:
    """A step of a pipeline, and what threads work before it since the last one."""

    name: str
    before: Counter[str]


def steps(statements: Iterable[channel.Statement], text: LoopText) -> list[Step]:
    """The steps of a section of level 3; what is left at its end is before the step "end"."""
    found: list[Step] = []
    done = Counter[str]()
    around = turning(text.loop, text.sizes)

    def close(name: str) -> None:
        found.append(Step(name, Counter(done)))
        done.clear()

    for item in statements:
        match item:
            case Perform():
                instance = text.instances[item.call.operation]
                if instance.group.alone:
                    close("product")
                    continue
                for part in instance.group.statements:
                    done.update(_counted(part, instance.sizes, around))
            case Get():
                close("get")
            case Done():
                close("done")
            case Turn():
                close("turn")
            case Pass():
                close("pass")
            case Wait(_, pending):
                close(f"wait {pending}")
            case Put() | When():
                close("other")
    close("end")
    return found


def _counted(item: Let | Store, sizes: Mapping[str, int], around: Turning) -> Counter[str]:
    """Instructions of a thread for a statement, of the kinds that are told apart."""
    amounts = work(item, sizes, around)
    return Counter({op: -(-amounts[rate] // THREADS) for rate, op in _RATES.items()
                    if amounts[rate]})  # fmt: skip


def seen(code: Sequence[Instruction]) -> list[Step]:
    """The steps of a loop's instructions."""
    found: list[Step] = []
    done = Counter[str]()
    for _, name, rest in code:
        step = _step(name, rest)
        if step:
            found.append(Step(step, Counter(done)))
            done.clear()
        elif (kind := name.split(".")[0]) in _RATES.values():
            done[kind] += 1
    return [*found, Step("end", done)]


def _step(name: str, rest: str) -> str:
    """The step that an instruction is; "": none."""
    if name.startswith("HGMMA"):
        return "product" if "gsb0" in rest else ""
    if name.startswith("WARPGROUP.DEPBAR"):
        return f"wait {int(rest.split(',')[-1].strip(), 0)}"
    if name.startswith("SYNCS"):
        return "get" if "TRYWAIT" in name else "done" if "ARRIVE" in name else ""
    if name.startswith("BAR."):
        return "turn" if "SYNC" in name else "pass" if "ARV" in name else ""
    return ""


def order_faults(wanted: Sequence[Step], code: Sequence[Instruction]) -> list[str]:
    """How the steps of a loop differ from those of a schedule. A `get` too many is none: it waits
    for what is there. Tokens of two roles in one source are two instructions, one of which runs."""
    found = _joined(seen(code), [step.name for step in wanted])
    names, others = [s.name for s in wanted], [s.name for s in found]
    if names != others:
        return [f"the schedule has {', '.join(names)}; the code {', '.join(others)}"]
    return [
        f"{have.before[kind]} {kind} before step {place}, {need.name}; "
        f"the schedule has {need.before[kind]}"
        for place, (need, have) in enumerate(zip(wanted, found, strict=True))
        for kind in _RATES.values()
        if abs(need.before[kind] - have.before[kind]) > LEEWAY
    ]


def _joined(found: Sequence[Step], names: Sequence[str]) -> list[Step]:
    """The steps without those that are repeated: `get` where the schedule has none, and the second
    of two tokens side by side."""
    made: list[Step] = []
    held = Counter[str]()
    for step in found:
        wanted = names[len(made)] if len(made) < len(names) else ""
        again = step.name in ("turn", "pass") and bool(made) and made[-1].name == step.name
        if step.name != wanted and (step.name == "get" or again):
            held += step.before
            continue
        made.append(Step(step.name, step.before + held))
        held.clear()
    return made


# --- registers ------------------------------------------------------------------------------------


def flight_faults(code: Sequence[Instruction]) -> list[str]:
    """Instructions that touch what products in flight work on, going around the loop twice."""
    faults: dict[str, None] = {}
    flying: list[tuple[set[int], set[int]]] = []  # of each group: its sums, what else it reads
    sums, factors = set[int](), set[int]()
    for at, name, rest in (*code, *code):
        if name.startswith("HGMMA"):
            made, read = _operands(name, rest)
            sums |= made
            factors |= read
            if "gsb0" in rest:
                flying.append((sums, factors))
                sums, factors = set[int](), set[int]()
            continue
        if name.startswith("WARPGROUP.DEPBAR"):
            kept = int(rest.split(",")[-1].strip(), 0)
            flying = flying[len(flying) - kept :] if kept else []
            continue
        busy = sums.union(*(group for group, _ in flying))
        held = busy | factors.union(*(group for _, group in flying))
        written, others = touched(name, rest)
        for register in sorted(written & held | others & busy):
            faults[f"{at:#x} {name} touches R{register} of a product in flight"] = None
    return list(faults)


def _operands(name: str, rest: str) -> tuple[set[int], set[int]]:
    """The registers of a product's sums, and of a factor that lies in registers."""
    found = re.match(r"HGMMA\.64x(\d+)x\S+\s+R(\d+), *(?:R(\d+))?", name + rest)
    assert found, name + rest
    sums, factor = int(found[2]), int(found[3] or 0)
    return (
        set(range(sums, sums + int(found[1]) // 2)),
        set(range(factor, factor + 4 * (found[3] is not None))),
    )


def touched(name: str, rest: str) -> tuple[set[int], set[int]]:
    """The registers that an instruction writes, and the others that it names."""
    parts = [part.strip() for part in rest.split(",")]
    while parts and re.fullmatch(r"!?U?P(?:\d|T)", parts[0]):
        parts = parts[1:]
    target = re.match(r"R(\d+)", parts[0]) if parts else None
    stores = name.startswith(("ST", "RED", "BAR", "SYNCS"))
    width = 4 if ".128" in name else 2 if ".64" in name or ".WIDE" in name else 1
    first = int(target[1]) if target and not stores else -1
    written = set(range(first, first + width)) if first >= 0 else set[int]()
    named = _named(parts if stores or not target else parts[1:])
    return written, set(named)


def _named(parts: Iterable[str]) -> Iterator[int]:
    for part in parts:
        yield from (int(number) for number in re.findall(r"(?<![A-Z])R(\d+)", part))
