"""The driver: a level-1 program through the visible list of passes to a kernel that runs.

`PIPELINE` is the only place that knows the order of passes. After every pass the IR's verifier
runs; what it finds is a bug of ours and raises BrokenInvariant with the IR.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from tensorc.errors import BrokenInvariant
from tensorc.ir.accept import Outcome
from tensorc.ir.launch import Launch, Strides
from tensorc.ir.node import compact
from tensorc.ir.strict_json import Json
from tensorc.ir.tensor import Program
from tensorc.observe import State, observe, observed, show, verify
from tensorc.progress import progress
from tensorc.runtime.compiled import Compiled
from tensorc.runtime.cpu import CpuKernel
from tensorc.runtime.keys import kernel_key
from tensorc.runtime.launch_json import from_json, to_json
from tensorc.runtime.verdict import Verified, of_passes
from tensorc.runtime.verdict import from_json as verdict_of

if TYPE_CHECKING:
    from tensorc.codegen.llvm import Module
    from tensorc.explain import Report, Step
    from tensorc.ir.plan import Planned
    from tensorc.ir.tile import TileProgram
    from tensorc.passes.tiling.lower import Widths
    from tensorc.runtime.cache import Stored

_LOG = logging.getLogger("tensorc")
REWRITE = True  # whether programs pass through the algebra unless a request says otherwise
CUTS = "cost"  # where kernels end unless a request says otherwise: see `passes.tiling.choose_plan`
SECONDS = 10.0  # after which a solver is killed; its pass then leaves the program as it is
WORTH = 0.95  # of the cost as written: what is saved has to be more than guesses of costs are wrong


@dataclass(frozen=True)
class Target:
    """What is compiled for: the machine file, lanes of 32 bits in one of its vectors, and the
    register tile in which rows share what they read: `vectors` side by side in `rows` rows.
    `product`: a GPU on whose tensor cores products are done ("": on none)."""

    machine: str
    lanes: int
    vectors: int = 1
    rows: int = 1
    product: str = ""


@dataclass(frozen=True)
class Request:
    """Everything that the text of a kernel depends on, beside the program.

    `static`: extents fixed in the kernel. `multiples`: of others, the numbers that they are
    multiples of. `hints`: sizes at which costs are compared where extents are not fixed; such a
    kernel is for extents of at least 1. `strides`: of parameters that are not row-major.
    `policy`: "fast" or "strict". `rewrite`: let the algebra choose a cheaper equal program; only
    under "fast", and where `static` and `hints` have all extents. `deterministic`: nothing that
    changes a float result may be chosen by sizes or layouts. `checks`: compare subscripts that
    hold data. `verify`: see `runtime.verdict`; no text depends on it. `cuts`: where kernels end,
    "cost", "none" or "all"; on a CPU and under "fast" alone.
    """

    target: Target
    static: Mapping[str, int]
    strides: Mapping[str, Strides] = field(default_factory=dict[str, Strides])
    policy: str = "fast"
    multiples: Mapping[str, int] = field(default_factory=dict[str, int])
    hints: Mapping[str, int] = field(default_factory=dict[str, int])
    rewrite: bool = field(default_factory=lambda: REWRITE)
    deterministic: bool = False
    checks: bool = True
    verify: str = "cheap"
    cuts: str = field(default_factory=lambda: CUTS)

    def __post_init__(self) -> None:
        if self.deterministic and (self.static or self.multiples or self.hints):
            raise ValueError("a deterministic kernel serves all sizes; none is fixed in it")

    @property
    def words(self) -> str:
        """The machine and the numerics, for people."""
        words = [self.target.machine, self.policy, *["deterministic"] * self.deterministic]
        return ", ".join(words)

    @property
    def by_size(self) -> bool:
        """Whether passes may choose by sizes and layouts what changes the bits of a result."""
        return not self.deterministic


@dataclass(frozen=True)
class Made:
    """What a pass made, and the programs in it (before, after) that have to be compared."""

    state: State
    parts: tuple[tuple[Program, Program], ...] = ()


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
    return Made(made.program, made.parts)


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
    setting = Setting(_widths(request), units, target.machine, request.static)
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
    widths, ordered = _widths(request), request.policy == "strict"
    if target.product and not ordered:
        from tensorc.passes.tiling.tile_placed import tile_placed

        made = tile_placed(program, target.machine, widths, units, request.static, target.product)
        return made.program, made.reasons
    return lower(program, widths, units, target.machine, request.static, ordered), {}


def _units(request: Request) -> dict[str, int | None]:
    """The axis with stride 1 of tensors that are not row-major, where layouts may decide."""
    from tensorc.runtime.arrays import unit_axis

    layouts = request.strides.items() if request.by_size else ()
    return {name: unit_axis(strides) for name, strides in layouts}


def _widths(request: Request) -> Widths:
    from tensorc.passes.tiling.lower import Widths

    target = request.target
    return Widths(target.lanes, target.vectors, target.rows)


def layouts(program: Program, request: Request) -> dict[str, Strides]:
    """The strides that a kernel is compiled for: those of the request, and those of the parts of
    complex arrays. On a CPU parts lie between each other; elsewhere they may have been copied."""
    from tensorc.ir.parts import part_names
    from tensorc.machine.machines import MACHINES

    between = MACHINES[request.target.machine].plain == "vector"
    found = dict(request.strides)
    memory = [item.tensor for item in (*program.parameters, *program.outputs)]
    names = part_names(program)
    for tensor in memory:
        if tensor.name in names:
            dense = (*(None,) * (len(tensor.shape) - 1), 1)[: len(tensor.shape)]
            known = found.pop(tensor.name, dense)
            steps = known if between else [0 if stride == 0 else None for stride in known]
            strides = tuple(None if stride is None else 2 * stride for stride in steps)
            found.update(dict.fromkeys(names[tensor.name], strides))
    return found


PIPELINE: tuple[Pass, ...] = (
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
            steps.append(_step(step, before, state, killed, undecided))
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
            "%s: the solver was stopped (%s); the program stays as it is", step.name, failed
        )
        return Made(state), str(failed)


def lowered_form(program: Program, request: Request) -> Program:
    """The level-1 program that is lowered to tiles: the source after every pass before that."""
    state: State = program
    for step in takewhile(lambda step: step.name != "fuse", PIPELINE):
        state = _made(step, state, request).state
    assert isinstance(state, Program)
    return state


def _step(done: Pass, before: State, after: State, killed: str, undecided: str) -> Step:
    from tensorc.explain.subject import Step

    return Step(done.name, done.purpose, before, after, killed, undecided)


def explained(program: Program, request: Request) -> Report:
    """Compile once more, and say what every pass did and why the kernels are as they are."""
    from tensorc.explain import Subject, report

    steps: list[Step] = []
    run_passes(program, request, steps)
    machine, strides = request.target.machine, layouts(program, request)
    sizes, numerics = request.static, (request.policy, request.deterministic)
    _, plain = _tiled(steps[-1].before, request)
    return report(Subject(program, tuple(steps), machine, sizes, strides, *numerics, plain))


def cpu_target() -> Target:
    """This machine's vectors, from its CPU features."""
    from tensorc.libraries import llvm

    features = llvm().get_host_cpu_features()
    if features.get("avx512f"):
        return Target("avx512", 16, 4, 6)
    if features.get("avx2") and features.get("fma"):
        return Target("avx2", 8, 2, 6)
    return Target("generic", 4, 2, 3)


