"""TENSAT's graphs before and after rewriting: `python -m benchmarks.networks [NAME...] [--time]`.

Every block of a graph is one operator; figures are sums over blocks, each as often as it occurs.
Three columns: every operator launched by itself; the text that this compiler makes for sm_80, fused
but not rewritten; and that after rewriting, so what differs between the last two is the algebra. A
block that would take longer rewritten stays. The modelled time is one of a machine given by three
rates. Weights stay the same from call to call, so what depends on them alone (joined weights) is
computed once, ahead, as in the paper.

--time also runs blocks on this CPU, in both forms: those of at most `LARGEST` operations. There a
form is used whatever it saves; a compile keeps the source unless that is worth it on its costs.
"""

from __future__ import annotations

import math
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.problems.networks import Block, Network, networks
from tensorc import cuda_levels
from tensorc.errors import BrokenInvariant
from tensorc.ir.node import postorder
from tensorc.ir.print_tensor import show
from tensorc.ir.tensor import (
    Declaration,
    Equation,
    Position,
    Program,
    Read,
    Tensor,
    free_indices,
)
from tensorc.ir.tile import Kernel, TileProgram
from tensorc.lang import read
from tensorc.passes.algebra.saturate import rewrite
from tensorc.passes.algebra.validate import validate
from tensorc.passes.canonicalise import canonicalise
from tensorc.passes.tiling.audit import audit
from tensorc.passes.tiling.block_sizes import Widths
from tensorc.passes.tiling.lower import lower
from tensorc.pipeline import run_passes

MACHINE = Path(__file__).parent / "problems" / "t4.toml"
LARGEST = 3e9  # operations of a block that is run


@dataclass(frozen=True)
class Cost:
    """What one call takes: kernels, operations, bytes, and seconds on the machine."""

    kernels: float = 0
    operations: float = 0
    bytes: float = 0
    seconds: float = 0

    def plus(self, other: Cost, times: int) -> Cost:
        """This and `times` the other."""
        return Cost(
            self.kernels + times * other.kernels,
            self.operations + times * other.operations,
            self.bytes + times * other.bytes,
            self.seconds + times * other.seconds,
        )


@dataclass(frozen=True)
class Measured:
    """A graph as it would be launched operator by operator, fused, and rewritten and fused;
    `spent`: seconds of saturation and extraction."""

    launched: Cost
    before: Cost
    after: Cost
    spent: float
    verdicts: frozenset[str]


def program_of(block: Block) -> Program:
    """A block's canonical program."""
    return canonicalise(read(block.text, "network.tc")[0])


def sizes_of(program: Program) -> dict[str, int]:
    """All extents, which the blocks state."""
    return {name: size.constant for name, size in program.extents if size.constant is not None}


def ahead(program: Program, static: Sequence[str]) -> tuple[Program | None, Program]:
    """(What depends on the `static` parameters alone, the rest that reads its results)."""
    fixed, moved = set(static), list[Equation]()
    outputs = {item.tensor.name for item in program.outputs}
    for item in program.equations:
        reads = {node.tensor.name for node in postorder([item.body]) if isinstance(node, Read)}
        if reads <= fixed and item.tensor.name not in outputs:
            fixed.add(item.tensor.name)
            moved.append(item)
    if not moved:
        return None, program
    rest = [item for item in program.equations if item not in moved]
    wanted = _read(rest)
    made = [Declaration(e.tensor, e.indices) for e in moved if e.tensor.name in wanted]
    first = replace(
        program, name="ahead", parameters=_used(program, moved),
        outputs=tuple(made), equations=tuple(moved), checks=(),
    )  # fmt: skip
    given = (*_used(program, rest), *made)
    return first, replace(program, parameters=given, equations=tuple(rest))


def _read(equations: Sequence[Equation]) -> set[str]:
    bodies = [item.body for item in equations]
    return {node.tensor.name for node in postorder(bodies) if isinstance(node, Read)}


def _used(program: Program, equations: Sequence[Equation]) -> tuple[Declaration, ...]:
    names = _read(equations)
    return tuple(item for item in program.parameters if item.tensor.name in names)


