"""What `check --arch` looks at on the way to a GPU: schedules, the protocol of level 3's barriers,
its numbers, and the CUDA C++ in the emulator. What could not be looked at is said, and why.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tensorc.commands.pipelines import Found
from tensorc.errors import Unavailable

if TYPE_CHECKING:
    from tensorc.passes.pipelining.scheduled import Pipelined

Outcome = Literal["ok", "failed", "undecided", "not run"]
_SEEDS = range(3)
_MOST = 1 << 28  # points of the iteration space up to which numbers are computed
INPUTS = 0  # seed of the inputs


@dataclass(frozen=True)
class Finding:
    """What was looked at, what came of it, and the particulars."""

    what: str
    outcome: Outcome
    detail: str

    def __str__(self) -> str:
        return f"{self.what}: {self.outcome}" + (f": {self.detail}" if self.detail else "")


def findings(found: Found, arch: str, given: Mapping[str, int]) -> list[Finding]:
    """Everything that is looked at for one file, in order."""
    made = list[Finding]()
    for item in found.pipelines:
        made += _pipeline(item, found.reason(item))
    made.append(_numbers(found, given))
    made.append(_emulated(found, arch, given))
    made.append(Finding("on a GPU", "not run", "`tensorc run --device cuda --check` does"))
    return made


def _pipeline(item: Pipelined, reason: str) -> Iterator[Finding]:
    from tensorc.ir.print_schedule import headline
    from tensorc.passes.pipelining.check_protocol import check_protocol
    from tensorc.passes.scheduling.check_schedule import check_schedule

    if item.problem is None or item.schedule is None:
        yield Finding(f"schedule of {item.name}", "not run", f"it has no pipeline: {reason}")
        return
    faults = check_schedule(item.problem, item.schedule)
    told = "; ".join(map(str, faults)) or headline(item.schedule)
    yield Finding(f"schedule of {item.name}", "failed" if faults else "ok", told)
    what = f"barrier protocol of {item.name}"
    if item.channel is None:
        yield Finding(what, "not run", f"it has no level 3: {reason}")
        return
    verdict = check_protocol(item.channel)
    outcomes: dict[str, Outcome] = {"PASS": "ok", "FAIL": "failed", "UNDECIDED": "undecided"}
    said = f"no trip count blocks it ({verdict.states:,} states)"
    outcome = outcomes[verdict.outcome]
    yield Finding(what, outcome, said if outcome == "ok" else str(verdict))


def _missing(found: Found, given: Mapping[str, int]) -> str:
    """Why no numbers can be computed: extents that are not known, or too much of them."""
    if found.program is None:
        return "the file is no operator, so that there is nothing to compare with"
    free = [name for name, size in found.program.extents if str(size) == f"|{name}|"]
    wanted = [name for name in free if name not in given]
    if wanted:
        return f"give --size {','.join(f'{name}=...' for name in wanted)}"
    points = math.prod(given[name] for name in free)
    if points > _MOST:
        return f"{points:,} points are more than {_MOST:,}; give smaller sizes"
    return ""


def _inputs(found: Found, given: Mapping[str, int]) -> dict[str, Any]:
    from tensorc.commands.run import drawn

    assert found.program is not None
    return drawn(found.program, {}, given, INPUTS)


def _numbers(found: Found, given: Mapping[str, int]) -> Finding:
    """Level 3 against level 2, bit by bit, in some interleavings."""
    import numpy as np

    from tensorc.errors import BrokenInvariant
    from tensorc.ir.interpret_tile import interpret
    from tensorc.ir.run_bodies import run_bodies
    from tensorc.ir.sizes import bind

    what, made = "numbers of level 3", [item.channel for item in found.pipelines]
    if not any(made):
        return Finding(what, "not run", "there is no level 3")
    if len(made) > 1 or made[0] is None or found.tiles is None:
        return Finding(what, "not run", "only programs of one kernel are run at level 3")
    if reason := _missing(found, given):
        return Finding(what, "not run", reason)
    assert found.program is not None
    arrays, extents = _inputs(found, given), bind(found.program, {}, given)
    wanted = interpret(found.tiles, arrays, extents)
    for seed in _SEEDS:
        try:
            got = run_bodies(made[0], found.tiles, arrays, extents, seed)
        except BrokenInvariant as fault:
            return Finding(what, "failed", str(fault).splitlines()[0])
        for name, values in wanted.items():
            if not np.array_equal(got[name], values, equal_nan=values.dtype.kind in "fc"):
                return Finding(what, "failed", f"{name} differs from level 2, seed {seed}")
    return Finding(what, "ok", f"as level 2 has them, in {len(_SEEDS)} interleavings")


def _emulated(found: Found, arch: str, given: Mapping[str, int]) -> Finding:
    """The CUDA C++ of the operator in the emulator, judged as `run --check` does."""
    from tensorc.devices import run
    from tensorc.ir.accept import Outcome as Judged
    from tensorc.prepare import prepare
    from tensorc.verify import judge, worst

    what = "CUDA C++ in the emulator"
    if reason := _missing(found, given):
        return Finding(what, "not run", reason)
    assert found.program is not None
    call = prepare(found.program, _inputs(found, given), given)
    try:
        verdicts = judge(call, run(call, "emulator", arch))
    except Unavailable as reason:
        return Finding(what, "not run", str(reason).splitlines()[0])
    told = "; ".join(f"{name} {verdict}" for name, verdict in verdicts.items())
    outcomes: dict[Judged, Outcome] = {
        Judged.PASS: "ok", Judged.FAIL: "failed", Judged.UNDECIDED: "undecided",
    }  # fmt: skip
    return Finding(what, outcomes[worst(verdicts)], told)
