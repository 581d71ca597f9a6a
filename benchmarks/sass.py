"""What ptxas makes of kernels for tensor cores: `python -m benchmarks.sass`.

For each kernel registers, spills and stack, what ptxas says it repaired, and the instructions of
the loop that multiplies, of one warp, beside the bars. Needs nvcc, and cuobjdump with nvdisasm, on
PATH or from the wheels nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm. Exits with 1 if a bar is
missed. Nothing runs: these are counts, not times.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tensorc.codegen.cuda import CudaModule
from tensorc.cuda_levels import levels, request, with_roles
from tensorc.ir.read_tile import read
from tensorc.lang import read as programs
from tests.codegen.tile_kernels import compiled, emit
from tests.requirements import cuobjdump
from tests.scheduling.texts import TEXTS

EXAMPLES = Path(__file__).parents[1] / "examples"
TENSOR = ("HGMMA", "HMMA")
_LINE = re.compile(
    r"/\*([0-9a-f]{4,5})\*/\s+(@!?U?P\w+ +)?([A-Z][A-Z0-9_.]*)([^;]*);"
)  # address, predicate, instruction, operands
Instruction = tuple[int, str, str]
JUMP = "JUMP"  # a branch that is always taken


@dataclass(frozen=True)
class Loop:
    """The instructions of an innermost loop that multiplies: those of the shortest way around it,
    which is that of blocks without an edge, and those of it that multiply. `skipped`: the others,
    guards at edges and waits that have to be repeated."""

    instructions: int
    products: int
    mix: Counter[str]
    skipped: int

    @property
    def others(self) -> float:
        """Other instructions for each product."""
        return (self.instructions - self.products) / self.products


def loops(cubin: Path) -> list[Loop]:
    """The innermost loops with products, in the order of their addresses."""
    return [_counted(code) for code in loop_codes(instructions(cubin))]


def instructions(cubin: Path) -> list[Instruction]:
    """What the kernels of an image do."""
    tool = cuobjdump()
    assert tool is not None, "cuobjdump is missing: pip install nvidia-cuda-cuobjdump"
    path = os.pathsep.join([str(Path(tool).parent), os.environ.get("PATH", "")])
    answer = subprocess.run(
        [tool, "-sass", str(cubin)], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PATH": path}, check=True,
    )  # fmt: skip
    return listing(answer.stdout)


def listing(text: str) -> list[Instruction]:
    """The instructions of a listing, without predicates; branches without one are jumps."""
    return [
        (int(at, 16), name if test or name != "BRA" else JUMP, rest)
        for at, test, name, rest in _LINE.findall(text)
    ]


def loop_codes(code: list[Instruction]) -> list[list[Instruction]]:
    """The instructions of each innermost loop with products. Where branches close some, jumps close
    none: those lead from waits that are repeated at the end of a kernel back to where they belong.
    """
    return _loops(code, "BRA") or _loops(code, JUMP)


def _loops(code: list[Instruction], closing: str) -> list[list[Instruction]]:
    kept: list[tuple[int, int]] = []
    for span in sorted(_backward(code, closing), key=lambda span: span[1] - span[0]):
        apart = all(span[1] < other[0] or other[1] < span[0] for other in kept)
        if apart and any(_multiplies(item) for item in _within(code, span)):
            kept.append(span)
    return [_within(code, span) for span in sorted(kept)]


def _backward(code: list[Instruction], closing: str) -> list[tuple[int, int]]:
    """(first, last) address of what each backward branch closes."""
    found: list[tuple[int, int]] = []
    for at, name, rest in code:
        target = re.search(r"0x([0-9a-f]+)", rest) if name.startswith(closing) else None
        if target and int(target[1], 16) < at:
            found.append((int(target[1], 16), at))
    return found


def _within(code: list[Instruction], span: tuple[int, int]) -> list[Instruction]:
    return [item for item in code if span[0] <= item[0] <= span[1]]


def _multiplies(item: Instruction) -> bool:
    return item[1].startswith(TENSOR)


def _counted(code: list[Instruction]) -> Loop:
    way = shortest(code)
    mix = Counter(name.split(".")[0] for _, name, _ in way)
    products = sum(_multiplies(item) for item in way)
    return Loop(len(way), products, mix, len(code) - len(way))


def shortest(code: list[Instruction]) -> list[Instruction]:
    """The fewest instructions from the first to the last one, by its forward branches."""
    place = {at: n for n, (at, _, _) in enumerate(code)}
    before: dict[int, tuple[int, int]] = {0: (0, -1)}  # of each place: length, and from where
    for n, (_, name, rest) in enumerate(code[:-1]):
        if n not in before:
            continue
        branch = name.startswith(("BRA", JUMP))
        target = re.search(r"0x([0-9a-f]+)", rest) if branch else None
        ahead = place.get(int(target[1], 16), -1) if target else -1
        for follower in (ahead,) if name == JUMP else (n + 1, ahead):
            length = before[n][0] + 1
            if follower > n and length < before.get(follower, (length + 1, 0))[0]:
                before[follower] = (length, n)
    way, n = [code[-1]], before[len(code) - 1][1]
    while n >= 0:
        way.append(code[n])
        n = before[n][1]
    return way[::-1]


def _warps(name: str, static: dict[str, int]) -> CudaModule:
    return emit(read((TEXTS / f"{name}.txt").read_text()), static)


def example(name: str, static: dict[str, int]) -> CudaModule:
    """An example by warp groups with roles, from its equations."""
    (item,) = programs((EXAMPLES / f"{name}.tc").read_text())
    return levels(item, with_roles(request("sm_90a", static, {}))).module


HEAD = {"d": 128, "e": 128}
# Name, architecture, source, bar of other instructions for each product (of one warp).
KERNELS: tuple[tuple[str, str, Callable[[], CudaModule], float], ...] = (
    ("GEMM 128x128x32", "sm_80", lambda: _warps("gemm_sm80", {}), 3.5),
    ("attention 128x32, causal", "sm_80", lambda: _warps("attention_sm80", HEAD), 3.5),
    ("GEMM 128x256x64", "sm_90a", lambda: example("gemm", {}), 19.0),
    ("attention 128x128", "sm_90a", lambda: example("attention", HEAD), 474 / 16),
    ("attention 128x128, causal", "sm_90a", lambda: example("causal_attention", HEAD), 474 / 16),
)


def main() -> int:
    """Print the table; 1 if a bar is missed."""
    missed = 0
    print("kernel, registers, spills, stack, repairs; loop: instructions, products, others (bar)")
    for name, arch, source, bar in KERNELS:
        with tempfile.TemporaryDirectory() as folder:
            found = compiled(source().text, Path(folder), arch)
            best = min(loops(found.cubin), key=lambda item: item.others)
        repaired = " ".join(found.remarks) or "none"
        ok = best.others <= bar and not (found.spills or found.stack or found.remarks)
        missed += not ok
        print(
            f"{arch:7} {name:26} {found.registers:4} {found.spills:5} {found.stack:4}  {repaired};"
            f" {best.instructions:4} {best.products:4} {best.others:5.1f} ({bar:.1f})"
            f" {'met' if ok else 'MISSED'}"
        )
        print("        " + ", ".join(f"{op} {n}" for op, n in best.mix.most_common(10)))
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
