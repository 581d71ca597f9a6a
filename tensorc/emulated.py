"""The emulator as a device: a program's CUDA C++ runs on this CPU, with its races, bounds and
barriers checked. It shows that a kernel is right without a GPU; it is not fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tensorc.cuda_ways import choose

if TYPE_CHECKING:
    from tensorc.codegen.cuda_launch import Device
    from tensorc.codegen.driver import Module
    from tensorc.codegen.emulator import Emulator
    from tensorc.prepare import Prepared

Array = npt.NDArray[Any]
_EMULATORS: dict[str, Emulator] = {}
_MODULES: dict[tuple[str, str], Any] = {}
_MOST_MODULES = 256


def run(call: Prepared, arch: str = "sm_90a") -> dict[str, Array]:
    """Run a prepared call in the emulator; fresh outputs by name.

    KernelError: the emulator reports a race, a bad access or a deadlock, which is a bug of ours.
    OutOfRange: a subscript that holds data leaves its tensor.
    """
    device = emulator(arch)
    return run_on(call, arch, device, lambda source: _loaded(device, arch, source))


def run_on(
    call: Prepared, arch: str, device: Device, module_of: Callable[[str], Module]
) -> dict[str, Array]:
    """Run a prepared call on a driver: operands are copied to it, and results back.

    `module_of`: the loaded module of a CUDA C++ source. KernelError: the device's report.
    OutOfRange: a subscript that holds data leaves its tensor.
    """
    from tensorc.codegen.cuda_launch import placed_at
    from tensorc.codegen.cuda_launch import run as launch
    from tensorc.ir.parts import joined, part_names, split
    from tensorc.runtime.compiled import report, table_arrays

    parts = part_names(call.program)
    operands = split({**call.arrays, **table_arrays(call.program)}, parts)
    made = choose(call, arch, {name: placed_at(0, array) for name, array in operands.items()})
    outputs = [tensor.name for tensor in made.code.outputs]
    module, kernels = module_of(made.code.module.text), made.code.module.kernels
    results, failed = launch(device, module, kernels, operands, made.fresh, outputs, made.extents)
    if failed:
        report(call.program, failed, call.arrays, call.extents)
    whole = joined(results, parts)
    return {item.tensor.name: whole[item.tensor.name] for item in call.program.outputs}


def emulator(arch: str) -> Emulator:
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
