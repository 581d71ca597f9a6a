"""`tensorc compile FILE.tc`: an operator at any level, from mathematics to object code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import click

from tensorc.commands import pipelines
from tensorc.commands.options import (
    choose,
    note_open,
    print_json,
    read_programs,
    sizes,
    static,
    with_cuts,
    with_file,
    with_hints,
    with_json,
    with_numerics,
    with_sizes,
    write_output,
    write_together,
)
from tensorc.ir.tensor import Program
from tensorc.request import Request

PIPELINES = ("schedule", "channel")
LEVELS = (
    "tensor", "plan", "tile", *PIPELINES, "llvm", "asm", "obj", "cuda", "ptx", "cubin", "header",
)  # fmt: skip


_NOT_MEASURED = ("tensor", "header", *PIPELINES)


@click.command("compile")
@with_file
@with_sizes
@with_hints
@click.option("--arch", default="native", show_default=True, help="native, cpu, sm_80, sm_90a, ...")
@click.option("--emit", type=click.Choice(LEVELS), default="obj", show_default=True)
@with_numerics
@with_cuts
@pipelines.with_machine
@pipelines.with_proof
@click.option("-o", "output", default="-", help="Output file; - is standard output.")
@click.option("--force", is_flag=True, help="Overwrite the output.")
@click.option("--measure", is_flag=True, help="Choose the tile by time on this CPU.")
@with_json
def command(
    file: str, name: str | None, size: tuple[str, ...], hint: tuple[str, ...], arch: str, emit: str,
    policy: str, deterministic: bool, cuts: str | None, machine: str | None, prove: bool,
    output: str, force: bool, measure: bool, as_json: bool,
) -> int:  # fmt: skip
    """Compile an operator of FILE and write it at one level.

    Extents given with --size are fixed in the kernel; the others are arguments of it, and --hint
    says which sizes to expect. FILE may be a level-2 text (.tile) or a loop problem (.json) where a
    schedule or level 3 is asked for.
    """
    from tensorc import cuda_levels
    from tensorc.observe import show
    from tensorc.pipeline import planned

    if measure and (arch not in cuda_levels.CPU or deterministic or emit in _NOT_MEASURED):
        raise click.UsageError("--measure chooses tiles of CPU kernels, of code or --emit tile")
    if emit in PIPELINES:
        if arch in cuda_levels.CPU and not pipelines.is_text(file):
            raise click.UsageError(f"--emit {emit} needs --arch, such as sm_80 or sm_90a")
        found = pipelines.find(file, name, arch, machine, sizes(size), prove)
        told = {"operator": found.name, "arch": arch, "emit": emit}
        return _write(told, pipelines.emitted(found, emit).encode(), output, force, as_json)
    if machine is not None or prove:
        raise click.UsageError("--machine and --prove are for --emit schedule and channel")
    program = choose(read_programs(file), name, file)
    about: dict[str, object] = {"operator": program.name, "arch": arch, "emit": emit}
    if emit == "tensor":
        return _write(about, show(program).encode(), output, force, as_json)
    fixed, expected = sizes(size), sizes(hint, "--hint")
    note_open(deterministic, fixed, expected)
    if emit == "header":
        return _ahead(program, arch, fixed, policy, deterministic, output, force, as_json)
    wanted = cuda_levels.request(
        arch, static(program, fixed), {}, policy, deterministic,
        hints=static(program, expected, "--hint"), cuts=cuts,
    )  # fmt: skip
    if emit == "plan":
        return _write(about, show(planned(program, wanted)).encode(), output, force, as_json)
    if arch in cuda_levels.CPU:
        if emit in ("cuda", "ptx", "cubin"):
            raise click.UsageError(f"--emit {emit} needs --arch, such as sm_80 or sm_90a")
        wanted = _measured(program, wanted) if measure else wanted
        data = _for_cpu(program, wanted, emit)
    else:
        data = _for_gpu(program, wanted, emit, arch)
    about.update(sizes=dict(wanted.static), policy=policy, deterministic=deterministic)
    return _write(about, data, output, force, as_json)


def _write(
    about: Mapping[str, object], data: bytes, output: str, force: bool, as_json: bool
) -> int:
    """Write the output; with --json say so on stdout, or have the text in the JSON."""
    if not as_json:
        write_output(output, data, force)
        return 0
    if output != "-":
        write_output(output, data, force)
        print_json("compile", {**about, "output": output, "bytes": len(data)})
        return 0
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise click.UsageError(
            f"--json has no place for {about['emit']}: name a file with -o"
        ) from None
    print_json("compile", {**about, "text": text})
    return 0


def _ahead(
    program: Program, arch: str, given: dict[str, int], policy: str, deterministic: bool,
    output: str, force: bool, as_json: bool,
) -> int:  # fmt: skip
    """Write NAME.h, NAME.c and, for a CPU, NAME.o, with NAME from the output."""
    from tensorc.ahead import files
    from tensorc.cuda_levels import request

    if output == "-":
        raise click.UsageError("--emit header makes several files: name one with -o, as NAME.h")
    target = Path(output).with_suffix("")
    if not re.fullmatch(r"[\w.-]+", target.name, re.ASCII):
        raise click.UsageError(f"-o {output}: C includes it; use ASCII letters, digits, . _ or -")
    wanted = request(arch, static(program, given), {}, policy, deterministic)
    made = files(program, wanted, target.name, arch)
    paths = {str(target.with_name(name)): data for name, data in made.items()}
    write_together(paths, force)
    if as_json:
        print_json("compile", {"operator": program.name, "arch": arch, "files": list(paths)})
    return 0


def _measured(program: Program, request: Request) -> Request:
    """The request with the fastest tile; every candidate's time goes to standard error."""
    from tensorc.commands.measure import measure
    from tensorc.commands.run import drawn

    free = [index for index, size in program.extents if str(size) == f"|{index}|"]
    if missing := [index for index in free if index not in request.static]:
        raise click.UsageError(f"--measure needs every extent: --size {missing[0]}=N is missing")
    arrays = drawn(program, {}, request.static, seed=0)
    found = measure(program, request, arrays)
    for item in found:
        tile = item.request.target
        click.echo(
            f"{tile.rows} rows by {tile.vectors} vectors{', packed' * tile.packed}: "
            f"{item.seconds * 1e6:,.1f} us, predicted {item.predicted * 1e6:,.1f} us",
            err=True,
        )
    return found[0].request


_ON_A_GPU = ("tile", "cuda", "ptx", "cubin")


def _for_gpu(program: Program, request: Request, emit: str, arch: str) -> bytes:
    from tensorc.cuda_levels import levels
    from tensorc.cuda_ways import first
    from tensorc.observe import show

    if emit not in _ON_A_GPU:
        raise click.UsageError(
            f"--emit {emit} is for the CPU; a GPU has tensor, plan, {', '.join(_ON_A_GPU)} "
            "and header"
        )
    made = levels(program, first(program, request))
    if emit in ("ptx", "cubin"):
        from tensorc.cubins import image_of

        return image_of(made.source, arch, emit)
    return (show(made.tiles) if emit == "tile" else made.source).encode()


def _for_cpu(program: Program, request: Request, emit: str) -> bytes:
    from tensorc.codegen.llvm import Options
    from tensorc.codegen.llvm import emit as emit_llvm
    from tensorc.codegen.llvm_jit import assembly, native, object_code
    from tensorc.observe import show
    from tensorc.pipeline import run_passes
    from tensorc.request import layouts

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
