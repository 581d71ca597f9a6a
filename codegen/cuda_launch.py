"""Launch the kernels of a program on a driver: the emulator, or a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from tensorc.codegen.cuda import CudaKernel
from tensorc.codegen.driver import ELEMENTS, Box, Dim3, Function, Module, Parameter
from tensorc.errors import Unavailable
from tensorc.ir import launch as limits
from tensorc.ir.launch import Map, Slot

Array = npt.NDArray[Any]
ERROR_BYTES = 16  # of the word that failed checks write, and what keeps it aligned


class Launcher(Protocol):
    """What starting kernels needs of a driver."""

    def launch(
        self, function: Function, grid: Dim3, block: Dim3, shared: int,
        parameters: Sequence[Parameter],
    ) -> None: ...  # fmt: skip


@runtime_checkable
class Mapper(Protocol):
    """What kernels with tensor maps need of a driver."""

    def tensor_map(self, address: int, box: Box) -> bytes: ...


class Device(Launcher, Protocol):
    """What running on arrays of this machine's memory needs as well."""

    def alloc(self, nbytes: int) -> int: ...
    def free(self, address: int) -> None: ...
    def write(self, address: int, data: Array) -> None: ...
    def read(self, address: int, nbytes: int) -> bytes: ...


@dataclass(frozen=True)
class Placed:
    """An array in the device's memory: the address of its first element; strides in elements."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] = ()


def launch(
    device: Launcher, module: Module, kernels: Sequence[CudaKernel], arrays: Mapping[str, Placed],
    extents: Mapping[str, int], error: int,
) -> None:  # fmt: skip
    """Start every kernel in order, in several launches where one has not enough blocks. `arrays`:
    of all tensors that kernels know; `error`: the address of the word that failed checks write.
    Unavailable: arrays or sizes of which `misfit` says why."""
    for kernel in kernels:
        blocks = _blocks(kernel, extents)
        values = [_value(slot, arrays, extents, error) for slot in kernel.entry.slots]
        if blocks:
            maps = [_map(device, item, arrays[item.tensor]) for item in kernel.maps]
            _launch(device, module, kernel, blocks, maps, values)


def run(
    device: Device, module: Module, kernels: Sequence[CudaKernel], operands: Mapping[str, Array],
    fresh: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]], outputs: Sequence[str],
    extents: Mapping[str, int],
) -> tuple[dict[str, Array], int]:  # fmt: skip
    """Copy operands in, run every kernel in order, copy outputs out.

    `fresh`: shape and dtype of outputs and workspaces. Returns the outputs and the number of a
    check that failed, or 0.
    """
    owned: list[int] = []

    def alloc(nbytes: int) -> int:
        owned.append(device.alloc(max(16, nbytes)))
        return owned[-1]

    try:
        placed = {name: _put(device, alloc, array) for name, array in operands.items()}
        for name, (shape, dtype) in fresh.items():
            placed[name] = row_major(alloc(prod(shape) * dtype.itemsize), shape)
        error = alloc(ERROR_BYTES)
        device.write(error, np.zeros(2, np.int64))
        launch(device, module, kernels, placed, extents, error)
        results = {name: _get(device, placed[name].address, *fresh[name]) for name in outputs}
        return results, int(np.frombuffer(device.read(error, 8), np.int64)[0])
    finally:
        for address in owned:
            device.free(address)


def _launch(
    device: Launcher, module: Module, kernel: CudaKernel, blocks: int, maps: list[bytes],
    values: list[int],
) -> None:  # fmt: skip
    if fault := _too_many(kernel, blocks):
        raise Unavailable(f"{fault}; call the operator on parts of the arrays")
    blocks = min(blocks, kernel.most) if kernel.most else blocks
    function = module.function(kernel.entry.symbol)
    kinds = [slot.kind for slot in kernel.entry.slots]
    for begin in range(0, blocks, limits.LARGEST_GRID):
        now = [begin if k == "begin" else v for k, v in zip(kinds, values, strict=True)]
        parameters = [*maps, *(np.uint64(value % 2**64) for value in now)]
        count = min(blocks - begin, limits.LARGEST_GRID)
        device.launch(function, (count, 1, 1), (kernel.threads, 1, 1), kernel.shared, parameters)


def _blocks(kernel: CudaKernel, extents: Mapping[str, int]) -> int:
    """The blocks of a kernel's whole grid."""
    return prod(-(-extents[index] // block) for index, block in kernel.entry.grid)


def _too_many(kernel: CudaKernel, blocks: int) -> str:
    """Why a grid is too large, or "": where blocks take several in turn, they count in 32 bits."""
    if not kernel.most or blocks <= limits.LARGEST_GRID:
        return ""
    return f"{kernel.entry.symbol} has {blocks} blocks and counts to {limits.LARGEST_GRID}"


def misfit(
    kernels: Sequence[CudaKernel], arrays: Mapping[str, Placed], extents: Mapping[str, int]
) -> str:
    """Why a tensor map of the kernels cannot be made of these arrays, or a grid is too large for
    blocks that take several in turn, or ""."""
    for kernel in kernels:
        if fault := _too_many(kernel, _blocks(kernel, extents)):
            return fault
    for item in (one for kernel in kernels for one in kernel.maps):
        array = arrays[item.tensor]
        faults = [] if _neighbours(array) else ["its last dimension is not contiguous"]
        faults += _box(item, array).faults()
        faults += [f"address {array.address:#x} is no multiple of 16"] * bool(array.address % 16)
        if faults:
            return f"{item.tensor}: {'; '.join(faults)}"
    return ""


def _neighbours(array: Placed) -> bool:
    """Whether elements of the last dimension lie side by side."""
    return not array.strides or array.strides[-1] == 1 or array.shape[-1] <= 1


def _box(item: Map, array: Placed) -> Box:
    """What a tensor map of an array copies; of an empty one, from which nothing is read, one box.
    Strides of dimensions with one element do not matter, and are what the hardware takes."""
    size, shape = ELEMENTS[item.element][1], array.shape[::-1]
    strides = tuple(
        -(-shape[at] * size // 16) * 16 if shape[at + 1] == 1 else stride * size
        for at, stride in enumerate(array.strides[::-1][1:])
    )
    if not prod(shape):
        shape, strides = tuple(1 for _ in shape), tuple(16 for _ in strides)
    return Box(item.element, shape, strides, item.box[::-1], item.swizzle)


def _map(device: Launcher, item: Map, array: Placed) -> bytes:
    """A tensor map of an array. Unavailable: the device makes none, or none of this array."""
    if not isinstance(device, Mapper):
        raise Unavailable("this device makes no tensor maps")
    if not _neighbours(array):
        raise Unavailable(f"{item.tensor}: its last dimension is not contiguous")
    try:
        return device.tensor_map(array.address, _box(item, array))
    except ValueError as fault:
        raise Unavailable(f"{item.tensor}: {fault}") from None


def row_major(address: int, shape: tuple[int, ...]) -> Placed:
    """A dense array at an address."""
    return Placed(address, shape, tuple(prod(shape[axis + 1 :]) for axis in range(len(shape))))


def placed_at(address: int, array: Array) -> Placed:
    """An array whose memory, from its first byte on, is copied to an address."""
    strides = tuple(stride // array.itemsize for stride in array.strides)
    if not array.size:
        return Placed(address, array.shape, strides)
    low = np.lib.array_utils.byte_bounds(array)[0]
    offset = array.__array_interface__["data"][0] - low
    return Placed(address + offset, array.shape, strides)


def _put(device: Device, alloc: Callable[[int], int], array: Array) -> Placed:
    """Copy the memory that an array spans."""
    if not array.size:
        return placed_at(alloc(0), array)
    low, high = np.lib.array_utils.byte_bounds(array)
    raw = np.zeros(max(16, high - low), np.uint8)
    offset = placed_at(0, array).address
    np.ndarray(array.shape, array.dtype, raw.data, offset, array.strides)[...] = array
    address = alloc(len(raw))
    device.write(address, raw)
    return placed_at(address, array)


def _get(device: Device, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    nbytes = prod(shape) * dtype.itemsize
    if not nbytes:
        return np.empty(shape, dtype)
    return np.frombuffer(device.read(address, nbytes), dtype).reshape(shape).copy()


def _value(slot: Slot, arrays: Mapping[str, Placed], extents: Mapping[str, int], error: int) -> int:
    match slot.kind:
        case "error":
            return error
        case "begin":
            return 0
        case "extent":
            return extents[slot.name]
        case "pointer":
            return arrays[slot.name].address
        case "size":
            return arrays[slot.name].shape[slot.axis]
        case "stride":
            return arrays[slot.name].strides[slot.axis]
        case other:
            raise ValueError(f"a kernel takes a {other}, which no launch gives")
