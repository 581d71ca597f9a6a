"""The pipelines of a file: an operator, a level-2 text or a loop problem, on a machine product.

An operator is tiled for tensor cores as far as it can be; a level-2 text (`.tile`) is taken as it
is, a loop problem (`.json`, `ir/problem_json.py`) has its machine numbers in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tensorc.errors import BrokenInvariant, Unavailable
from tensorc.ir.schedule import LoopProblem, Schedule
from tensorc.ir.tensor import Program
from tensorc.ir.tile import TileProgram
from tensorc.machine.product import Product, load_product
from tensorc.passes.pipelining.scheduled import Pipelined

if TYPE_CHECKING:
    from tensorc.passes.scheduling.schedule_polish import Aim
    from tensorc.passes.scheduling.schedule_search import Effort

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
    """Level 2 of an operator for the tensor cores of `arch`, extents in `sizes` fixed."""
    from tensorc.emulated import request
    from tensorc.passes.tiling.lower import Widths
    from tensorc.passes.tiling.tile_gpu import tile_gpu
    from tensorc.pipeline import planned

    wanted = request(arch, sizes, {})
    last = planned(program, wanted).program  # what the lowering lowers
    made = tile_gpu(last, wanted.target.machine, Widths(wanted.target.lanes), {}, sizes)
    return Tiled(made.program, made.reasons)


def pipelines_of(
    tiles: TileProgram, product: Product, prove: bool = False
) -> tuple[Pipelined, ...]:
    """The pipelines of a program's kernels; see `solved`. `prove`: certificates also say what the
    interval and the roles are with every assumed number of the product at x0.5 and x1.5."""
    from tensorc.passes.pipelining.scheduled import pipelines

    found = pipelines(tiles, product, lambda problem: solved(problem, prove))
    return tuple(_with_sensitivity(item, product) for item in found) if prove else found


def _with_sensitivity(item: Pipelined, product: Product) -> Pipelined:
    from tensorc.passes.scheduling.extract_problem import extract
    from tensorc.passes.scheduling.schedule import JIT
    from tensorc.passes.scheduling.sensitivity import with_sensitivity

    text, made = item.text, item.schedule
    if text is None or made is None:
        return item

    def build(changed: Product) -> LoopProblem:
        return extract(text.kernel, text.machine, changed).problem

    effort = replace(JIT, wall=None)
    return replace(item, schedule=with_sensitivity(made, build, product, effort, _cached))


def pipeline_of(problem: LoopProblem, prove: bool = False) -> Pipelined:
    """The pipeline of a loop problem; see `solved`."""
    from tensorc.passes.pipelining.scheduled import of_problem

    return of_problem(problem, lambda problem: solved(problem, prove))


def solved(problem: LoopProblem, prove: bool = False) -> Schedule:
    """The schedule of a problem: from the cache, or from the solver in the worker process with the
    work that a first call may take, two seconds on an idle machine; `prove`: with as much as a
    proof may take, about a minute. A busy machine takes longer over the same answer.

    Raises Infeasible; Unavailable where there is no solver or it was stopped.
    """
    from tensorc.passes.scheduling.schedule import JIT, PROVE

    return _cached(problem, PROVE if prove else replace(JIT, wall=None), "slack")


def _cached(problem: LoopProblem, effort: Effort, aim: Aim) -> Schedule:
    from tensorc.passes.scheduling.schedule_cache import cached_schedule
    from tensorc.runtime.cache import directory

    kept = directory()
    folder = kept / "schedules" if kept else None
    return cached_schedule(problem, folder, effort, aim, _solve)


_SECONDS = {True: 300.0, False: 60.0}  # after which the solver is killed, proving or not


def _solve(problem: LoopProblem, effort: Effort, aim: Aim) -> Schedule:
    from tensorc import worker
    from tensorc.passes.jobs import scheduled
    from tensorc.passes.scheduling.schedule import PROVE

    limit = _SECONDS[effort == PROVE]
    try:
        return scheduled(problem, effort, aim, lambda name, data: worker.run(name, data, limit))
    except worker.JobFailed as stopped:
        if stopped.reason == "error":
            raise BrokenInvariant(f"{problem.name}: {stopped.detail}") from stopped
        raise Unavailable(f"the scheduler was stopped ({stopped}); run again") from stopped
    except ImportError as missing:
        raise Unavailable(f"{missing}; pip install ortools") from missing
