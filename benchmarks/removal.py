"""Is every synchronising statement needed? `python -m benchmarks.removal [--only WORD] [--runs N]`.

Of each schedule of the examples, and of the loops in `benchmarks/problems`, every statement of
level 3 that waits, arrives or takes or passes a turn is taken out in turn. It must be refused by
the protocol check; what the check accepts is run in N random interleavings (1,000), and counted as
superfluous if they accept it too.

Then the CUDA C++ of sm_90a, where waits, arrivals, fences, commits and expected bytes are lines:
without each of them the emulator must report something, or results must differ, in some of
`--seeds` interleavings, or the line must be one of a statement that the check has refused above.
What neither refuses is listed; `KEPT` says why it stays. Exits with 1 if the check accepts what an
interleaving refutes, or if a listed line has no such reason.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

import tensorc as tc
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
from benchmarks.protocol import FRAMES
from tensorc.codegen.cuda import CudaModule
from tensorc.codegen.cuda_launch import run as launch
from tensorc.codegen.emulator import Emulator, Mode
from tensorc.cuda_levels import levels, request, with_roles
from tensorc.errors import KernelError
from tensorc.ir.channel import Kernel, Perform, Put, Role, Statement, Wait, When, statements
from tensorc.ir.interpret_channel import check_run
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.rounding import numpy_dtype, round_to
from tensorc.ir.schedule import LoopProblem, Schedule
from tensorc.ir.tile import TileProgram
from tensorc.machine.product import load_product
from tensorc.passes.pipelining.channels import BARE, channels, with_all_waits
from tensorc.passes.pipelining.check_protocol import check_protocol
from tensorc.passes.scheduling.schedule import JIT, schedule
from tensorc.schedules import tiled
from tensorc.solving import pipelines_of

Body = tuple[Statement, ...]
Change = Callable[[Body], Iterator[tuple[str, Body]]]
HEAD = {"d": 128, "e": 128}
EXAMPLES: Mapping[str, Mapping[str, int]] = {
    "gemm": {}, "batched_gemm": {}, "attention": HEAD, "causal_attention": HEAD,
    "grouped_query_attention": HEAD, "window_attention": HEAD, "softcap_attention": HEAD,
    "conv2d": {"r": 3, "s": 3}, "maxsim": {"k": 128},
}  # fmt: skip
"""The examples on tensor cores, with the extents that are fixed."""


# --- level 3 --------------------------------------------------------------------------------------


def removals(body: Body) -> Iterator[tuple[str, Body]]:
    """`body` without one synchronising statement, and what is missing."""
    for k, item in enumerate(body):
        if isinstance(item, When):
            for what, inner in removals(item.body):
                yield what, (*body[:k], replace(item, body=inner), *body[k + 1 :])
        elif not isinstance(item, Perform | Put):
            yield str(item), (*body[:k], *body[k + 1 :])


def changed(kernel: Kernel, change: Change) -> Iterator[tuple[str, Kernel]]:
    """The kernel with one change in one section of one role."""
    for r, role in enumerate(kernel.roles):
        for section, body in _sections(role):
            for what, new in change(body):
                roles = (*kernel.roles[:r], replace(role, **{section: new}), *kernel.roles[r + 1 :])
                yield f"{role.name}, {section}: {what}", replace(kernel, roles=roles)


def _sections(role: Role) -> Iterator[tuple[str, Body]]:
    yield "prologue", role.prologue
    yield "steady", role.steady
    yield "epilogue", role.epilogue


@dataclass(frozen=True)
class Tally:
    """What became of the removals from one program: how many, how many refused by whom, which ones
    nobody refused, and which the check accepted although they can go wrong."""

    name: str
    count: int
    refused: Counter[str]
    superfluous: tuple[str, ...]
    missed: tuple[str, ...] = ()


def from_level_3(name: str, kernel: Kernel, runs: int) -> Tally:
    """Take every synchronising statement out of `kernel` in turn."""
    refused, superfluous, missed, count = Counter[str](), list[str](), list[str](), 0
    for what, without in changed(kernel, removals):
        count += 1
        verdict = check_protocol(without)
        if verdict.outcome == "FAIL":
            refused[verdict.rule[:1]] += 1
        elif _accepted(without, runs):
            superfluous.append(what)
        else:
            missed.append(what)
    return Tally(name, count, refused, tuple(superfluous), tuple(missed))


def _accepted(kernel: Kernel, runs: int) -> bool:
    """Whether all of `runs` random interleavings are clean, over several trip counts."""
    one, several = ([0], [1], [2], [5], [9], [17]), ([1, 1], [0, 1, 3], [4, 0, 4])
    trips = (*one, *several) if kernel.persistent else one
    return all(check_run(kernel, trips[n % len(trips)], n).fault is None for n in range(runs))


def kernels() -> Iterator[tuple[str, Kernel, int]]:
    """The level-3 kernels of the examples, and of the loops written by hand; how many waits the
    lowering has dropped from each."""
    product = load_product("h100")
    for name, static in EXAMPLES.items():
        (op,) = tc.load(f"examples/{name}.tc")
        made = tiled(op.program, "sm_90a", static)
        for item in pipelines_of(made.program, product):
            if item.channel is None or item.problem is None or item.schedule is None:
                print(f"  {name}, {item.name}: {made.reasons.get(item.name, item.reason)}")
            else:
                dropped = _dropped(item.problem, item.schedule)
                yield f"{name}, {item.name}", item.channel, dropped
    for problem in problems():
        found = schedule(problem, JIT)
        kernel = channels(problem, found, FRAMES.get(problem.name, BARE))
        yield problem.name, kernel, _dropped(problem, found)


def _dropped(problem: LoopProblem, found: Schedule) -> int:
    before, after = (
        sum(isinstance(item, Wait) for role in kernel.roles for item in statements(role))
        for kernel in (with_all_waits(problem, found), channels(problem, found))
    )
    return before - after


def problems() -> Iterator[LoopProblem]:
    """The loops of `benchmarks/problems` on their machines."""
    h100 = load_product("h100")
    yield attention_blackwell(load_product("b200"))
    for make in (
        gemm,
        attention_hopper,
        norm_gemm,
        max_similarity,
        attention_backward,
        gated_linear_attention,
        fused_mlp,
        int4_gemm,
    ):
        yield make(h100)


# --- CUDA C++ -------------------------------------------------------------------------------------

SYNCHRONISING = re.compile(
    r"^\s*(if \([^;{}]*?\) )?tc_(mbar_wait|mbar_arrive|mbar_arrive_expect_tx|bar_sync|bar_arrive|"
    r"wgmma_wait|wgmma_fence|wgmma_commit|fence_\w+|tma_store_commit|tma_store_wait\w*|"
    r"syncthreads)\b[^{}]*;(\s*//.*)?$"
)
KEPT: Mapping[tuple[str, str], str] = {
    ("tc_wgmma_fence", "do"): "the hardware orders products of one shape on the same sums; ptxas "
    "puts products without it one after another",
    ("tc_wgmma_commit", "do"): "a later commit takes its product along; level 3 counts each",
    ("tc_tma_store_commit", "store"): "the memory is written again a whole tile later",
    ("tc_tma_store_wait_read", "store"): "the memory is written again a whole tile later",
    ("tc_bar_sync", "do"): "the memory was read a whole tile ago",
    ("tc_mbar_wait", "put"): "the slot of a ring before it is given back at the same time",
}
"""Calls by what they are part of, and why they stay although no interleaving that was tried needs
them: what they wait for is over long before, but nothing else makes sure of it."""
BY_CHECK = ("get", "done", "turn", "pass", "wait")
"""What a line is all of, if it is of a statement of level 3 that the check does not do without."""


def switched(text: str) -> tuple[str, list[str]]:
    """The source with a switch before each synchronising line, and the lines: the one whose number
    is in the environment variable DROPPED is not done."""
    lines, found, below, role = text.split("\n"), list[str](), "", ""
    for at, line in enumerate(lines):
        said = line.strip()
        if said.startswith("// ---- role "):
            role = said.split()[3]
        below = said if said.startswith("//") else below
        if SYNCHRONISING.match(line):
            code = line.split("//")[0].strip()
            lines[at] = f"if (TC_DROPPED != {len(found)}) {{ {code} }}"
            found.append(f"{code}  [line {at + 1}, {role}, {below}]")
    head = (
        "#include <cstdlib>\n"
        'static const int TC_DROPPED = getenv("DROPPED") ? atoi(getenv("DROPPED")) : -1;\n'
    )
    return head + "\n".join(lines), found


@dataclass(frozen=True)
class Run:
    """A program in the emulator: its image, and how to call it."""

    tiles: TileProgram
    module: CudaModule
    image: bytes
    extents: Mapping[str, int]
    arrays: Mapping[str, np.ndarray]

    def outputs(self, dropped: int, seeds: range) -> Iterator[dict[str, bytes]]:
        """The bytes of the outputs, seed by seed; KernelError: the emulator reports something."""
        os.environ["DROPPED"] = str(dropped)
        device = Emulator("sm_90a")
        try:
            loaded = device.load(self.image)
            for seed in seeds:
                device.mode = Mode(seed=seed, seconds=20.0, steps=3_000_000)
                yield self._called(device, loaded)
        finally:
            device.close()
            del os.environ["DROPPED"]

    def _called(self, device: Emulator, loaded: object) -> dict[str, bytes]:
        known = {Symbol(name, "extent"): size for name, size in self.extents.items()}
        extents = {**{n: evaluate(s, known) for n, s in self.tiles.extents}, **self.extents}
        written = (*self.tiles.workspaces, *(item.tensor for item in self.tiles.outputs))
        fresh = {
            t.name: (tuple(evaluate(size, known) for size in t.shape), numpy_dtype(t.dtype))
            for t in written
        }
        names = [item.tensor.name for item in self.tiles.outputs]
        kernels = self.module.kernels
        results, _ = launch(device, loaded, kernels, self.arrays, fresh, names, extents)  # type: ignore[arg-type]
        return {name: results[name].tobytes() for name in names}


SMALL: Mapping[str, Mapping[str, int]] = {
    "gemm": {"m": 256, "n": 256, "k": 384},
    "attention": {**HEAD, "b": 1, "h": 3, "m": 256, "n": 640},
    "causal_attention": {**HEAD, "b": 1, "h": 3, "m": 256, "n": 640},
}
"""Sizes at which a block works on several tiles and every ring turns over."""


def example(name: str) -> tuple[Run, list[str]]:
    """An example with a switch before each synchronising line, two blocks for its grid."""
    (op,) = tc.load(f"examples/{name}.tc")
    made = levels(op.program, with_roles(request("sm_90a", dict(EXAMPLES[name]), {})))
    kernels = tuple(replace(kernel, most=2) for kernel in made.module.kernels)
    text, lines = switched(made.source)
    draw, extents = np.random.default_rng(1), SMALL[name]
    arrays = dict[str, np.ndarray]()
    for item in op.program.parameters:
        known = {Symbol(index, "extent"): size for index, size in extents.items()}
        shape = tuple(evaluate(size, known) for size in item.tensor.shape)
        arrays[item.tensor.name] = round_to(draw.normal(size=shape), item.tensor.dtype)
    image = Emulator("sm_90a").compile(text)
    module = replace(made.module, text=text, kernels=kernels)
    return Run(made.tiles, module, image, extents, arrays), lines


def from_source(name: str, runs: int) -> Tally:
    """Take every synchronising line out of an example's source in turn."""
    run, lines = example(name)
    (right,) = run.outputs(-1, range(1))
    assert all(other == right for other in run.outputs(-1, range(1, 4)))
    refused, superfluous = Counter[str](), list[str]()
    for number, line in enumerate(lines):
        how = _caught(run, number, right, runs)
        if not how and line.split("// ")[-1].split()[0] in BY_CHECK:
            how = "by the check"
        if how:
            refused[how] += 1
        else:
            superfluous.append(line)
    return Tally(name, len(lines), refused, tuple(superfluous))


