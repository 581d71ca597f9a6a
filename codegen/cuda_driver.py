"""A GPU as a driver: CuPy loads, allocates, copies and launches; tensor maps come from libcuda.

Work goes to one stream and is not waited for, except by `read`. CuPy compiles nothing here: images
are `cuda_build`'s.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorc.codegen.cuda_build import CAPABILITIES
from tensorc.codegen.driver import (
    ELEMENTS,
    SWIZZLE_SPANS,
    Box,
    Dim3,
    Function,
    Parameter,
)
from tensorc.errors import KernelError, Unavailable
from tensorc.libraries import library

_SHARED_ATTRIBUTE = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_PLAIN_SHARED = 48 * 1024  # bytes of dynamic shared memory that need no permission
_DIRECTIONS = {"in": 1, "out": 2}  # cudaMemcpyKind


def cupy() -> Any:
    """CuPy, if it finds a GPU. Raises Unavailable, with what is missing."""
    found = library("cupy", "'tensorc[cuda]'")
    try:
        count = found.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy's own error types need CuPy to name them
        raise Unavailable(f"no GPU can be used here: {error}") from error
    if not count:
        raise Unavailable("no GPU can be used here: the driver finds none")
    return found


@dataclass(frozen=True)
class CudaFunction:
    """A loaded kernel."""

    name: str
    loaded: Any  # cupy.cuda.function.Function


class CudaImage:
    """A loaded cubin."""

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded
        self._functions: dict[str, CudaFunction] = {}

    def function(self, name: str) -> CudaFunction:
        """The kernel of that name. KernelError: there is none."""
        if name not in self._functions:
            try:
                self._functions[name] = CudaFunction(name, self._loaded.get_function(name))
            except Exception as error:
                raise KernelError(f"the image has no kernel {name}: {error}") from error
        return self._functions[name]


class CudaDriver:
    """The current device, or `device`; kernels run on `stream` (an address), 0 for the default."""

    def __init__(self, device: int | None = None) -> None:
        self._cupy = cupy()
        runtime = self._cupy.cuda.runtime
        self.device = runtime.getDevice() if device is None else device
        self.stream = 0
        self._memory: dict[int, Any] = {}
        self._allowed: set[int] = set()

    @property
    def arch(self) -> str:
        """The architecture to compile for. Unavailable: a GPU that there is no code for."""
        text = str(self._cupy.cuda.Device(self.device).compute_capability)
        found = CAPABILITIES.get((int(text[:-1]), int(text[-1])))
        if found is None:
            known = ", ".join(f"{major}.{minor}" for major, minor in CAPABILITIES)
            raise Unavailable(f"compute capability {text[:-1]}.{text[-1]}: there are {known}")
        return found

    def load(self, image: bytes) -> CudaImage:
        with self._cupy.cuda.Device(self.device):
            module = self._cupy.cuda.function.Module()
            try:
                module.load(image)
            except Exception as error:
                raise KernelError(f"the driver does not load the image: {error}") from error
        return CudaImage(module)

    def alloc(self, nbytes: int) -> int:
        with self._cupy.cuda.Device(self.device), self._on_stream():
            memory = self._cupy.cuda.alloc(nbytes)
        self._memory[memory.ptr] = memory
        return int(memory.ptr)

    def free(self, address: int) -> None:
        del self._memory[address]

    def write(self, address: int, data: bytes | memoryview | npt.NDArray[Any]) -> None:
        raw = np.frombuffer(data.tobytes() if isinstance(data, np.ndarray) else data, np.uint8)
        self._copy("in", address, raw.ctypes.data, raw.nbytes)
        self.wait()  # the host's bytes may go now

    def read(self, address: int, nbytes: int) -> bytes:
        raw = np.empty(nbytes, np.uint8)
        self._copy("out", raw.ctypes.data, address, nbytes)
        self.wait()
        return raw.tobytes()

    def wait(self) -> None:
        """Until the stream is done. KernelError: a kernel failed."""
        try:
            self._cupy.cuda.runtime.streamSynchronize(self.stream)
        except Exception as error:
            raise KernelError(f"a kernel failed on the GPU: {error}") from error

    def clear(self, address: int, nbytes: int) -> None:
        """Set device memory to 0, in the order of the stream."""
        self._cupy.cuda.runtime.memsetAsync(address, 0, nbytes, self.stream)

    def tensor_map(self, address: int, box: Box) -> bytes:
        faults = box.faults() + (
            [f"address {address:#x} is no multiple of 16"] * bool(address % 16)
        )
        if faults:
            raise ValueError("tensor map: " + "; ".join(faults))
        return _encoded(address, box)

    def launch(
        self, function: Function, grid: Dim3, block: Dim3, shared: int,
        parameters: Sequence[Parameter],
    ) -> None:  # fmt: skip
        if not isinstance(function, CudaFunction):
            raise KernelError(f"{function.name} was not loaded on a GPU")
        loaded, kept = function.loaded, [_argument(self._cupy, item) for item in parameters]
        if shared > _PLAIN_SHARED and loaded.ptr not in self._allowed:
            self._cupy.cuda.driver.funcSetAttribute(loaded.ptr, _SHARED_ATTRIBUTE, shared)
            self._allowed.add(loaded.ptr)
        with self._cupy.cuda.Device(self.device), self._on_stream() as stream:
            try:
                loaded(grid, block, tuple(item for item, _ in kept), shared, stream)
            except Exception as error:
                raise KernelError(f"{function.name} could not be launched: {error}") from error

    def _copy(self, direction: str, to: int, source: int, nbytes: int) -> None:
        if nbytes:
            kind = _DIRECTIONS[direction]
            self._cupy.cuda.runtime.memcpyAsync(to, source, nbytes, kind, self.stream)

    def _on_stream(self) -> Any:
        return self._cupy.cuda.ExternalStream(self.stream, self.device)


def _argument(cupy: Any, item: Parameter) -> tuple[Any, Any]:
    """What CuPy passes to a kernel, and what has to live until then."""
    if not isinstance(item, bytes):
        return item, None
    raw = np.zeros(len(item) + 64, np.uint8)
    aligned = raw[-raw.ctypes.data % 64 :][: len(item)]
    aligned[:] = np.frombuffer(item, np.uint8)
    return cupy.cuda.function.CPointer(aligned.ctypes.data), raw


def _encoded(address: int, box: Box) -> bytes:
    """The 128 bytes of a tensor map, whose format only the driver knows."""
    rank = len(box.shape)
    raw = np.zeros(192, np.uint8)
    target = raw[-raw.ctypes.data % 64 :][:128]
    shape, boxes = (ctypes.c_uint64 * rank)(*box.shape), (ctypes.c_uint32 * rank)(*box.box)
    strides = (ctypes.c_uint64 * max(1, rank - 1))(*box.strides)
    ones = (ctypes.c_uint32 * rank)(*[1] * rank)
    status = _libcuda().cuTensorMapEncodeTiled(
        ctypes.c_void_p(target.ctypes.data), ELEMENTS[box.element][0], rank,
        ctypes.c_void_p(address), shape, strides, boxes, ones, 0,
        SWIZZLE_SPANS.index(box.swizzle), 2, 0,
    )  # fmt: skip
    if status:
        raise KernelError(f"the driver makes no tensor map of {box} at {address:#x}: {status}")
    return target.tobytes()


def _libcuda() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise Unavailable(f"libcuda.so.1 cannot be loaded ({error}); install a driver") from error
