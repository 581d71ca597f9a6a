"""A GPU as a device: the same CUDA C++ as in the emulator, compiled, loaded and launched.

Arrays of this machine's memory are copied there and back. Arrays that live on the GPU (CuPy, torch,
JAX) are taken as they are, on the stream that their library is using, and results are arrays of the
first one's library; nothing waits for the GPU, except where data subscripts have to be checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorc.cuda_ways import choose
from tensorc.emulated import run_on
from tensorc.errors import ArgumentError
from tensorc.prepare import Prepared, prepare
from tensorc.runtime.dlpack import DeviceArray, Unusable, device_array_of, device_of, row_major
from tensorc.runtime.gpu_library import GpuLibrary, given_back, library_for

if TYPE_CHECKING:
    from tensorc.codegen.cuda_driver import CudaDriver, CudaImage
    from tensorc.codegen.cuda_launch import Placed
    from tensorc.ir.tensor import Program

Array = npt.NDArray[Any]
_DRIVERS: dict[int | None, CudaDriver] = {}
_IMAGES: dict[tuple[int, str], CudaImage] = {}
_MOST_IMAGES = 256


def run(call: Prepared) -> dict[str, Array]:
    """Run a prepared call on the current GPU; fresh outputs of this machine's memory by name.

    Unavailable: no GPU, driver or compiler. KernelError: the driver's report. OutOfRange: a
    subscript that holds data leaves its tensor.
    """
    driver = _driver(None)
    return run_on(call, driver.arch, driver, lambda source: _image(driver, source))


def call(
    program: Program, given: Mapping[str, object], options: Mapping[str, Any],
    into: Sequence[object] = (),
) -> tuple[object, ...]:  # fmt: skip
    """Run on arrays that live on a GPU. `given`: operands by name, some of which may be scalars;
    `options`: of `prepare`; `into`: arrays for the outputs, dense ones on the same GPU.

    ArgumentError: arrays that do not fit, or live elsewhere. Other errors as in `run`.
    """
    first = next(value for value in given.values() if device_of(value) is not None)
    place = device_of(first)
    number = place[1] if place else 0
    driver, library = _driver(number), library_for(first, number)
    driver.stream = library.stream()
    operands = _Operands(program, given, number, driver)
    prepared = prepare(program, operands.hosts, **options)
    if into:
        _check_outputs(prepared, operands.arrays, into, number, driver)
    return _launched(prepared, operands.arrays, driver, library, into)


class _Operands:
    """The operands as `arrays` on the GPU, and as `hosts`: arrays of this machine's memory with the
    same types, shapes and strides, which stand for them where only those matter."""

    def __init__(
        self, program: Program, given: Mapping[str, object], number: int, driver: CudaDriver
    ) -> None:
        self.arrays: dict[str, DeviceArray] = {}
        self.hosts: dict[str, object] = {}
        self._driver = driver
        const = {item.tensor.name for item in program.parameters if item.const}
        for name, value in given.items():
            place = device_of(value)
            if place is None:
                self.hosts[name] = value  # a scalar or an array of this machine's memory: copied
            elif place != ("cuda", number):
                raise _elsewhere(name, place, number)
            else:
                self._taken(name, value, name in const)

    def _taken(self, name: str, value: object, const: bool) -> None:
        try:
            array = device_array_of(value, self._driver.stream)
        except Unusable as found:
            raise ArgumentError([_unusable(found, name)]) from None
        self.arrays[name] = array
        nbytes = array.dtype.itemsize
        if const and not array.shape:  # a size may be made of it
            raw = self._driver.read(array.address, nbytes)
            self.hosts[name] = np.frombuffer(raw, array.dtype).reshape(())
        else:
            self.hosts[name] = _stand_in(array)


def _stand_in(array: DeviceArray) -> Array:
    """An array of one element's memory with the type, shape and strides; never to be touched."""
    strides = tuple(stride * array.dtype.itemsize for stride in array.strides)
    memory = np.zeros(1, array.dtype)
    return np.lib.stride_tricks.as_strided(memory, array.shape, strides)