def launched(block: Block, program: Program, machine: Mapping[str, float]) -> Cost:
    """The costs where every equation that does not only pad is a kernel."""
    text = lower(program, Widths(16), {}, "avx512", sizes_of(program))
    kernels = [k for k in text.kernels if not {t.name for t in k.writes} <= set(block.frames)]
    return _summed(replace(text, kernels=tuple(kernels)), program, machine)


def cost(program: Program, machine: Mapping[str, float]) -> Cost:
    """The costs of what is compiled for sm_80, without rewriting."""
    asked = cuda_levels.request("sm_80", sizes_of(program), {})
    request = replace(asked, rewrite=False, verify="off")
    return _summed(run_passes(program, request), program, machine)


def _summed(text: TileProgram, program: Program, machine: Mapping[str, float]) -> Cost:
    sizes, found = sizes_of(program), Cost()
    for kernel in text.kernels:
        work = audit(replace(text, kernels=(kernel,)), sizes).operations
        moved = _moved(kernel, program, sizes)
        slowest = max(work / machine["flops"], moved / machine["bandwidth"])
        found = found.plus(Cost(1, work, moved, machine["launch"] + slowest), 1)
    return found


def _moved(kernel: Kernel, program: Program, sizes: Mapping[str, int]) -> float:
    """The bytes of all that a kernel stores, and of the elements that it reads, each once."""
    read: dict[Tensor, float] = {}
    for node in _reads(kernel, program):
        count = math.prod(sizes[name] for name in free_indices(node))
        read[node.tensor] = min(read.get(node.tensor, 0.0) + count, _elements(node.tensor))
    stored = sum(_elements(tensor) * tensor.dtype.bits / 8 for tensor in kernel.writes)
    return stored + sum(count * tensor.dtype.bits / 8 for tensor, count in read.items())


def _reads(kernel: Kernel, program: Program) -> list[Read]:
    """What a kernel reads, one read for each form of subscripts; what it computes is seen
    through."""
    ends = {tensor.name for tensor in kernel.reads}
    by_name = {item.tensor.name: item for item in program.equations}
    waiting = [by_name[t.name] for t in kernel.writes if t.name in by_name]
    seen = set(waiting)
    found: dict[tuple[Tensor, str], Read] = {}
    while waiting:
        for node in postorder([waiting.pop().body]):
            if not isinstance(node, Read):
                continue
            made = by_name.get(node.tensor.name)
            if made is None or node.tensor.name in ends:
                found[node.tensor, _form(node)] = node
            elif made not in seen:
                seen.add(made)
                waiting.append(made)
    return list(found.values())


def _form(read: Read) -> str:
    """The subscripts of a read but for the names of bare indices."""
    return ", ".join("." if isinstance(sub, Position) else show(sub) for sub in read.subscripts)


def _elements(tensor: Tensor) -> float:
    return float(math.prod(size.constant or 1 for size in tensor.shape))


def rewritten(block: Block) -> tuple[Program, Program, float]:
    """A block's program, what it becomes as a whole, and the CPU seconds that takes in a warm
    process."""
    program = program_of(block)
    sizes = sizes_of(program)
    start = time.process_time()
    made = rewrite(program, sizes, static=block.weights).program
    return program, made, time.process_time() - start


def measured(network: Network, machine: Mapping[str, float]) -> Measured:
    """A graph in its three forms. A block stays as it is where rewriting does not pay here."""
    rewritten(network.blocks[0])  # the engine reads its rules
    spent, verdicts = 0.0, set[str]()
    every = before = after = Cost()
    for block in network.blocks:
        program, made, seconds = rewritten(block)
        old, new = cost(program, machine), cost(ahead(made, block.weights)[1], machine)
        every = every.plus(launched(block, program, machine), block.count)
        before = before.plus(old, block.count)
        after = after.plus(min(new, old, key=lambda item: item.seconds), block.count)
        spent += seconds
        if made is not program:
            verdicts.add(validate(program, made, sizes_of(program)).outcome.value)
    return Measured(every, before, after, spent, frozenset(verdicts))


# --- on this CPU ---------------------------------------------------------------------------------


def cpu_seconds(network: Network) -> tuple[float, float, int, int]:
    """(CPU seconds before, after, blocks that were run, all blocks), each block once a kind."""
    before = after = 0.0
    count = 0
    for block in network.blocks:
        program, made, _ = rewritten(block)
        old = audit_operations(program)
        if old > LARGEST:
            continue
        first, second = run_both(program, made, block.weights)
        before, after = before + first * block.count, after + second * block.count
        count += 1
    return before, after, count, len(network.blocks)


