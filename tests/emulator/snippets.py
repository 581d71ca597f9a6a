"""Small kernels inside tests: arrays in, arrays and reports out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorc.codegen.driver import Dim3, Parameter
from tensorc.codegen.emulator import Mode
from tensorc.codegen.emulator_report import Outcome
from tests.emulator.running import Array, Arrays, emulator


@dataclass(frozen=True)
class Out:
    """An array that the kernel writes; it starts as `fill`, or uninitialised without one."""

    shape: tuple[int, ...]
    dtype: Any = np.float32
    fill: float | None = None


@dataclass(frozen=True)
class Map:
    """A tensor map of the array or output at position `of` among the arguments."""

    of: int
    box: tuple[int, ...]
    swizzle: int = 0


Argument = Array | Out | Map | np.generic


def call(
    arch: str,
    text: str,
    arguments: Sequence[Argument],
    threads: int = 32,
    shared: int = 0,
    grid: Dim3 = (1, 1, 1),
    mode: Mode | None = None,
    defines: Sequence[str] = (),
) -> tuple[list[Array], Outcome]:
    """Run the kernel `test` of a source without its include line: outputs in order, reports."""
    device = emulator(arch)
    image = device.compile('#include "device.cuh"\n' + text, "test.cu", defines)
    kernel = device.load(image).function("test")
    with Arrays(device) as arrays:
        addresses = [_placed(arrays, item) for item in arguments]
        parameters = [_parameter(arrays, item, addresses, arguments) for item in arguments]
        outcome = device.run(kernel, grid, (threads, 1, 1), shared, parameters, mode or Mode())
        outputs = [
            arrays.get(address, item.shape, np.dtype(item.dtype)).copy()
            for item, address in zip(arguments, addresses, strict=True)
            if isinstance(item, Out)
        ]
    return outputs, outcome


def clean(arch: str, text: str, arguments: Sequence[Argument], **launch: Any) -> list[Array]:
    """Like `call`, on four seeds, each without a report and all with equal outputs."""
    first: list[Array] = []
    for seed in range(4):
        outputs, outcome = call(arch, text, arguments, mode=Mode(seed=seed), **launch)
        assert outcome.clean, f"seed {seed}\n{outcome}"
        first = first or outputs
        for mine, theirs in zip(outputs, first, strict=True):
            assert mine.tobytes() == theirs.tobytes(), f"seed {seed} differs"
    return first


def told(arch: str, text: str, arguments: Sequence[Argument], **launch: Any) -> str:
    """The reports of `call` on four seeds, which must each have some; the last seed's."""
    outcome = Outcome()
    for seed in range(4):
        _, outcome = call(arch, text, arguments, mode=Mode(seed=seed, steps=200_000), **launch)
        assert not outcome.clean, f"no report on seed {seed}"
    return str(outcome)


def _placed(arrays: Arrays, item: Argument) -> int:
    if isinstance(item, np.ndarray):
        return arrays.put(item)
    if isinstance(item, Out):
        dtype = np.dtype(item.dtype)
        if item.fill is not None:
            return arrays.put(np.full(item.shape, item.fill, dtype))
        return arrays.empty(math.prod(item.shape) * dtype.itemsize)
    return 0


def _parameter(
    arrays: Arrays, item: Argument, addresses: list[int], arguments: Sequence[Argument]
) -> Parameter:
    if isinstance(item, Map):
        of = arguments[item.of]
        assert isinstance(of, np.ndarray | Out)
        dtype = np.dtype(of.dtype)
        return arrays.map_of(addresses[item.of], of.shape, dtype, item.box, item.swizzle)
    if isinstance(item, np.generic):
        return item
    position = next(i for i, other in enumerate(arguments) if other is item)
    return np.uint64(addresses[position])