def compile_cpu(program: Program, request: Request) -> Compiled:
    """Compile for this machine's CPU, or take the kernel from the cache."""
    from tensorc.runtime import cache

    levels = _Levels(program, request)
    key = _key(program, request)
    found = None if observed() else cache.load(key)
    if found is not None and (request.verify == "off" or _verdict(found).reaches("cheap")):
        return _loaded(found, levels)
    with progress(f"compiling {program.name}"):
        launch, code = levels.launch(), levels.code()
    verdict = levels.verdict
    if verdict.outcome is Outcome.UNDECIDED and request.verify != "off":
        _LOG.warning("%s: the rewritten program was not verified: %s", program.name, verdict.reason)
    if not levels.killed:  # else the next process may find the right answer
        cache.store(key, cache.Stored({**to_json(launch), _VERDICT: verdict.to_json()}, code))
    compact()
    return Compiled(program, launch, CpuKernel(code, launch.entries), levels)


def _hinted(program: Program, request: Request) -> bool:
    """Whether costs are compared at the hints: the algebra is asked, and extents are open."""
    if not request.rewrite or request.policy != "fast" or not request.by_size:
        return False
    if set(request.static) == set(program.extent_of):
        return False
    from tensorc.passes.algebra.worth import worth_encoding

    return worth_encoding(program)