def _launched(
    call: Prepared, arrays: Mapping[str, DeviceArray], driver: CudaDriver, library: GpuLibrary,
    into: Sequence[object],
) -> tuple[object, ...]:  # fmt: skip
    from tensorc.codegen.cuda_launch import ERROR_BYTES, launch

    outputs = _outputs(call, library, into)
    scratch = _Scratch(library, driver.stream)
    placed = {**_operands(call, arrays, driver, scratch), **_results(call.program, outputs, driver)}
    made = choose(call, driver.arch, placed)
    for name, (shape, dtype) in made.fresh.items():
        if name not in placed:
            placed.update(_as_parts(call.program, name, scratch.array(shape, dtype)))
    error = scratch.array((ERROR_BYTES,), np.dtype(np.uint8)).address
    driver.clear(error, ERROR_BYTES)
    module = made.code.module
    launch(driver, _image(driver, module.text), module.kernels, placed, made.extents, error)
    if call.program.checks and call.checks and not library.capturing():
        _judge(call, arrays, driver, error)
    return tuple(given_back(library.name, array) for array in outputs.values())


def _check_outputs(
    call: Prepared, arrays: Mapping[str, DeviceArray], into: Sequence[object], number: int,
    driver: CudaDriver,
) -> None:  # fmt: skip
    """ArgumentError or TypeError for arrays that the outputs cannot be written into."""
    from tensorc.ir.source import Diagnostic
    from tensorc.runtime.results import destinations

    names = [item.tensor.name for item in call.program.outputs]
    if len(into) == len(names):
        for name, value in zip(names, into, strict=True):
            place = device_of(value)
            if place != ("cuda", number):
                raise _elsewhere(name, place or ("cpu", 0), number)
    given = [device_array_of(value, driver.stream) for value in into]
    destinations(call.program, [_stand_in(array) for array in given], call.arrays, call.extents)
    spans = [_span(array) for array in arrays.values()]
    for name, array in zip(names, given, strict=True):
        if array.strides != row_major(array.shape) and 0 not in array.shape:
            problem, do = "is not row-major", "give a contiguous array"
        elif any(low < _span(array)[1] and _span(array)[0] < high for low, high in spans):
            problem, do = "shares memory with another array of the call", "give another array"
        else:
            spans.append(_span(array))
            continue
        raise ArgumentError([Diagnostic("E208", f"{name} {problem}", do=do)])


def _span(array: DeviceArray) -> tuple[int, int]:
    """The first address of an array's elements, and the one after the last."""
    if 0 in array.shape:
        return array.address, array.address
    reach = [stride * (size - 1) for stride, size in zip(array.strides, array.shape, strict=True)]
    low, high = sum(min(0, step) for step in reach), sum(max(0, step) for step in reach)
    return array.address + low * array.dtype.itemsize, array.address + (
        high + 1
    ) * array.dtype.itemsize


class _Scratch:
    """Memory for the time of a call. Its library frees it in the order of its stream, after the
    kernels that use it."""

    def __init__(self, library: GpuLibrary, stream: int) -> None:
        self._library, self._stream = library, stream

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
        """Fresh memory; at least 16 bytes, so that it has an address."""
        nbytes = max(16, prod(shape) * dtype.itemsize)
        raw = self._library.empty((nbytes,), np.dtype(np.uint8))
        found = device_array_of(raw, self._stream)
        return DeviceArray(found.address, shape, row_major(shape), dtype, found.number, found.owner)


def _outputs(
    call: Prepared, library: GpuLibrary, into: Sequence[object]
) -> dict[str, object]:  # fmt: skip
    """The arrays for the outputs: those given, which fit, or fresh ones."""
    from tensorc.ir.polynomial import Symbol, evaluate
    from tensorc.ir.rounding import numpy_dtype
    from tensorc.runtime.compiled import const_values

    known = {Symbol(name, "extent"): size for name, size in call.extents.items()}
    values = const_values(call.program, call.arrays)
    known.update({Symbol(name, "parameter"): value for name, value in values.items()})
    if into:
        return dict(zip((item.tensor.name for item in call.program.outputs), into, strict=True))
    found: dict[str, object] = {}
    for item in call.program.outputs:
        shape = tuple(evaluate(size, known) for size in item.tensor.shape)
        dtype = np.dtype(numpy_dtype(item.tensor.dtype))
        found[item.tensor.name] = library.empty(shape, dtype)
    return found


