"""The protocol check in figures: states and seconds, rings of all sizes, planted faults.

    python -m benchmarks.protocol

Four tables. Channel programs: attention and GEMM, written by hand, must be decided within 10 s and
500,000 states; so must the loops of `benchmarks/problems`, scheduled and lowered. Rings: one of
S slots and C getters, for any trip counts and any number of tiles, and in how many states if moves
are followed in every order, also where orders cannot differ. Planted faults: each must be refused,
by the rule in the first column; the others say which of the three ways of looking sees it alone:
the invariants of single roles (C), the exploration of all interleavings (P), random interleavings
(R, and in which run).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.problems.attention import attention_hopper
from benchmarks.problems.attention_blackwell import attention_blackwell
from benchmarks.problems.gemm import gemm
from benchmarks.problems.hopper import (
    attention_backward,
    fused_mlp,
    gated_linear_attention,
    int4_gemm,
    max_similarity,
    norm_gemm,
)
from benchmarks.protocol_faults import PLANTS, Plant, load, planted
from tensorc.ir.channel import Kernel
from tensorc.ir.interpret_channel import check_run
from tensorc.ir.read_channel import read_channel
from tensorc.ir.schedule import LoopProblem
from tensorc.ir.verify_channel import verify_channel
from tensorc.machine.product import load_product
from tensorc.passes.pipelining.channels import BARE, Finish, Frame, TileRing, channels
from tensorc.passes.pipelining.check_protocol import check_protocol, explore_protocol
from tensorc.passes.scheduling.schedule import JIT, schedule

FRAMES = {
    "attention.d128.keys128": Frame(
        persistent=True,
        tiles=(TileRing("Q", "load_q", "shared", 32768, "K", ("t.0", "t.1")),),
        finishes=tuple(Finish(f"store.{p}", f"a.{p}", (f"a.{p}", f"l.{p}", "Q")) for p in range(2)),
    ),
    "gemm.128x256x64": Frame(
        persistent=True,
        finishes=tuple(Finish(f"store.{p}", f"c.{p}", (f"c.{p}",)) for p in range(2)),
    ),
}
PROGRAMS = ("gemm", "attention", "balanced")
SIZES = ((2, 1), (3, 2), (4, 2), (4, 3), (5, 2), (6, 2), (6, 3))
SECONDS, STATES = 10.0, 500_000
RUNS = tuple((t, s) for t in ([0], [1], [2], [5], [1, 1], [0, 1, 3]) for s in range(20))


@dataclass(frozen=True)
class Decided:
    """One program: what the check said, after how many states and seconds."""

    name: str
    outcome: str
    states: int
    seconds: float

    @property
    def within(self) -> bool:
        """Whether the bar is met."""
        decided = self.outcome in ("PASS", "FAIL")
        return decided and self.states <= STATES and self.seconds <= SECONDS


@dataclass(frozen=True)
class Seen:
    """One planted fault: the rule that refuses it, and what each way of looking says alone."""

    name: str
    refused: str
    role: str
    exploration: str
    interleaving: str


def decide(name: str, kernel: Kernel, thorough: bool = False) -> Decided:
    """Check one kernel and time it."""
    begin = time.perf_counter()
    verdict = check_protocol(kernel, thorough=thorough)
    return Decided(name, verdict.outcome, verdict.states, time.perf_counter() - begin)


def programs() -> list[Decided]:
    """The channel programs of this folder."""
    return [decide(name, load(name)) for name in PROGRAMS]


def lowered() -> list[Decided]:
    """The loops of `benchmarks/problems` on their machines, scheduled quickly and lowered."""
    h100, b200 = load_product("h100"), load_product("b200")
    problems = [gemm(h100), attention_hopper(h100), attention_blackwell(b200)]
    problems += [
        make(h100)
        for make in (
            attention_backward,
            gated_linear_attention,
            fused_mlp,
            norm_gemm,
            max_similarity,
            int4_gemm,
        )
    ]
    return [decide(problem.name, _lowered(problem)) for problem in problems]


def _lowered(problem: LoopProblem) -> Kernel:
    frame = FRAMES.get(problem.name, BARE)
    return channels(problem, schedule(problem, JIT), frame)


def ring(depth: int, getters: int, behind: bool) -> Kernel:
    """One ring between one role that puts and `getters` roles that get.

    `behind`: a getter holds each element until it has got the next, as a product in flight does.
    """
    text = (
        "kernel ring for h100, persistent\n"
        f"  ring A: 64 bytes x {depth} in shared at 0, by copy, full 1 + 64 bytes, "
        f"empty {getters}\n"
        "  role load: 1 warp, 24 registers\n    steady i from 0\n      put A[i] = load()\n"
    )
    body = BEHIND if behind else AT_ONCE
    for k in range(getters):
        text += f"  role work{k}: 4 warps, 40 registers\n" + body.replace("use", f"use{k}")
    return read_channel(text)


AT_ONCE = """\
    steady i from 0
      get A[i]
      do use[i](A[i])
      done A[i]
"""
BEHIND = """\
    prologue
      when [0] exists
        get A[0]
        do use[0](A[0])
    steady i from 1
      get A[i]
      do use[i](A[i])
      done A[i - 1]
    epilogue
      when [0] exists
        done A[T - 1]
"""


def see(plant: Plant) -> Seen:
    """Look at one planted fault in all ways."""
    kernel = planted(plant)
    verdict = check_protocol(kernel)
    refused = verdict.rule if verdict.outcome == "FAIL" else verdict.outcome
    faults = verify_channel(kernel)
    explored = explore_protocol(kernel)
    rule = explored.rule if explored.outcome == "FAIL" else "-"
    role = faults[0].split(":")[0] if faults else "-"
    return Seen(plant.name, refused, role, rule, _interleaved(kernel))


def _interleaved(kernel: Kernel) -> str:
    for count, (trips, seed) in enumerate(RUNS, start=1):
        fault = check_run(kernel, trips, seed).fault
        if fault:
            return f"{fault.rule} in run {count}"
    return "-"


def _print_decided(title: str, rows: list[Decided]) -> None:
    print(title)
    for row in rows:
        print(f"  {row.name:34} {row.outcome:10} {row.states:9,} states {row.seconds:8.3f} s")


def main() -> None:
    """Print the tables and whether the bars are met."""
    rows = programs()
    _print_decided("channel programs", rows)
    met = sum(row.within for row in rows)
    print(f"  within {SECONDS:.0f} s and {STATES:,} states: {met} of {len(rows)}\n")
    more = lowered()
    _print_decided("loops scheduled and lowered", more)
    print(f"  within the same: {sum(row.within for row in more)} of {len(more)}\n")
    for behind in (False, True):
        title = "given back behind the next" if behind else "given back at once"
        sizes = [decide(f"S {s}, C {c}", ring(s, c, behind)) for s, c in SIZES]
        _print_decided(f"one ring, {title}", sizes)
    sizes = [decide(f"S {s}, C {c}", ring(s, c, False), thorough=True) for s, c in SIZES]
    _print_decided("one ring, given back at once, moves in every order", sizes)
    seen = [see(plant) for plant in PLANTS]
    print(f"\n{'planted fault':52} refused  role  explored  interleaved")
    for row in seen:
        columns = f"{row.refused:7}  {row.role:4}  {row.exploration:8}  {row.interleaving}"
        print(f"{row.name:52} {columns}")
    refused = sum(row.refused[0] in "CP" and row.refused != "PASS" for row in seen)
    print(f"refused: {refused} of {len(seen)} kinds (bar: all, at least 20)")


if __name__ == "__main__":
    main()
