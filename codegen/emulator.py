"""The emulator as a device: it runs CUDA kernels on the CPU and objects to what hardware forgives.

    device = Emulator(arch="sm_90a")
    kernel = device.load(device.compile(source)).function("gemm")
    device.launch(kernel, (132, 1, 1), (384, 1, 1), 229440, parameters)  # KernelError on a report
    outcome = device.run(kernel, ...)  # or look at the reports

A kernel is C++ that includes device.cuh and calls tc_* helpers. What the emulator checks, and how,
is written in codegen/emulator_*.h.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tensorc.codegen.driver import ELEMENTS, SWIZZLE_SPANS, Box, Dim3, Function, Parameter, packed
from tensorc.codegen.emulator_build import (
    Compiler,
    build_kernel,
    build_worker,
    find_kernels,
    store_library,
)
from tensorc.codegen.emulator_report import Departure, Outcome, outcome_of
from tensorc.codegen.emulator_time import Rates
from tensorc.codegen.emulator_worker import HEAP_ADDRESS, DeviceMemory, Worker
from tensorc.errors import KernelError

_KINDS = {"f32": 1, "f16": 2, "bf16": 3}
_MAP_MAGIC = 0x7EC0DE01
_IMAGE = "tensorc-emulator-image-1"


@dataclass(frozen=True)
class EmulatedKernel:
    """A kernel of a library that was built for the emulator."""

    library: Path
    name: str


@dataclass(frozen=True)
class EmulatedModule:
    """A library of kernels."""

    library: Path
    names: tuple[str, ...]

    def function(self, name: str) -> EmulatedKernel:
        if name not in self.names:
            raise KernelError(f"no kernel {name} here; there are {', '.join(self.names)}")
        return EmulatedKernel(self.library, name)


@dataclass(frozen=True)
class Mode:
    """How a launch runs.

    seed: of the interleaving. record: give `Outcome.taken`. follow: departures to take instead of
    the seed's policy (`Outcome.taken` of an earlier launch, or part of it). counting: bank
    conflicts and transactions. rates: virtual time. steps: scheduling steps after which a launch is
    a livelock. seconds: after which it is killed.
    """

    seed: int = 0
    record: bool = False
    follow: tuple[Departure, ...] | None = None
    counting: bool = False
    rates: Rates | None = None
    steps: int = 200_000_000
    seconds: float = 120.0


class Emulator:
    """A `Driver` for kernels compiled for the host; `arch` decides which helpers exist."""

    def __init__(
        self, arch: str = "sm_90a", mode: Mode | None = None, portable: bool = False
    ) -> None:
        self.arch, self.mode = arch, mode or Mode()
        self.memory = DeviceMemory()
        self._worker = Worker(build_worker(portable=portable), self.memory)
        self._close = weakref.finalize(self, _close, self._worker, self.memory)

    def close(self) -> None:
        """End the worker and give device memory back."""
        self._close()

    def compile(
        self,
        source: str,
        name: str = "kernel.cu",
        defines: Sequence[str] = (),
        compiler: Compiler | None = None,
    ) -> bytes:
        """A kernel's source to an image for `load`; `KernelError` with the compiler's text.

        The image is whole: it holds the compiled library and may be stored anywhere.
        """
        library = build_kernel(source, self.arch, name, defines, compiler)
        names = " ".join(kernel.name for kernel in find_kernels(source))
        return f"{_IMAGE} {names}\n".encode() + library.read_bytes()

    def load(self, image: bytes) -> EmulatedModule:
        head, _, code = image.partition(b"\n")
        mark, *names = head.decode(errors="replace").split(" ")
        if mark != _IMAGE:
            raise KernelError("this image was not compiled for the emulator")
        return EmulatedModule(store_library(code), tuple(names))

    def alloc(self, nbytes: int) -> int:
        return self.memory.alloc(nbytes)

    def free(self, address: int) -> None:
        self.memory.free(address)

    def write(self, address: int, data: bytes | memoryview | np.ndarray) -> None:
        raw = data.tobytes() if isinstance(data, np.ndarray) else bytes(data)
        self.memory.initialised.add(self.memory.buffer_of(address, len(raw)))
        offset = address - HEAP_ADDRESS
        self.memory.bytes[offset : offset + len(raw)] = raw

    def read(self, address: int, nbytes: int) -> bytes:
        self.memory.buffer_of(address, nbytes)
        offset = address - HEAP_ADDRESS
        return self.memory.bytes[offset : offset + nbytes]

    def tensor_map(self, address: int, box: Box) -> bytes:
        faults = box.faults() + (
            [f"address {address:#x} is no multiple of 16"] if address % 16 else []
        )
        if faults:
            raise ValueError("tensor map: " + "; ".join(faults))
        rank, size = len(box.shape), ELEMENTS[box.element][1]
        swizzle, kind = SWIZZLE_SPANS.index(box.swizzle), _KINDS.get(box.element, 4)
        pad = (0,) * (5 - rank)
        fields = struct.pack(
            "<I4BQ5I5I4Q",
            _MAP_MAGIC,
            *(rank, size, swizzle, kind),
            address,
            *(*box.shape, *pad),
            *(*box.box, *pad),
            *(*box.strides, *pad, *((0,) if not box.strides else ()))[:4],
        )
        return fields.ljust(128, b"\0")

    def launch(
        self,
        function: Function,
        grid: Dim3,
        block: Dim3,
        shared: int,
        parameters: Sequence[Parameter],
    ) -> None:
        outcome = self.run(function, grid, block, shared, parameters)
        if not outcome.clean:
            code = "R701" if outcome.kinds() & {"deadlock", "livelock"} else "R702"
            raise KernelError(
                f"{code}: {function.name} on {self.arch} in the emulator, seed {self.mode.seed}: "
                f"{len(outcome.reports)} reports\n{outcome}"
            )

    def run(
        self,
        function: Function,
        grid: Dim3,
        block: Dim3,
        shared: int,
        parameters: Sequence[Parameter],
        mode: Mode | None = None,
    ) -> Outcome:
        """Like `launch`, but reports are returned, not raised; a crash or a hang still raises."""
        assert isinstance(function, EmulatedKernel), "a kernel of another device"
        line = self._request(function, grid, block, shared, parameters, mode or self.mode)
        answer = self._worker.ask(line, (mode or self.mode).seconds)
        if "refused" in answer:
            raise KernelError(f"R702: {function.name}: {answer['refused']}")
        if "crash" in answer:
            self._worker.close()
            raise KernelError(f"R702: {function.name} crashed in the emulator: {answer['crash']}")
        self.memory.initialised.update(
            HEAP_ADDRESS + offset for offset in answer["written"] if offset < self.memory.nbytes
        )
        return outcome_of(answer, function.library)

    def _request(
        self,
        function: EmulatedKernel,
        grid: Dim3,
        block: Dim3,
        shared: int,
        parameters: Sequence[Parameter],
        mode: Mode,
    ) -> str:
        buffers = ",".join(
            f"{first - HEAP_ADDRESS}:{size}:{int(first in self.memory.initialised)}"
            for first, size in self.memory.buffers.items()
        )
        follow = (
            "none"
            if mode.follow is None
            else ",".join(f"{step}:{pick}" for step, pick in mode.follow)
        )
        fields = {
            "library": function.library,
            "entry": function.name,
            "grid": ",".join(map(str, grid)),
            "block": ",".join(map(str, block)),
            "shared": shared,
            "seed": mode.seed,
            "record": int(mode.record),
            "steps": mode.steps,
            "counting": int(mode.counting),
            "timed": mode.rates.request() if mode.rates else "0",
            "parameters": ",".join(packed(p).hex() for p in parameters),
            "buffers": buffers,
            "follow": follow,
        }
        return "launch " + " ".join(f"{key}={value}" for key, value in fields.items())


def _close(worker: Worker, memory: DeviceMemory) -> None:
    worker.close()
    memory.close()
