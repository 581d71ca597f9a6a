"""Runs CUDA C++ of level-2 texts in the emulator, and compiles it with nvcc."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tensorc.codegen.cuda as cuda
from tensorc.codegen.cuda_launch import run as launch
from tensorc.codegen.emulator import Emulator, Mode
from tensorc.ir.interpret_tile import interpret
from tensorc.ir.launch import Strides
from tensorc.ir.placement import Pipelined, Placement
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.rounding import numpy_dtype, round_to
from tensorc.ir.tensor import Tensor
from tensorc.ir.tile import TileProgram
from tensorc.ir.verify_tile import verify as verify_tile
from tensorc.machine.product import load_product
from tensorc.machine.verify_uses import verify as verify_uses
from tensorc.passes.scheduling.place_warps import place_warps

Array = npt.NDArray[Any]
HEADERS = Path(cuda.__file__).parent


@functools.cache
def emulator(arch: str) -> Emulator:
    """One for each architecture in this process."""
    return Emulator(arch)


def emit(
    program: TileProgram, static: Mapping[str, int] | None = None,
    strides: Mapping[str, Strides] | None = None, placement: Placement | Pipelined | None = None,
) -> cuda.CudaModule:  # fmt: skip
    """The source of a verified program, with the placements that the pass chooses."""
    faults = [*verify_tile(program), *verify_uses(program)]
    assert not faults, "\n".join(faults)
    product = load_product("a100")
    placed = [placement or place_warps(kernel, product) for kernel in program.kernels]
    return cuda.emit(program, static or {}, strides or {}, placed)


def emulated(
    program: TileProgram, module: cuda.CudaModule, arrays: Mapping[str, Array],
    extents: Mapping[str, int], seed: int = 0, arch: str = "sm_80",
) -> dict[str, Array]:  # fmt: skip
    """The outputs; KernelError: the emulator reports something."""
    known = {Symbol(name, "extent"): size for name, size in extents.items()}

    def shape(tensor: Tensor) -> tuple[int, ...]:
        return tuple(evaluate(size, known) for size in tensor.shape)

    written = (*program.workspaces, *(item.tensor for item in program.outputs))
    fresh = {t.name: (shape(t), numpy_dtype(t.dtype)) for t in written}
    names = [item.tensor.name for item in program.outputs]
    device = emulator(arch)
    device.mode = Mode(seed=seed)
    loaded = _loaded(arch, module.text)
    results, failed = launch(device, loaded, module.kernels, arrays, fresh, names, extents)
    assert not failed
    return results


@functools.lru_cache(16)
def _loaded(arch: str, text: str) -> Any:
    device = emulator(arch)
    return device.load(device.compile(text))


def check(
    program: TileProgram, module: cuda.CudaModule, arrays: Mapping[str, Array],
    extents: Mapping[str, int], seeds: int = 2, units: float = 2.0, arch: str = "sm_80",
) -> None:  # fmt: skip
    """Clean in every interleaving, bit-equal across them, and within `units` in the last place of
    the largest output of what the text means."""
    wanted = interpret(program, arrays, extents)
    runs = [emulated(program, module, arrays, extents, seed, arch) for seed in range(seeds)]
    for item in program.outputs:
        name = item.tensor.name
        got = runs[0][name]
        for seed, run in enumerate(runs):
            assert run[name].tobytes() == got.tobytes(), f"{extents}: seed {seed} differs"
        close(got, wanted[name], item.tensor, units, extents)


def close(got: Array, wanted: Array, tensor: Tensor, units: float, what: object) -> None:
    """Within `units` in the last place of the largest value."""
    if not wanted.size:
        return
    found, right = (np.asarray(item).astype(np.float64) for item in (got, wanted))
    largest = np.abs(right[np.isfinite(right)]).max(initial=0.0)
    eps = {16: 2.0**-10, 32: 2.0**-20, 64: 2.0**-48}[tensor.dtype.bits]
    eps = 2.0**-7 if tensor.dtype.name == "bf16" else eps
    assert (np.isfinite(found) == np.isfinite(right)).all(), what
    error = np.abs(found - right)[np.isfinite(right)].max(initial=0.0)
    assert error <= units * eps * max(largest, 1e-6), f"{what}: error {error}, largest {largest}"


def stored(array: Array, tensor: Tensor) -> Array:
    """Numbers as an array of the tensor's type."""
    return round_to(array, tensor.dtype)


@dataclass(frozen=True)
class Compiled:
    """What ptxas says of a kernel."""

    registers: int
    stack: int
    spills: int
    cubin: Path
    remarks: tuple[str, ...]  # about what it had to repair


def compiled(text: str, folder: Path, arch: str = "sm_80") -> Compiled:
    """The source through nvcc; the largest figures of its kernels."""
    source = folder / "kernel.cu"
    source.write_text(text)
    cubin = folder / "kernel.cubin"
    command = [
        "nvcc", f"-arch={arch}", "-cubin", "-O3", "-std=c++17", f"-I{HEADERS}", "-Xptxas", "-v",
        "-diag-suppress", "186,177", "-o", str(cubin), str(source),
    ]  # fmt: skip
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120)
    said = answer.stdout + answer.stderr
    assert answer.returncode == 0, said

    def largest(pattern: str) -> int:
        return max((int(n) for n in re.findall(pattern, said)), default=0)

    spills = largest(r"(\d+) bytes spill stores") + largest(r"(\d+) bytes spill loads")
    remarks = tuple(re.findall(r"C75\d\d", said))
    return Compiled(
        largest(r"Used (\d+) registers"), largest(r"(\d+) bytes stack frame"), spills, cubin,
        remarks,
    )  # fmt: skip
