"""The emulator as a device: a program's CUDA C++ runs on this CPU, with its races, bounds and
barriers checked. It shows that a kernel is right without a GPU; it is not fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorc.errors import Unavailable
from tensorc.ir.launch import Strides
from tensorc.ir.tensor import Program, Tensor
from tensorc.ir.tile import TileProgram
from tensorc.ir.walk_tile import has_fragments

if TYPE_CHECKING:
    from tensorc.codegen.cuda import CudaModule
    from tensorc.codegen.cuda_launch import Device
    from tensorc.codegen.driver import Module
    from tensorc.codegen.emulator import Emulator
    from tensorc.explain import Report, Section
    from tensorc.prepare import Prepared
    from tensorc.request import Request

Array = npt.NDArray[Any]
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
_EMULATORS: dict[str, Emulator] = {}
_MODULES: dict[tuple[str, str], Any] = {}
_MOST_MODULES = 256


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
    """Kernels of sm_90a with warp groups and tensor maps, which a launcher has to make. Calls have
    plain kernels so far, since these take a schedule: seconds, the first time."""
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

    product = wanted.target.product or PRODUCTS[tiles.machine]
    placements = [placed(kernel, tiles.machine, product) for kernel in tiles.kernels]
    return emit(tiles, wanted.static, strides, placements, wanted.policy == "fast")


def run(call: Prepared, arch: str = "sm_90a") -> dict[str, Array]:
    """Run a prepared call in the emulator; fresh outputs by name.

    KernelError: the emulator reports a race, a bad access or a deadlock, which is a bug of ours.
    OutOfRange: a subscript that holds data leaves its tensor.
    """
    device = _emulator(arch)
    return run_on(call, arch, device, lambda source: _loaded(device, arch, source))


def run_on(
    call: Prepared, arch: str, device: Device, module_of: Callable[[str], Module]
) -> dict[str, Array]:
    """Run a prepared call on a driver: operands are copied to it, and results back.

    `module_of`: the loaded module of a CUDA C++ source. KernelError: the device's report.
    OutOfRange: a subscript that holds data leaves its tensor.
    """
    from tensorc.codegen.cuda_launch import run as launch
    from tensorc.ir.parts import part_names
    from tensorc.runtime.compiled import report, table_arrays

    made = levels(call.program, request_of(call, arch))
    outputs = [item.tensor.name for item in made.tiles.outputs]
    extents, fresh = sizes_of(call, made.tiles)
    parts = part_names(call.program)
    operands = _in_parts({**call.arrays, **table_arrays(call.program)}, parts)
    module = module_of(made.source)
    results, failed = launch(device, module, made.module.kernels, operands, fresh, outputs, extents)
    if failed:
        report(call.program, failed, call.arrays, call.extents)
    return _whole(results, parts, [item.tensor for item in call.program.outputs])


def request_of(call: Prepared, arch: str) -> Request:
    return request(arch, call.extents, call.strides, call.policy, call.deterministic, call.checks)


def _in_parts(
    arrays: Mapping[str, Array], parts: Mapping[str, tuple[str, str]]
) -> dict[str, Array]:
    """The arrays as kernels know them: of a complex one, its two parts."""
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        if name in parts:
            real, imaginary = parts[name]
            whole: Any = array
            found[real], found[imaginary] = whole.real, whole.imag
        else:
            found[name] = array
    return found


def _whole(
    results: Mapping[str, Array], parts: Mapping[str, tuple[str, str]], outputs: Sequence[Tensor]
) -> dict[str, Array]:
    """The outputs, complex ones put together."""
    found: dict[str, Array] = {}
    for tensor in outputs:
        if tensor.name in parts:
            real, imaginary = (results[name] for name in parts[tensor.name])
            array: Any = np.empty(real.shape, tensor.dtype.name)
            array.real, array.imag = real, imaginary
            found[tensor.name] = array
        else:
            found[tensor.name] = results[tensor.name]
    return found


def sizes_of(
    call: Prepared, tiles: TileProgram
) -> tuple[dict[str, int], dict[str, tuple[tuple[int, ...], Any]]]:
    """Every extent, and shape and dtype of what the kernels write."""
    from tensorc.ir.polynomial import Symbol, evaluate
    from tensorc.ir.rounding import numpy_dtype
    from tensorc.runtime.compiled import const_values

    known = {Symbol(name, "extent"): size for name, size in call.extents.items()}
    values = const_values(call.program, call.arrays)
    known.update({Symbol(name, "parameter"): value for name, value in values.items()})
    added = {n: evaluate(s, known) for n, s in tiles.extents if n not in call.extents}

    def shape(tensor: Tensor) -> tuple[int, ...]:
        return tuple(evaluate(size, known) for size in tensor.shape)

    written = (*tiles.workspaces, *(item.tensor for item in tiles.outputs))
    fresh = {t.name: (shape(t), numpy_dtype(t.dtype)) for t in written}
    return {**call.extents, **added}, fresh


def _emulator(arch: str) -> Emulator:
    """One emulator for each architecture in a process."""
    from tensorc.codegen.emulator import Emulator

    if arch not in _EMULATORS:
        _EMULATORS[arch] = Emulator("sm_80" if arch in ("sm_86", "sm_89", "sm_120") else arch)
    return _EMULATORS[arch]


def _loaded(device: Emulator, arch: str, source: str) -> Any:
    """The module of a source, built once in a process."""
    if (arch, source) not in _MODULES:
        if len(_MODULES) >= _MOST_MODULES:
            _MODULES.clear()
        _MODULES[arch, source] = device.load(device.compile(source))
    return _MODULES[arch, source]
