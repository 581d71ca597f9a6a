"""A stand-in for CuPy whose GPU is the emulator: the calls that tensorc makes, and no others.

Its arrays speak DLPack as arrays on a GPU do. It shows that arguments, addresses, strides, streams
and copies go where they should; nothing here shows that a real driver agrees.
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorc.codegen.driver import ELEMENTS, SWIZZLE_SPANS, Box
from tensorc.codegen.emulator import Emulator
from tensorc.runtime.dlpack import Managed, row_major

CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
STREAM = 4711
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class GpuArray:
    """An array in the emulator's memory."""

    def __init__(
        self, fake: FakeCupy, address: int, shape: Sequence[int], strides: Sequence[int], dtype: Any
    ) -> None:
        self.fake, self.address = fake, address
        self.shape, self.strides, self.dtype = tuple(shape), tuple(strides), np.dtype(dtype)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, stream: int | None = None) -> object:
        self.fake.streams.append(stream)
        rank = len(self.shape)
        made = Managed()
        made.tensor.data, made.tensor.device, made.tensor.ndim = self.address, 2, rank
        made.tensor.code, made.tensor.bits = CODES[self.dtype.kind], 8 * self.dtype.itemsize
        made.tensor.lanes = 1
        made.tensor.shape = (ctypes.c_int64 * rank)(*self.shape)
        made.tensor.strides = (ctypes.c_int64 * rank)(*self.strides)
        self.fake.kept.append(made)
        return _capsule(ctypes.addressof(made), b"dltensor", None)

    def get(self) -> npt.NDArray[Any]:
        """The elements, in this machine's memory; dense arrays only."""
        raw = self.fake.emulator.read(self.address, int(np.prod(self.shape)) * self.dtype.itemsize)
        return np.frombuffer(raw, self.dtype).reshape(self.shape)


class FakeCupy(types.ModuleType):
    """The module. `array` puts a NumPy array, with its strides, on the GPU."""

    def __init__(self, arch: str, capability: str) -> None:
        super().__init__("cupy")
        self.emulator = Emulator(arch)
        self.streams: list[int | None] = []
        self.kept: list[Any] = []
        self.allowed: dict[int, int] = {}
        self.capturing = False
        self.libcuda = FakeCuda(self.emulator)
        self.cuda = self._cuda(capability)

    def empty(self, shape: Sequence[int], dtype: Any) -> GpuArray:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        strides = row_major(tuple(shape))
        return GpuArray(self, self.emulator.alloc(max(16, size)), shape, strides, dtype)

    def array(self, array: npt.NDArray[Any]) -> GpuArray:
        if not array.size:
            return self.empty(array.shape, array.dtype)
        low, high = np.lib.array_utils.byte_bounds(array)
        offset = array.__array_interface__["data"][0] - low
        raw = np.frombuffer(ctypes.string_at(low, high - low), np.uint8)
        address = self.emulator.alloc(max(16, len(raw)))
        self.emulator.write(address, raw)
        strides = [step // array.itemsize for step in array.strides]
        return GpuArray(self, address + offset, array.shape, strides, array.dtype)

    def _cuda(self, capability: str) -> Any:
        class Device:
            compute_capability = capability

            def __init__(self, number: int) -> None:
                assert number == 0

            def __enter__(self) -> Device:
                return self

            def __exit__(self, *_: object) -> None: ...

        @contextmanager
        def stream(address: int, number: int) -> Generator[int, None, None]:
            assert number == 0
            yield address

        runtime = types.SimpleNamespace(
            getDeviceCount=one, getDevice=zero, memcpyAsync=self._copy, memsetAsync=self._set,
            streamSynchronize=_waited, streamIsCapturing=self._captures,
        )  # fmt: skip
        return types.SimpleNamespace(
            Device=Device, ExternalStream=stream, runtime=runtime, alloc=self._alloc,
            driver=types.SimpleNamespace(funcSetAttribute=self._allow),
            function=types.SimpleNamespace(Module=self._module, CPointer=_Pointer),
            get_current_stream=_current,
        )  # fmt: skip

    def _alloc(self, nbytes: int) -> Any:
        return types.SimpleNamespace(ptr=self.emulator.alloc(max(16, nbytes)))

    def _set(self, to: int, value: int, nbytes: int, stream: int) -> None:
        self.emulator.write(to, bytes([value]) * nbytes)

    def _captures(self, stream: int) -> bool:
        return self.capturing

    def _module(self) -> _Module:
        return _Module(self)

    def _copy(self, to: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        if kind == 1:
            self.emulator.write(to, ctypes.string_at(source, nbytes))
        else:
            ctypes.memmove(to, self.emulator.read(source, nbytes), nbytes)

    def _allow(self, function: int, attribute: int, value: int) -> None:
        assert attribute == 8
        self.allowed[function] = value


class FakeCuda:
    """The one function of libcuda that tensorc calls itself: maps are the emulator's."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator, self.made = emulator, 0

    def cuTensorMapEncodeTiled(  # noqa: N802
        self, target: Any, element: int, rank: int, address: Any, shape: Any, strides: Any,
        box: Any, steps: Any, interleave: int, swizzle: int, promotion: int, fill: int,
    ) -> int:  # fmt: skip
        assert target.value % 64 == 0 and list(steps) == [1] * rank
        assert (interleave, promotion, fill) == (0, 2, 0)
        names = {code: name for name, (code, _) in ELEMENTS.items()}
        outer = tuple(strides)[: rank - 1]
        made = Box(names[element], tuple(shape), outer, tuple(box), SWIZZLE_SPANS[swizzle])
        ctypes.memmove(target.value, self.emulator.tensor_map(address.value, made), 128)
        self.made += 1
        return 0


def one() -> int:
    """How many devices there are."""
    return 1


def zero() -> int:
    """The current device."""
    return 0


def _waited(stream: int) -> None: ...


def _current(number: int) -> Any:
    return types.SimpleNamespace(ptr=STREAM)


class _Module:
    def __init__(self, fake: FakeCupy) -> None:
        self.fake = fake

    def load(self, image: bytes) -> None:
        self.loaded = self.fake.emulator.load(image)

    def get_function(self, name: str) -> Any:
        return _Function(self.fake, self.loaded.function(name))


class _Function:
    def __init__(self, fake: FakeCupy, function: Any) -> None:
        self.fake, self.function, self.ptr = fake, function, id(self)

    def __call__(self, grid: Any, block: Any, args: Any, shared: int, stream: int) -> None:
        assert shared <= 48 * 1024 or self.fake.allowed[self.ptr] == shared
        given = [ctypes.string_at(a.address, 128) if isinstance(a, _Pointer) else a for a in args]
        self.fake.emulator.launch(self.function, grid, block, shared, given)


class _Pointer:
    """CuPy's `CPointer`: a parameter that lies at an address of this machine's memory."""

    def __init__(self, address: int) -> None:
        self.address = address