_APART = (
    "target",
    "static",
    "strides",
    "multiples",
    "hints",
    "verify",
)  # fields of a request that a key spells in its own way


def _key(program: Program, request: Request) -> dict[str, Json]:
    from tensorc.codegen.llvm_jit import native, version

    cpu: dict[str, Json] = {**asdict(native()), "llvm": version()}
    options: dict[str, Json] = {
        **asdict(request.target),
        "multiples": dict(request.multiples),
        "hints": dict(request.hints) if _hinted(program, request) else {},
        **{name: value for name, value in vars(request).items() if name not in _APART},
    }
    return kernel_key(program, request.static, request.strides, options, cpu)


_VERDICT = "verdict"  # its place in what is stored


def _verdict(found: Stored) -> Verified:
    return verdict_of(found.about[_VERDICT])


def _loaded(found: Stored, levels: _Levels) -> Compiled:
    launch = from_json(found.about)
    levels.verdict = _verdict(found)
    return Compiled(levels.program, launch, CpuKernel(found.code, launch.entries), levels)


class _Levels:
    """The levels of a program below the first, each made once, when it is needed."""

    def __init__(self, program: Program, request: Request) -> None:
        self.program, self.request = program, request
        self._steps: list[Step] = []
        self._verdict: Verified | None = None
        self._tiles: TileProgram | None = None
        self._module: Module | None = None

    @property
    def tiles(self) -> TileProgram:
        if self._tiles is None:
            self._tiles = run_passes(self.program, self.request, self._steps)
        return self._tiles

    @property
    def fused(self) -> TileProgram | None:
        tiles = self.tiles
        return None if planned_in(self._steps).plan is None else tiles

    @property
    def verdict(self) -> Verified:
        """What is known of the kernel's rightness."""
        if self._verdict is None:
            undecided = [step.undecided for step in self._steps if step.undecided]
            self._verdict = of_passes(self.request.verify, undecided)
        return self._verdict

    @verdict.setter
    def verdict(self, found: Verified) -> None:
        self._verdict = found

    def judged(self, found: Verified) -> None:
        """Keep what a call has shown of the kernel, here and beside its code on the disk."""
        from tensorc.runtime import cache

        self._verdict = found
        key = _key(self.program, self.request)
        stored = cache.load(key)
        if stored is not None:
            about = {**stored.about, _VERDICT: found.to_json()}
            cache.store(key, cache.Stored(about, stored.code))

    @property
    def killed(self) -> bool:
        """Whether a solver was stopped by the clock or died: the kernel is right but not the
        answer of the next compile."""
        return any(step.killed for step in self._steps)

    @property
    def module(self) -> Module:
        if self._module is None:
            self._module = self._emitted()
        return self._module

    def _emitted(self) -> Module:
        from tensorc.codegen.llvm import Options, emit

        request = self.request
        strides = layouts(self.program, request)
        contract = request.policy == "fast"
        return emit(
            self.tiles, Options(request.static, strides, contract, multiples=request.multiples)
        )

    @property
    def form(self) -> Program:
        return lowered_form(self.program, self.request)

    @property
    def llvm(self) -> str:
        return self.module.text

    @property
    def static(self) -> Mapping[str, int]:
        return self.request.static

    @property
    def general(self) -> Compiled | None:
        if not _hinted(self.program, self.request) or not self.request.hints:
            return None
        return compile_cpu(self.program, replace(self.request, hints={}))

    @property
    def strides(self) -> Mapping[str, Strides]:
        return self.request.strides

    @property
    def target(self) -> str:
        return self.request.words

    @property
    def report(self) -> Report:
        return explained(self.program, self.request)

    def launch(self) -> Launch:
        from tensorc.passes.tiling.weigh import weigh

        tiles = self.tiles
        weighed = ((f"kernel_{n}", weigh(kernel)) for n, kernel in enumerate(tiles.kernels))
        weights = tuple((symbol, weight) for symbol, weight in weighed if weight is not None)
        return Launch(self.module.entries, tiles.workspaces, tiles.extents, weights)

    def code(self) -> bytes:
        from tensorc.codegen.llvm_jit import native, object_code

        return object_code(self.module.text, native())
