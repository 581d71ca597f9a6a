"""The visible list of passes, and a level-1 program's way through it down to tiles.

`PIPELINE` is the only place that knows the order of passes. After every pass the IR's verifier
runs; what it finds is a bug of ours and raises BrokenInvariant with the IR.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from tensorc.depth import deep
from tensorc.errors import BrokenInvariant
from tensorc.ir.accept import Outcome
from tensorc.ir.strict_json import Json
from tensorc.ir.tensor import Program
from tensorc.observe import State, observe, show, verify
from tensorc.request import Request, layouts

if TYPE_CHECKING:
    from tensorc.explain import Report, Step
    from tensorc.ir.plan import Planned
    from tensorc.ir.tile import TileProgram
    from tensorc.passes.tiling.block_sizes import Widths

_LOG = logging.getLogger("tensorc")
SECONDS = 10.0  # after which a solver is killed; its pass then leaves the program as it is
WORTH = 0.95  # of the cost as written: what is saved has to be more than guesses of costs are wrong


@dataclass(frozen=True)
class Made:
    """What a pass made, the programs in it (before, after) that have to be compared, and which
    limits it met."""

    state: State
    parts: tuple[tuple[Program, Program], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pass:
    """A named step; what is true afterwards stands in the pass's own docstring."""

    name: str
    run: Callable[[State, Request], State | Made]
    purpose: str
    optional: bool = False  # whether the program may stay as it is if a solver was killed
    check: Callable[[Program, Program, Request], str] | None = None  # why undecided, or ""


def _canonicalise(state: State, request: Request) -> State:
    from tensorc.passes.canonicalise import canonicalise

    assert isinstance(state, Program)
    return canonicalise(state)


def _needed(state: State, request: Request) -> State:
    from tensorc.ir.needed import needed

    assert isinstance(state, Program)
    return needed(state)


def _complex_parts(state: State, request: Request) -> State:
    from tensorc.passes.complex_parts import complex_parts

    assert isinstance(state, Program)
    return complex_parts(state)


def _rewrite(state: State, request: Request) -> State | Made:
    from tensorc.passes.algebra.worth import worth_encoding

    assert isinstance(state, Program)
    wanted = request.rewrite and request.by_size and request.policy == "fast"
    if not wanted or not worth_encoding(state):
        return state
    from tensorc.passes.algebra.parts import rewrite_in_parts

    made = rewrite_in_parts(state, request.static, WORTH, in_worker, request.hints)
    for note in made.notes:
        _LOG.info("TC-N401 saturate: %s", note)
    return Made(made.program, made.parts, made.notes)


def in_worker(name: str, data: Json) -> Json:
    """Do a job of the passes in the worker process. Raises worker.JobFailed if it was killed, and
    BrokenInvariant if it raised something."""
    from tensorc import worker

    try:
        return worker.run(name, data, SECONDS)
    except worker.JobFailed as failed:
        if failed.reason != "error":
            raise
        text = f"{name} failed: {failed.detail}\nThis is a bug in tensorc; please report it."
        raise BrokenInvariant(text) from failed


def _same_in_exact_arithmetic(source: Program, result: Program, request: Request) -> str:
    """Why rewriting could not be checked, or "". Raises BrokenInvariant if exact arithmetic shows
    that a rewritten program is another one."""
    from tensorc.passes.algebra.validate import validate

    found = validate(source, result, request.static)
    if found.outcome is Outcome.FAIL:
        raise BrokenInvariant(
            f"rewriting changed the program: {found}\n\n{show(source)}\n{show(result)}\n"
            "This is a bug in tensorc; please report the program and its sizes."
        )
    return "" if found.passed else found.reason


def _fuse(state: State, request: Request) -> State:
    from tensorc.ir.plan import Planned
    from tensorc.machine.machines import MACHINES
    from tensorc.passes.tiling.choose_plan import Setting, choose_plan

    assert isinstance(state, Program)
    if request.policy == "strict" or not request.by_size:
        return Planned(state, None, (f"{request.words}: reductions stay apart, as written",))
    if MACHINES[request.target.machine].plain != "vector":
        return Planned(state, None, ("kernels for GPUs are planned where they are tiled",))
    target, units = request.target, _units(request)
    setting = Setting(_widths(state, request), units, target.machine, request.static)
    return choose_plan(state, setting, request.cuts)


def _lower(state: State, request: Request) -> State:
    return _tiled(state, request)[0]


def _tiled(state: State, request: Request) -> tuple[TileProgram, Mapping[str, str]]:
    """Level 2, and why kernels of it are not on tensor cores, where others might be."""
    from tensorc.ir.plan import Planned
    from tensorc.passes.tiling.lower import lower
    from tensorc.passes.tiling.tile_fused import tile_fused

    assert isinstance(state, Planned)
    program, units, target = state.program, _units(request), request.target
    if state.plan is not None:
        lanes, static = target.lanes, request.static
        return tile_fused(program, state.plan, lanes, units, target.machine, static), {}
    widths, ordered = _widths(program, request), request.policy == "strict"
    if target.product and not ordered:
        from tensorc.passes.tiling.tile_placed import tile_placed
        from tensorc.solving import solved

        machine, product = target.machine, target.product
        made = tile_placed(program, machine, widths, units, request.static, product, solved)
        return made.program, made.reasons
    return lower(program, widths, units, target.machine, request.static, ordered), {}


