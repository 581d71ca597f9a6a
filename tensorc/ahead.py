"""Ahead of time: an operator as files for a C compiler, with no Python behind them.

For a CPU an object file, for a GPU a cubin inside the C file; with each a header and a launcher in
C that checks sizes in exact arithmetic and returns status codes.
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorc.ir.tensor import Program
from tensorc.observe import show
from tensorc.pipeline import run_passes
from tensorc.request import Request, layouts


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
    from tensorc.codegen.c_launch_cuda import header, source
    from tensorc.codegen.c_signature import Signature, symbol_of
    from tensorc.cubins import image_of
    from tensorc.cuda_levels import levels

    made = levels(program, request)
    symbol = symbol_of(program, f"{made.source} {arch} {dict(request.static)}".encode())
    kernels = made.module.kernels
    entries = tuple(kernel.entry for kernel in kernels)
    signature = Signature(symbol, program, made.tiles, entries, request.static)
    cubin = image_of(made.source, arch)
    text = source(signature, kernels, name, list(tables(program).values()), cubin)
    return {
        f"{name}.h": header(signature, f"{request.words} ({arch})").encode(),
        f"{name}.c": text.encode(),
    }


def tables(program: Program) -> Mapping[str, bytes]:
    """The constant tensors as they lie in memory."""
    from tensorc.runtime.compiled import table_arrays

    return {name: array.tobytes() for name, array in table_arrays(program).items()}