def _caught(run: Run, number: int, right: dict[str, bytes], runs: int) -> str:
    try:
        for outputs in run.outputs(number, range(runs)):
            if outputs != right:
                return "wrong results"
    except KernelError as error:
        return str(error).split("\n")[0].split(":")[0][:40]
    return ""


def _part(line: str) -> tuple[str, str]:
    """The function that a line calls, and the kind of statement that it is part of."""
    kind = line.split("// ")[-1].split()[0]
    (call, *_) = re.findall(r"\btc_\w+", line)
    return call, kind if kind in ("put", "store") else "do"


def show(tally: Tally) -> None:
    """Print a row, and what was accepted."""
    how = ", ".join(f"{who} {n}" for who, n in sorted(tally.refused.items()))
    total = sum(tally.refused.values())
    print(f"  {tally.name:38} {tally.count:4} removed, {total:4} refused ({how})", flush=True)
    for what in tally.superfluous:
        why = KEPT.get(_part(what), "")
        print(f"      accepted: {what}{'; kept: ' * bool(why)}{why}")
    for what in tally.missed:
        print(f"      MISSED by the check, refuted by an interleaving: {what}")


def main() -> int:
    """Print the tables; 1 if a removal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.removal")
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    parser.add_argument("--runs", type=int, default=1000, help="interleavings of what is accepted")
    parser.add_argument("--seeds", type=int, default=20, help="interleavings of each source")
    parser.add_argument("--level-3", action="store_true", help="leave the CUDA C++ out")
    options = parser.parse_args()
    print("level 3: C, P: rules of the protocol check")
    found, dropped = list[Tally](), 0
    for name, kernel, fewer in kernels():
        if options.only in name:
            found.append(from_level_3(name, kernel, options.runs))
            show(found[-1])
            dropped += fewer
    print("CUDA C++ of sm_90a, in the emulator")
    sources = [name for name in SMALL if options.only in name and not options.level_3]
    lines = [from_source(name, options.seeds) for name in sources]
    for tally in lines:
        show(tally)
    before, after = (sum(t.count for t in found), sum(t.count - len(t.superfluous) for t in found))
    print(f"synchronising statements of level 3: {before + dropped} before the lowering dropped")
    print(f"waits, {before} after; needed: {after}")
    open_ = [line for tally in lines for line in tally.superfluous if _part(line) not in KEPT]
    return int(bool(open_) or any(tally.missed for tally in found))


if __name__ == "__main__":
    sys.exit(main())