def _units(request: Request) -> dict[str, int | None]:
    """The axis with stride 1 of tensors that are not row-major, where layouts may decide."""
    from tensorc.runtime.arrays import unit_axis

    layouts = request.strides.items() if request.by_size else ()
    return {name: unit_axis(strides) for name, strides in layouts}


def _widths(program: Program, request: Request) -> Widths:
    """The register tile of a program: the request's, or where sizes may choose, the best."""
    from tensorc.machine.machines import MACHINES
    from tensorc.passes.tiling.block_sizes import Widths

    target = request.target
    first = Widths(target.lanes, target.vectors, target.rows, target.packed)
    free = request.by_size and request.policy == "fast" and not target.settled
    if not free or target.rows == 1 or not request.static:
        return first
    from tensorc.passes.tiling.register_tiles import best

    return best(program, MACHINES[target.machine], first, _units(request), request.static)


PIPELINE: tuple[Pass, ...] = (
    Pass("needed", _needed, "only the equations that an output needs"),
    Pass("complex_parts", _complex_parts, "complex numbers as pairs of reals"),
    Pass("canonicalise", _canonicalise, "composite reductions as sums, maxima and minima"),
    Pass(
        "saturate",
        _rewrite,
        "the cheapest equal program, where the request asks for it",
        True,
        _same_in_exact_arithmetic,
    ),  # fmt: skip
    Pass("fuse", _fuse, "the kernels of the program, and which reductions share a loop"),
    Pass("lower", _lower, "loops over tiles for every kernel"),
)


@deep()
def run_passes(program: Program, request: Request, steps: list[Step] | None = None) -> TileProgram:
    """The program through every pass, verified after each; what each pass did goes to `steps`.

    TENSORC_DUMP=dir writes the IR after each pass there, TENSORC_PRINT=pass,... prints it on
    stderr, TENSORC_STOP_AFTER=pass ends the process's work there.
    """
    from tensorc.ir.tile import TileProgram

    state: State = program if request.checks else replace(program, checks=())
    request = replace(request, strides=layouts(program, request))
    observe(0, "source", state)
    for number, step in enumerate(PIPELINE, start=1):
        before, (made, killed) = state, _done(step, state, request)
        state, undecided = made.state, ""
        if step.check is not None and request.verify != "off":
            reasons = [step.check(*pair, request) for pair in made.parts]
            undecided = "; ".join(dict.fromkeys(filter(None, reasons)))
        if steps is not None:
            steps.append(_step(step, before, made, killed, undecided))
        observe(number, step.name, state)
        if faults := verify(state):
            raise BrokenInvariant(
                f"after {step.name}:\n" + "\n".join(faults) + f"\n\n{show(state)}\n"
                "This is a bug in tensorc; run again with TENSORC_DUMP=DIR and report the files."
            )
    assert isinstance(state, TileProgram)
    return state


def planned(program: Program, request: Request) -> Planned:
    """The program with the plan beside it: what the passes up to `fuse` make of it."""
    steps: list[Step] = []
    run_passes(program, request, steps)
    return planned_in(steps)


def planned_in(steps: Sequence[Step]) -> Planned:
    """The plan among what passes made."""
    from tensorc.ir.plan import Planned

    (found,) = (step.after for step in steps if isinstance(step.after, Planned))
    return found


def _made(step: Pass, state: State, request: Request) -> Made:
    found = step.run(state, request)
    return found if isinstance(found, Made) else Made(found)


def _done(step: Pass, state: State, request: Request) -> tuple[Made, str]:
    """What a pass made, and why its solver was killed, or ""."""
    from tensorc.worker import JobFailed

    try:
        return _made(step, state, request), ""
    except JobFailed as failed:
        if not step.optional:
            raise
        _LOG.warning(
            "TC-N401 %s: the solver was stopped (%s); the program stays as it is", step.name, failed
        )
        return Made(state), str(failed)


@deep()
def lowered_form(program: Program, request: Request) -> Program:
    """The level-1 program that is lowered to tiles: the source after every pass before that."""
    state: State = program
    for step in takewhile(lambda step: step.name != "fuse", PIPELINE):
        state = _made(step, state, request).state
    assert isinstance(state, Program)
    return state


def _step(done: Pass, before: State, made: Made, killed: str, undecided: str) -> Step:
    from tensorc.explain.subject import Step

    notes = "; ".join(made.notes)
    return Step(done.name, done.purpose, before, made.state, killed, undecided, notes)


@deep()
def explained(program: Program, request: Request) -> Report:
    """Compile once more, and say what every pass did and why the kernels are as they are."""
    from tensorc.explain import Subject, report

    steps: list[Step] = []
    run_passes(program, request, steps)
    machine, strides = request.target.machine, layouts(program, request)
    sizes, numerics = request.static, (request.policy, request.deterministic)
    _, plain = _tiled(steps[-1].before, request)
    return report(Subject(program, tuple(steps), machine, sizes, strides, *numerics, plain))
