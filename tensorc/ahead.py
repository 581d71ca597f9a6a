"""Ahead of time: an operator as files for a C compiler, with no Python behind them.

For a CPU an object file, for a GPU a cubin inside the C file; with each a header and a launcher in
C that checks sizes in exact arithmetic and returns status codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tensorc.ir.tensor import Program
from tensorc.ir.tile import TileProgram
from tensorc.observe import show
from tensorc.pipeline import run_passes
from tensorc.request import Request, layouts

if TYPE_CHECKING:
    from tensorc.cuda_levels import CudaLevels


def files(program: Program, request: Request, name: str, arch: str) -> dict[str, bytes]:
    """The files by name: `NAME.h`, `NAME.c`, and for a CPU `NAME.o`. `arch`: of the request.

    Arrays are row-major. Unavailable: what C cannot decide or launch, or no CUDA compiler here.
    """
    if request.target.machine.startswith("sm_"):
        return _for_gpu(program, request, name, arch)
    return _for_cpu(program, request, name)


def _for_cpu(program: Program, request: Request, name: str) -> dict[str, bytes]:
    from tensorc.codegen.c_launch_cpu import header, source
    from tensorc.codegen.c_signature import Signature, symbol_of
    from tensorc.codegen.llvm import Options, emit
    from tensorc.codegen.llvm_jit import native, object_code

    tiles, cpu = run_passes(program, request), native()
    symbol = symbol_of(program, f"{show(tiles)} {dict(request.static)} {request} {cpu}".encode())
    strides, fast = layouts(program, request), request.policy == "fast"
    module = emit(tiles, Options(request.static, strides, fast, f"{symbol}_"))
    made = Signature(symbol, program, tiles, module.entries, request.static)
    text = source(made, name, list(tables(program).values()), cpu.features)
    return {
        f"{name}.h": header(made, f"{request.words} ({cpu.name})").encode(),
        f"{name}.c": text.encode(),
        f"{name}.o": object_code(module.text, cpu),
    }


def _for_gpu(program: Program, request: Request, name: str, arch: str) -> dict[str, bytes]:
    from tensorc.codegen.c_launch_cuda import Way, header, source
    from tensorc.codegen.c_signature import Signature, symbol_of
    from tensorc.cubins import image_of

    made = _ways(program, request)
    text = "".join(item.source for item in made)
    symbol = symbol_of(program, f"{text} {arch} {dict(request.static)}".encode())
    entries = tuple(kernel.entry for item in made for kernel in item.module.kernels)
    signature = Signature(symbol, program, _joined(made), entries, request.static)
    built = [Way(item.module.kernels, image_of(item.source, arch)) for item in made]
    launcher = source(signature, built, name, list(tables(program).values()))
    return {
        f"{name}.h": header(signature, f"{request.words} ({arch})").encode(),
        f"{name}.c": launcher.encode(),
    }


def _ways(program: Program, request: Request) -> list[CudaLevels]:
    """The kernels of a launcher: with tensor maps, if there are such, and without."""
    from tensorc.cuda_levels import levels
    from tensorc.cuda_ways import usable

    found = [levels(program, way) for way in usable(program, request)]
    *mapped, last = found
    shared = {tensor.name: tensor for tensor in last.tiles.workspaces}
    fits = all(
        shared.get(tensor.name, tensor) == tensor
        for item in mapped
        for tensor in item.tiles.workspaces
    )
    extents = dict(last.tiles.extents)
    fits &= all(extents.get(n, size) is size for item in mapped for n, size in item.tiles.extents)
    return found if fits else [last]


def _joined(made: Sequence[CudaLevels]) -> TileProgram:
    """Level 2 of all ways, as far as memory and sizes go."""
    tiles = [item.tiles for item in made]
    spaces = dict.fromkeys(tensor for item in tiles for tensor in item.workspaces)
    extents = {name: size for item in tiles for name, size in item.extents}
    return replace(tiles[-1], workspaces=tuple(spaces), extents=tuple(extents.items()))


def tables(program: Program) -> Mapping[str, bytes]:
    """The constant tensors as they lie in memory."""
    from tensorc.runtime.compiled import table_arrays

    return {name: array.tobytes() for name, array in table_arrays(program).items()}
