"""Launch the kernels of a program on a driver: the emulator, or a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tensorc.codegen.cuda import CudaKernel
from tensorc.codegen.driver import Dim3, Function, Module, Parameter
from tensorc.ir.launch import Slot

Array = npt.NDArray[Any]
LARGEST_GRID = 2**31 - 1  # blocks along x


class Device(Protocol):
    """What launching needs of a driver."""

    def alloc(self, nbytes: int) -> int: ...
    def free(self, address: int) -> None: ...
    def write(self, address: int, data: Array) -> None: ...
    def read(self, address: int, nbytes: int) -> bytes: ...
    def launch(
        self, function: Function, grid: Dim3, block: Dim3, shared: int,
        parameters: Sequence[Parameter],
    ) -> None: ...  # fmt: skip


def run(
    device: Device, module: Module, kernels: Sequence[CudaKernel], operands: Mapping[str, Array],
    fresh: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]], outputs: Sequence[str],
    extents: Mapping[str, int],
) -> tuple[dict[str, Array], int]:  # fmt: skip
    """Copy operands in, run every kernel in order, copy outputs out.

    `fresh`: shape and dtype of outputs and workspaces. Returns the outputs and the number of a
    check that failed, or 0.
    """
    strides = {name: array.strides for name, array in operands.items()}
    shapes = {name: array.shape for name, array in operands.items()}
    shapes.update((name, shape) for name, (shape, _) in fresh.items())
    addresses: dict[str, int] = {}
    try:
        origins = {name: _put(device, addresses, name, item) for name, item in operands.items()}
        for name, (shape, dtype) in fresh.items():
            addresses[name] = origins[name] = device.alloc(max(16, prod(shape) * dtype.itemsize))
        addresses[""] = device.alloc(16)
        device.write(addresses[""], np.zeros(2, np.int64))
        sizes = {name: array.itemsize for name, array in operands.items()}
        for kernel in kernels:
            blocks = prod(-(-extents[index] // block) for index, block in kernel.entry.grid)
            values = [
                _value(slot, origins, shapes, strides, sizes, extents, addresses[""])
                for slot in kernel.entry.slots
            ]
            _launch(device, module, kernel, blocks, values)
        results = {name: _get(device, addresses[name], *fresh[name]) for name in outputs}
        failed = int(np.frombuffer(device.read(addresses[""], 8), np.int64)[0])
        return results, failed
    finally:
        for address in addresses.values():
            device.free(address)


def _launch(
    device: Device, module: Module, kernel: CudaKernel, blocks: int, values: list[int]
) -> None:
    if not blocks:
        return
    if blocks > LARGEST_GRID:
        raise NotImplementedError(
            f"a grid of {blocks} blocks; at most {LARGEST_GRID} in one launch"
        )
    parameters = [np.uint64(value % 2**64) for value in values]
    function = module.function(kernel.entry.symbol)
    device.launch(function, (blocks, 1, 1), (kernel.threads, 1, 1), kernel.shared, parameters)


def _put(device: Device, addresses: dict[str, int], name: str, array: Array) -> int:
    """Copy the memory that an array spans; returns the address of its element 0."""
    if not array.size:
        addresses[name] = device.alloc(16)
        return addresses[name]
    low, high = np.lib.array_utils.byte_bounds(array)
    offset = array.__array_interface__["data"][0] - low
    raw = np.zeros(max(16, high - low), np.uint8)
    np.ndarray(array.shape, array.dtype, raw.data, offset, array.strides)[...] = array
    addresses[name] = device.alloc(len(raw))
    device.write(addresses[name], raw)
    return addresses[name] + offset


def _get(device: Device, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    nbytes = prod(shape) * dtype.itemsize
    if not nbytes:
        return np.empty(shape, dtype)
    return np.frombuffer(device.read(address, nbytes), dtype).reshape(shape).copy()


def _value(
    slot: Slot, origins: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]],
    strides: Mapping[str, tuple[int, ...]], sizes: Mapping[str, int],
    extents: Mapping[str, int], error: int,
) -> int:  # fmt: skip
    if slot.kind == "error":
        return error
    if slot.kind == "extent":
        return extents[slot.name]
    if slot.kind == "pointer":
        return origins[slot.name]
    if slot.kind == "size":
        return shapes[slot.name][slot.axis]
    return strides[slot.name][slot.axis] // sizes[slot.name]
