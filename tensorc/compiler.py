"""A level-1 program to a kernel for this machine's CPU, or the same kernel from the cache."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from tensorc.depth import deep
from tensorc.ir.accept import Outcome
from tensorc.ir.launch import Launch, Strides
from tensorc.ir.node import compact
from tensorc.ir.strict_json import Json
from tensorc.ir.tensor import Program
from tensorc.observe import observed
from tensorc.pipeline import explained, lowered_form, planned_in, run_passes
from tensorc.progress import progress
from tensorc.request import Request, layouts
from tensorc.runtime.compiled import Compiled
from tensorc.runtime.cpu import CpuKernel
from tensorc.runtime.keys import kernel_key
from tensorc.runtime.launch_json import from_json, to_json
from tensorc.runtime.verdict import Verified, of_passes
from tensorc.runtime.verdict import from_json as verdict_of

if TYPE_CHECKING:
    from tensorc.codegen.llvm import Module
    from tensorc.explain import Report, Step
    from tensorc.ir.tile import TileProgram
    from tensorc.runtime.cache import Stored

_LOG = logging.getLogger("tensorc")


@deep()
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