def _operands(
    call: Prepared, arrays: Mapping[str, DeviceArray], driver: CudaDriver, scratch: _Scratch
) -> dict[str, Placed]:
    """Every operand and table under the names that kernels know; what is elsewhere is copied."""
    from tensorc.runtime.compiled import table_arrays

    found: dict[str, Placed] = {}
    for name, array in arrays.items():
        found.update(_as_parts(call.program, name, array))
    hosts = {name: array for name, array in call.arrays.items() if name not in arrays}
    for name, array in {**hosts, **table_arrays(call.program)}.items():
        copy = scratch.array(array.shape, array.dtype)
        if array.nbytes:
            driver.write(copy.address, np.ascontiguousarray(array))
        found.update(_as_parts(call.program, name, copy))
    return found


def _results(
    program: Program, outputs: Mapping[str, object], driver: CudaDriver
) -> dict[str, Placed]:
    found: dict[str, Placed] = {}
    for name, value in outputs.items():
        found.update(_as_parts(program, name, device_array_of(value, driver.stream)))
    return found


def _as_parts(program: Program, name: str, array: DeviceArray) -> dict[str, Placed]:
    """An array as kernels know it: a complex one as its two parts."""
    from tensorc.codegen.cuda_launch import Placed
    from tensorc.ir.parts import part_names

    names = part_names(program).get(name)
    if names is None:
        return {name: Placed(array.address, array.shape, array.strides)}
    doubled = tuple(2 * stride for stride in array.strides)
    half = array.dtype.itemsize // 2
    return {
        part: Placed(array.address + at * half, array.shape, doubled)
        for at, part in enumerate(names)
    }


def _judge(
    call: Prepared, arrays: Mapping[str, DeviceArray], driver: CudaDriver, error: int
) -> None:
    """Wait, and raise OutOfRange if a check failed."""
    failed = int(np.frombuffer(driver.read(error, 8), np.int64)[0])
    if failed:
        from tensorc.runtime.compiled import report

        hosts = {**call.arrays, **{n: _downloaded(driver, array) for n, array in arrays.items()}}
        report(call.program, failed, hosts, call.extents)


def _downloaded(driver: CudaDriver, array: DeviceArray) -> Array:
    """The elements of an array on the GPU."""
    if 0 in array.shape:
        return np.empty(array.shape, array.dtype)
    (low, high), size = _span(array), array.dtype.itemsize
    memory = np.frombuffer(driver.read(low, high - low), array.dtype)[
        (array.address - low) // size :
    ]
    strides = tuple(stride * size for stride in array.strides)
    return np.lib.stride_tricks.as_strided(memory, array.shape, strides).copy()


def _driver(number: int | None) -> CudaDriver:
    from tensorc.codegen.cuda_driver import CudaDriver

    if number not in _DRIVERS:
        _DRIVERS[number] = CudaDriver(number)
    return _DRIVERS[number]


def _image(driver: CudaDriver, source: str) -> CudaImage:
    """The loaded image of a source, built and loaded once in a process and GPU."""
    from tensorc.cubins import image_of

    key = (driver.device, source)
    if key not in _IMAGES:
        if len(_IMAGES) >= _MOST_IMAGES:
            _IMAGES.clear()
        _IMAGES[key] = driver.load(image_of(source, driver.arch))
    return _IMAGES[key]


def _elsewhere(name: str, place: tuple[str, int], number: int) -> ArgumentError:
    from tensorc.ir.diagnostics import filled

    where = f"{place[0]}:{place[1]}"
    fields = {"array": name, "found_device": where, "device": f"cuda:{number}"}
    return ArgumentError([filled("E210", None, fields)])


def _unusable(found: Unusable, name: str) -> Any:
    from tensorc.ir.diagnostics import filled

    return filled(found.code, None, {"array": name, **found.fields})


def forget() -> None:
    """Drop every driver and loaded image."""
    _DRIVERS.clear()
    _IMAGES.clear()