def audit_operations(program: Program) -> float:
    """Scalar operations of a program as written."""
    sizes = sizes_of(program)
    return float(audit(lower(program, Widths(16), {}, "avx512", sizes), sizes).operations)


def run_both(program: Program, made: Program, weights: Sequence[str]) -> tuple[float, float]:
    """CPU seconds of a call of either; their results are compared."""
    from tensorc.operators import Op, ready

    first, rest = ahead(made, weights)
    arrays = _arrays(program)
    given = dict(arrays)
    if first is not None:
        done = Op("ahead", ready(first))(*(given[p.tensor.name] for p in first.parameters))
        made_of = zip(first.outputs, _all(done), strict=True)
        given |= {item.tensor.name: array for item, array in made_of}
    calls = (
        (Op("before", ready(program)), [arrays[p.tensor.name] for p in program.parameters]),
        (Op("after", ready(rest)), [given[p.tensor.name] for p in rest.parameters]),
    )
    for a, b in zip(*(_all(op(*operands)) for op, operands in calls), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
    times = [[_seconds(op, operands) for op, operands in calls] for _ in range(3)]
    return min(a for a, _ in times), min(b for _, b in times)


def _seconds(op: object, operands: Sequence[object]) -> float:
    assert callable(op)
    start = time.process_time()
    op(*operands)
    return time.process_time() - start


def _arrays(program: Program) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    made: dict[str, Any] = {}
    for item in program.parameters:
        shape = tuple(size.constant or 1 for size in item.tensor.shape)
        scale = 1 / np.sqrt(shape[0] if len(shape) > 1 else 1)
        made[item.tensor.name] = (draw.standard_normal(shape) * scale).astype(np.float32)
    return made


def _all(results: Any) -> list[Any]:
    """The outputs of a call, of which there may be one."""
    return list(results) if isinstance(results, tuple) else [results]  # pyright: ignore


# --- printing ------------------------------------------------------------------------------------


def lines(names: Sequence[str], timed: bool) -> Iterator[str]:
    """The table."""
    with MACHINE.open("rb") as file:
        machine = tomllib.load(file)
    name = machine.pop("name")
    yield f"modelled on {name}; launched -> fused -> rewritten and fused; the paper's in brackets"
    for network in networks():
        if names and not any(network.name.startswith(name) for name in names):
            continue
        try:
            found = measured(network, machine)
        except BrokenInvariant as fault:  # of a pass after rewriting: the other graphs still count
            yield f"  {network.name:20}not compiled: {' '.join(str(fault).splitlines()[:2])}"
            continue
        yield _line(network, found)
        if timed:
            before, after, count, every = cpu_seconds(network)
            yield (
                f"  {'':20}this CPU, {count} of {every} kinds of blocks: "
                f"{before * 1e3:.1f} -> {after * 1e3:.1f} ms"
            )


def _line(network: Network, found: Measured) -> str:
    each = [found.launched, found.before, found.after]
    gain, fused = (100 * (a.seconds / each[2].seconds - 1) for a in each[:2])
    kernels = " -> ".join(f"{item.kernels:.0f}" for item in each)
    work = " -> ".join(f"{item.operations / 1e6:.0f}" for item in each)
    moved = " -> ".join(f"{item.bytes / 1e6:.1f}" for item in each)
    spent = " -> ".join(f"{item.seconds * 1e3:.3f}" for item in each)
    return (
        f"  {network.name:20}kernels {kernels}, Mop {work}, MB {moved}, ms {spent} "
        f"({gain:+.1f} %, over fusion alone {fused:+.1f} % [{network.gain[0]}, TASO "
        f"{network.gain[1]}]), in {found.spent:.2f} s (bar {network.most:.0f}) "
        f"[{network.seconds[0]}, TASO {network.seconds[1]}], "
        f"{' '.join(sorted(found.verdicts)) or 'unchanged'}"
    )


def main() -> None:
    """Print the table, for all graphs or those named."""
    names = [arg for arg in sys.argv[1:] if not arg.startswith("-")]
    for line in lines(names, "--time" in sys.argv):
        print(line, flush=True)


if __name__ == "__main__":
    main()
