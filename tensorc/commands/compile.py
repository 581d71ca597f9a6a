"""`tensorc compile FILE.tc`: an operator at any level, from mathematics to object code."""

from __future__ import annotations

import click

from tensorc.commands.options import (
    choose,
    read_programs,
    sizes,
    static,
    with_file,
    with_hints,
    with_numerics,
    with_sizes,
    write_output,
)
from tensorc.compiler import Request
from tensorc.ir.tensor import Program

LEVELS = ("tensor", "tile", "llvm", "asm", "obj", "cuda")


@click.command("compile")
@with_file
@with_sizes
@with_hints
@click.option("--arch", default="native", show_default=True, help="native, cpu, sm_80, sm_90a, ...")
@click.option("--emit", type=click.Choice(LEVELS), default="obj", show_default=True)
@with_numerics
@click.option("-o", "output", default="-", help="Output file; - is standard output.")
@click.option("--force", is_flag=True, help="Overwrite the output.")
def command(
    file: str, name: str | None, size: tuple[str, ...], hint: tuple[str, ...], arch: str, emit: str,
    policy: str, deterministic: bool,     output: str, force: bool,
) -> int:  # fmt: skip
    """Compile an operator of FILE and write it at one level.

    Extents given with --size are fixed in the kernel; the others are arguments of it, and --hint
    says which sizes to expect.
    """
    from tensorc import emulated
    from tensorc.compiler import show

    program = choose(read_programs(file), name, file)
    if emit == "tensor":
        write_output(output, show(program).encode(), force)
        return 0
    fixed, expected = sizes(size), sizes(hint, "--hint")
    wanted = emulated.request(
        arch, static(program, fixed), {}, policy, deterministic,
        hints=static(program, expected, "--hint"),
    )  # fmt: skip
    if arch in emulated.CPU:
        if emit == "cuda":
            raise click.UsageError("--emit cuda needs --arch, such as sm_80 or sm_90a")
        data = _for_cpu(program, wanted, emit)
    else:
        data = _for_gpu(program, wanted, emit)
    write_output(output, data, force)
    return 0


def _for_gpu(program: Program, request: Request, emit: str) -> bytes:
    from tensorc.compiler import show
    from tensorc.emulated import levels

    if emit not in ("tile", "cuda"):
        raise click.UsageError(f"--emit {emit} is for the CPU; a GPU has tensor, tile and cuda")
    made = levels(program, request)
    return (show(made.tiles) if emit == "tile" else made.source).encode()


def _for_cpu(program: Program, request: Request, emit: str) -> bytes:
    from tensorc.codegen.llvm import Options
    from tensorc.codegen.llvm import emit as emit_llvm
    from tensorc.codegen.llvm_jit import assembly, native, object_code
    from tensorc.compiler import layouts, run_passes, show

    tiles = run_passes(program, request)
    if emit == "tile":
        return show(tiles).encode()
    module = emit_llvm(
        tiles, Options(request.static, layouts(program, request), request.policy == "fast")
    )
    if emit == "llvm":
        return module.text.encode()
    if emit == "asm":
        return assembly(module.text, native()).encode()
    return object_code(module.text, native())
