"""Level 2 to CUDA C++: one source for a program, one function for each of its kernels.

A kernel whose fragments belong to tensor cores is emitted for warps (`cuda_warps`) or for warp
groups with roles (`cuda_roles`), one with rows dealt to threads for these (`cuda_rows`), any other
for one thread a lane (`cuda_threads`). The text calls the helpers
of the headers it includes for what is not C++; the emulator and a GPU compile the same text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorc.codegen.cuda_roles import Roles
from tensorc.codegen.cuda_rows import Rows, dealt
from tensorc.codegen.cuda_threads import Threads
from tensorc.codegen.cuda_warps import Warps
from tensorc.ir.launch import Entry, Map, Strides
from tensorc.ir.placement import Pipelined, Placement
from tensorc.ir.tile import TileProgram


@dataclass(frozen=True)
class CudaKernel:
    """How to launch one kernel: its slots are its parameters, in order."""

    entry: Entry
    threads: int
    shared: int  # bytes of dynamic shared memory
    maps: tuple[Map, ...] = ()  # tensor maps, the first parameters
    most: int = 0  # blocks of a launch, which take the grid's in turn; 0: one block for each


@dataclass(frozen=True)
class CudaModule:
    """CUDA C++ of a program and its kernels, in the order in which they run."""

    text: str
    kernels: tuple[CudaKernel, ...]


def emit(
    program: TileProgram, static: Mapping[str, int], strides: Mapping[str, Strides],
    placements: Sequence[Placement | Pipelined | None] = (), fast: bool = True,
    wide: bool = True,
) -> CudaModule:  # fmt: skip
    """The whole program as one source. `static`: extents fixed now; `strides`: of tensors that are
    not row-major, None where they are known only at the call; `placements`: of each kernel for
    tensor cores, in order; `fast`: the policy of that name; `wide`: whether the order of sums may
    depend on where aligned tensors lie."""
    texts: list[str] = []
    kernels: list[CudaKernel] = []
    placed = (*placements, *[None] * (len(program.kernels) - len(placements)))
    for number, (kernel, placement) in enumerate(zip(program.kernels, placed, strict=True)):
        if placement is None and dealt(kernel) is not None:
            emitter = Rows(kernel, number, program, static, strides, fast)
        elif placement is None:
            emitter = Threads(kernel, number, program, static, strides, wide)
        elif isinstance(placement, Pipelined):
            emitter = Roles(placement, number, program, static, strides, fast)
        else:
            emitter = Warps(kernel, number, program, static, strides, placement, fast)
        texts.append(emitter.text())
        grid = tuple((block.index, block.size) for block in kernel.grid)
        entry = Entry(emitter.symbol, tuple(emitter.parameters.slots), grid)
        maps = emitter.maps if isinstance(emitter, Roles) else ()
        most = placement.most if isinstance(placement, Pipelined) else 0
        kernels.append(CudaKernel(entry, emitter.threads, emitter.shared, maps, most))
    rows = any(map(dealt, program.kernels))
    pairs = zip(program.kernels, placed, strict=True)
    lanes = any(placement is None and dealt(kernel) is None for kernel, placement in pairs)
    headers = ["device.cuh", "scalar.cuh", *["lanes.cuh"] * (lanes or _exchanges(texts))]
    headers += [*["tile.cuh"] * (any(placed) or rows), *["rows.cuh"] * rows]
    head = f"// {program.name}\n" + "".join(f'#include "{name}"\n' for name in headers)
    return CudaModule("\n".join([head, *texts]), tuple(kernels))


def _exchanges(texts: Sequence[str]) -> bool:
    """Whether kernels for warps exchange other values than floats."""
    return any("tcs_other(" in text for text in texts)
