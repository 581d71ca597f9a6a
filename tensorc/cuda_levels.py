"""A program as CUDA C++ for an architecture: what is asked of the compiler, and every level of it.

Which of several ways to make its kernels a call takes is `cuda_ways`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tensorc.errors import Unavailable
from tensorc.ir.launch import Strides
from tensorc.ir.tensor import Program
from tensorc.ir.tile import TileProgram
from tensorc.ir.walk_tile import has_fragments

if TYPE_CHECKING:
    from tensorc.codegen.cuda import CudaModule
    from tensorc.explain import Report, Section
    from tensorc.request import Request

CPU = ("native", "cpu")
THREADS = 128  # lanes of a block
# The architectures whose kernels can be emitted, by the machine file that describes them.
MACHINES = {
    "sm_80": "sm_80", "sm_86": "sm_80", "sm_89": "sm_89", "sm_90a": "sm_90a", "sm_120": "sm_89",
}  # fmt: skip
# The product of each machine file whose memory and registers kernels are placed in.
PRODUCTS = {"sm_80": "a100", "sm_89": "rtx4090", "sm_90a": "h100"}
# On which of them products are done by tensor cores, and on whose.
TENSOR_CORES = {
    "sm_80": "a100", "sm_86": "rtx4090", "sm_89": "rtx4090", "sm_120": "rtx4090",
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class CudaLevels:
    """A program lowered for an architecture: its level 2, its CUDA C++, and why they are so."""

    program: Program
    request: Request
    tiles: TileProgram
    module: CudaModule

    @property
    def source(self) -> str:
        """The CUDA C++."""
        return self.module.text

    @property
    def tile(self) -> str:
        """The level-2 text."""
        from tensorc.observe import show

        return show(self.tiles)

    @property
    def report(self) -> Report:
        """Passes, kernels, costs, numerics and hints, and the schedules of kernels that have one;
        made by compiling once more."""
        from tensorc.pipeline import explained

        made = explained(self.program, self.request)
        return replace(made, sections=(*made.sections, *self._schedules()))

    def _schedules(self) -> Iterator[Section]:
        """The section on the kernels whose products are done by tensor cores, if there are any."""
        from tensorc.machine.product import load_product
        from tensorc.solving import pipelines_of, section

        kernels = tuple(kernel for kernel in self.tiles.kernels if has_fragments(kernel))
        if kernels:
            product = load_product(self.request.target.product or PRODUCTS[self.tiles.machine])
            found = pipelines_of(replace(self.tiles, kernels=kernels), product)
            yield section((item, item.reason) for item in found)

    def __repr__(self) -> str:
        static = self.request.static
        sizes = [f"{n}={static[n]}" if n in static else n for n in self.program.extent_of]
        return f"<kernel {self.program.name}[{', '.join(sizes)}] for {self.request.words}>"


def request(
    arch: str, static: Mapping[str, int], strides: Mapping[str, Any], policy: str = "fast",
    deterministic: bool = False, checks: bool = True, hints: Mapping[str, int] | None = None,
    cuts: str | None = None,
) -> Request:  # fmt: skip
    """What a kernel for `arch` is compiled for; "native" and "cpu" are this machine. A
    `deterministic` one fixes no sizes and goes by no hints. `cuts`: where kernels end; None: as is
    usual. Unavailable: an unknown architecture."""
    from tensorc.request import Request, Target, cpu_target

    if arch not in (*CPU, *MACHINES):
        raise Unavailable(f"arch={arch!r}: there are {', '.join((*CPU, *MACHINES))}")
    target = (
        cpu_target()
        if arch in CPU
        else Target(MACHINES[arch], THREADS, product=TENSOR_CORES.get(arch, ""))
    )
    fixed = dict[str, int]() if deterministic else static
    expected = dict[str, int]() if deterministic else dict(hints or {})
    made = Request(
        target, fixed, strides, policy, hints=expected, deterministic=deterministic, checks=checks
    )
    return made if cuts is None else replace(made, cuts=cuts)


def levels(program: Program, wanted: Request) -> CudaLevels:
    """Lower and emit, verified after every pass; plain kernels where those for tensor cores have
    no text yet."""
    from tensorc.pipeline import run_passes
    from tensorc.request import layouts

    tiles, strides = run_passes(program, wanted), layouts(program, wanted)
    try:
        return CudaLevels(program, wanted, tiles, of_tiles(tiles, wanted, strides))
    except NotImplementedError:
        if not wanted.target.product:
            raise
        return levels(program, plain(wanted))


def plain(wanted: Request) -> Request:
    """The same kernels without tensor cores."""
    return replace(wanted, target=replace(wanted.target, product=""))


def with_roles(wanted: Request) -> Request:
    """Kernels of sm_90a with warp groups and tensor maps, which a launcher has to make; they take a
    schedule: seconds, the first time."""
    if wanted.target.machine != "sm_90a":
        return wanted
    return replace(wanted, target=replace(wanted.target, product=PRODUCTS["sm_90a"]))


def of_tiles(
    tiles: TileProgram, wanted: Request, strides: Mapping[str, Strides]
) -> CudaModule:  # fmt: skip
    """The CUDA C++ of a level 2, with kernels for tensor cores placed on the warps of a product
    of their architecture. `strides`: of tensors that are not row-major."""
    from tensorc.codegen.cuda import emit
    from tensorc.passes.tiling.tile_placed import placed
    from tensorc.solving import solved

    product = wanted.target.product or PRODUCTS[tiles.machine]
    placements = [placed(kernel, tiles.machine, product, solved) for kernel in tiles.kernels]
    fast, wide = wanted.policy == "fast", wanted.by_size
    return emit(tiles, wanted.static, strides, placements, fast, wide)
