"""What a device offers to whoever launches kernels: one interface for the emulator and for CUDA.

It follows the CUDA driver's: modules, functions, device memory by address, tensor maps of 128
bytes, launches with a grid, a block, dynamic shared memory and packed parameters. It knows nothing
of arrays, dtypes or operators; `runtime` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

Dim3 = tuple[int, int, int]

SWIZZLE_SPANS = (0, 32, 64, 128)
"""Bytes of a swizzle pattern's row, by its code in the driver's enumeration."""

ELEMENTS: dict[str, tuple[int, int]] = {
    "u8": (0, 1),
    "u16": (1, 2),
    "u32": (2, 4),
    "s32": (3, 4),
    "u64": (4, 8),
    "s64": (5, 8),
    "f16": (6, 2),
    "f32": (7, 4),
    "f64": (8, 8),
    "bf16": (9, 2),
}
"""Element type of a tensor map: its code in the driver's CUtensorMapDataType, and its bytes."""


@dataclass(frozen=True)
class Box:
    """The boxes that a tensor map copies: everything but the array's address.

    `shape`, `box` and `strides` list the fastest dimension first, as the hardware does; `strides`
    are in bytes and leave out the first dimension, which is contiguous.
    """

    element: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 128

    def faults(self) -> list[str]:
        """Every rule of the hardware that this map breaks, as sentences with numbers."""
        if self.element not in ELEMENTS:
            return [f"no tensor map has elements of type {self.element}"]
        rank, size = len(self.shape), ELEMENTS[self.element][1]
        if not 1 <= rank <= 5 or len(self.box) != rank or len(self.strides) != rank - 1:
            return [f"rank {rank}: shape, box and strides must have 1 to 5, as many, and one fewer"]
        inner = self.box[0] * size
        rules = [
            (self.swizzle in SWIZZLE_SPANS, f"swizzle {self.swizzle}: must be 0, 32, 64 or 128"),
            (all(0 < n < 1 << 32 for n in self.shape), f"shape {self.shape}: 1 to 2^32 - 1 each"),
            (all(1 <= n <= 256 for n in self.box), f"box {self.box}: 1 to 256 in each dimension"),
            (
                all(s % 16 == 0 and 0 < s < 1 << 40 for s in self.strides),
                f"strides {self.strides}: multiples of 16 bytes below 2^40",
            ),
            (inner % 16 == 0, f"a box row has {inner} bytes: must be a multiple of 16"),
            (
                not self.swizzle or inner <= self.swizzle,
                f"a box row has {inner} bytes, more than its swizzle of {self.swizzle}",
            ),
        ]
        return [sentence for holds, sentence in rules if not holds]


class Module(Protocol):
    """Compiled code on a device."""

    def function(self, name: str) -> Function:
        """The kernel of that name; `KernelError` if there is none."""
        ...


class Function(Protocol):
    """A kernel of a module."""

    @property
    def name(self) -> str: ...


Parameter = bytes | np.generic
"""One kernel parameter by value: a NumPy scalar (a pointer is `np.uint64`), or raw bytes."""


class Driver(Protocol):
    """A device: CUDA through its driver, or the emulator."""

    def load(self, image: bytes) -> Module:
        """A module from what this device's compiler made."""
        ...

    def alloc(self, nbytes: int) -> int:
        """Device memory, 256-byte aligned; its address."""
        ...

    def free(self, address: int) -> None: ...

    def write(self, address: int, data: bytes | memoryview | np.ndarray) -> None:
        """Copy host bytes to device memory."""
        ...

    def read(self, address: int, nbytes: int) -> bytes:
        """Copy device memory to the host."""
        ...

    def tensor_map(self, address: int, box: Box) -> bytes:
        """The 128 bytes that a kernel takes as CUtensorMap; `ValueError` lists the faults."""
        ...

    def launch(
        self,
        function: Function,
        grid: Dim3,
        block: Dim3,
        shared: int,
        parameters: Sequence[Parameter],
    ) -> None:
        """Run a kernel to its end; `KernelError` if it fails."""
        ...


def packed(parameter: Parameter) -> bytes:
    """The bytes of a parameter as the kernel reads them."""
    return parameter if isinstance(parameter, bytes) else parameter.tobytes()
