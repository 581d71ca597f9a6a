"""The pipelines of a file: an operator, a level-2 text or a loop problem, on a machine product.

An operator is tiled for tensor cores as far as it can be; a level-2 text (`.tile`) is taken as it
is, a loop problem (`.json`, `ir/problem_json.py`) has its machine numbers in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tensorc.errors import Unavailable
from tensorc.ir.schedule import LoopProblem
from tensorc.ir.tensor import Program
from tensorc.ir.tile import TileProgram
from tensorc.ir.walk_tile import has_fragments
from tensorc.machine.product import Product, load_product
from tensorc.passes.pipelining.scheduled import Pipelined
from tensorc.solving import solved, solver

PRODUCT_OF: Mapping[str, str] = {"sm_80": "a100", "sm_89": "rtx4090", "sm_90a": "h100"}
"""The product of an architecture where none is named."""

_LIMIT = 1 << 24  # bytes of a file


@dataclass(frozen=True)
class Tiled:
    """Level 2 for tensor cores, and why kernels of it are plain, by name."""

    program: TileProgram
    reasons: Mapping[str, str]


def product_for(arch: str, machine: str | None) -> Product:
    """The product called `machine`, or that of `arch`. Unavailable (E4xx aside): there is none, or
    it is of another architecture."""
    if machine is None and arch not in PRODUCT_OF:
        known = ", ".join(PRODUCT_OF)
        raise Unavailable(f"{arch} has no machine file here (there are {known}); name --machine")
    product = load_product(machine or PRODUCT_OF[arch])
    if product.arch != arch:
        raise Unavailable(f"{product.name} is {product.arch}; add --arch {product.arch}")
    return product


def read_text(path: str) -> TileProgram | LoopProblem | None:
    """What a file of level 2 or of a loop problem says; None for any other suffix.

    Raises NotationError for a text that is none, OSError for a file that cannot be read.
    """
    suffix = Path(path).suffix
    if suffix not in (".tile", ".json"):
        return None
    if Path(path).stat().st_size > _LIMIT:
        raise Unavailable(f"{path} is larger than {_LIMIT:,} bytes")
    data = Path(path).read_text("utf-8")
    return _problem(path, data) if suffix == ".json" else _tiles(data)


def _tiles(data: str) -> TileProgram:
    from tensorc.errors import NotationError
    from tensorc.ir.read_tile import read
    from tensorc.ir.source import Diagnostic
    from tensorc.ir.verify_tile import verify
    from tensorc.machine.verify_uses import verify as verify_uses

    program = read(data)
    if faults := [*verify(program), *verify_uses(program)]:
        raise NotationError([Diagnostic("E108", fault) for fault in faults])
    return program


def _problem(path: str, data: str) -> LoopProblem:
    from tensorc.errors import NotationError
    from tensorc.ir.problem_json import problem_from_json
    from tensorc.ir.source import Diagnostic
    from tensorc.ir.verify_schedule import verify_problem

    try:
        problem = problem_from_json(data)
    except ValueError as fault:
        raise NotationError([Diagnostic("E108", f"{path}: no loop problem: {fault}")]) from None
    if faults := verify_problem(problem):
        raise NotationError([Diagnostic("E108", f"{path}: {fault}") for fault in faults])
    return problem


def tiled(program: Program, arch: str, sizes: Mapping[str, int]) -> Tiled:
    """Level 2 of an operator for the tensor cores of `arch`, extents in `sizes` fixed: that of the
    kernels that are made of it, or, where those are plain, what did not fit."""
    from tensorc.cuda_levels import request
    from tensorc.passes.tiling.block_sizes import Widths
    from tensorc.passes.tiling.tile_gpu import tile_gpu
    from tensorc.passes.tiling.tile_placed import tile_placed
    from tensorc.pipeline import planned

    wanted = request(arch, sizes, {})
    last = planned(program, wanted).program  # what the lowering lowers
    machine, widths = wanted.target.machine, Widths(wanted.target.lanes)
    made = tile_placed(last, machine, widths, {}, sizes, PRODUCT_OF[machine], solved)
    if not any(has_fragments(kernel) for kernel in made.program.kernels):
        made = tile_gpu(last, machine, widths, {}, sizes)
    return Tiled(made.program, made.reasons)


def pipeline_of(
    problem: LoopProblem, prove: bool = False, by_hand: str | None = None
) -> Pipelined:  # fmt: skip
    """The pipeline of a loop problem; see `solving.solver`."""
    from tensorc.passes.pipelining.scheduled import of_problem

    return of_problem(problem, solver(prove, by_hand))
