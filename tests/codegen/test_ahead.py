"""Operators as files for a C compiler: built, linked and called, with good and bad arguments."""

from __future__ import annotations

import ctypes
import functools
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tensorc.ahead import files
from tensorc.cli import main
from tensorc.codegen.emulator_build import find_compiler
from tensorc.cuda_levels import levels, request
from tensorc.cuda_ways import usable
from tensorc.errors import Unavailable
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.tensor import Program
from tensorc.lang import read
from tests.requirements import need
from tests.runtime.fake_cupy import FakeCuda

Array = npt.NDArray[Any]
OK, BAD_SIZE, NO_ARRAY, NO_MEMORY, OUT_OF_RANGE, UNSUPPORTED, DRIVER = range(7)

PRODUCT = """op product(a: f32[m, k], b: f32[k, n]) -> o: f32[m, n]
  o[m, n] = sum[k](a[m, k] * b[k, n])
"""
SOFTMAX = """op shares(x: f64[m, n]) -> p: f64[m, n], top: i32[m]
  p[m, n] = softmax[n](x[m, n])
  top[m] = argmax[n](x[m, n])
"""
GATHER = """op look(t: f32[n], at: i64[m]) -> o: f32[m]
  o[m] = t[at[m]]
"""
TURNED = """op turned(z: complex64[m, n], w: complex64[n]) -> o: complex64[m]
  o[m] = sum[n](z[m, n] * conj(w[n]))
"""
WEIGHTED = """const w: f32[3] = [0.25, 0.5, 0.25]
op weighted(x: f32[n]) -> o: f32[n]
  o[n] = sum[j](w[j] * x[clamp(n + j - 1, 0, |n| - 1)])
"""


def build(folder: Path, made: Mapping[str, bytes], *more: str) -> ctypes.CDLL:
    """The files as a shared library; warnings are errors."""
    for name, data in made.items():
        (folder / name).write_bytes(data)
    objects = [name for name in made if name.endswith(".o")]
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", "op.so"]
    done = subprocess.run(
        [*command, "op.c", *objects, *more, "-lm"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "op.so"))


def program_of(text: str) -> Program:
    (program,) = read(text)
    return program


def symbol_in(header: bytes) -> str:
    """The operator's function: the last one that a header declares."""
    lines = [line for line in header.decode().splitlines() if line.startswith("int tc_")]
    return lines[-1][4:].split("(")[0]


def on_cpu(folder: Path, text: str, **static: int) -> tuple[Program, Any]:
    """The program and its function in C."""
    need("cxx")
    program = program_of(text)
    made = files(program, request("native", static, {}), "op", "native")
    return program, getattr(build(folder, made), symbol_in(made["op.h"]))


def pointer(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def sizes(*values: int) -> list[ctypes.c_int64]:
    return [ctypes.c_int64(value) for value in values]


def draw(*shape: int, dtype: str = "f4") -> Array:
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("m, n, k", [(5, 33, 17), (1, 1, 1), (0, 4, 4), (4, 4, 0)])
def test_a_product_called_from_c(tmp_path: Path, m: int, n: int, k: int) -> None:
    _, function = on_cpu(tmp_path, PRODUCT)
    a, b, o = draw(m, k), draw(k, n), np.full((m, n), np.nan, np.float32)
    assert function(pointer(a), pointer(b), pointer(o), *sizes(m, k, n), None) == OK
    np.testing.assert_allclose(o, a @ b, rtol=1e-5, atol=1e-5)


def test_sizes_given_at_compile_time_are_no_arguments(tmp_path: Path) -> None:
    _, function = on_cpu(tmp_path, PRODUCT, k=8, n=16)
    a, b, o = draw(3, 8), draw(8, 16), np.empty((3, 16), np.float32)
    assert function(pointer(a), pointer(b), pointer(o), *sizes(3), None) == OK
    np.testing.assert_allclose(o, a @ b, rtol=1e-5, atol=1e-5)


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    _, function = on_cpu(tmp_path, PRODUCT)
    a, b, o = draw(2, 2), draw(2, 2), np.full((2, 2), 7, np.float32)
    arrays = [pointer(a), pointer(b), pointer(o)]
    assert function(*arrays, *sizes(-1, 2, 2), None) == BAD_SIZE
    assert function(*arrays, *sizes(2**62, 2, 2), None) == BAD_SIZE
    assert function(*arrays, *sizes(2**31, 2**31, 2**31), None) == BAD_SIZE
    assert function(None, *arrays[1:], *sizes(2, 2, 2), None) == NO_ARRAY
    assert function(*arrays[:2], None, *sizes(2, 2, 2), None) == NO_ARRAY
    assert (o == 7).all()
    assert function(None, None, arrays[2], *sizes(2, 0, 2), None) == OK
    assert (o == 0).all()


def test_several_outputs_and_a_workspace(tmp_path: Path) -> None:
    program = program_of(SOFTMAX)
    need("cxx")
    made = files(program, request("native", {}, {}), "op", "native")
    library = build(tmp_path, made)
    function = getattr(library, symbol_in(made["op.h"]))
    measure = getattr(library, symbol_in(made["op.h"]) + "_workspace")
    measure.restype = ctypes.c_int64
    x = draw(6, 21, dtype="f8")
    assert measure(*sizes(-6, 21)) == -1 and measure(*sizes(2**40, 2**40)) == -1
    space = np.empty(measure(*sizes(6, 21)) + 256, np.uint8)
    aligned = ctypes.c_void_p(-(-space.ctypes.data // 256) * 256)
    want = interpret(program, {"x": x}, {"m": 6, "n": 21})
    for workspace in (None, aligned):
        p, top = np.empty((6, 21)), np.empty(6, np.int32)
        assert function(pointer(x), pointer(p), pointer(top), *sizes(6, 21), workspace) == OK
        np.testing.assert_allclose(p, want["p"], rtol=1e-12)
        np.testing.assert_array_equal(top, want["top"])
    assert function(pointer(x), pointer(x), pointer(x), *sizes(6, 0), None) == BAD_SIZE  # argmax


def test_data_subscripts_are_checked(tmp_path: Path) -> None:
    _, function = on_cpu(tmp_path, GATHER)
    t, o = draw(5), np.empty(3, np.float32)
    for at, want in (([4, 0, 2], OK), ([4, 5, 2], OUT_OF_RANGE), ([0, -1, 0], OUT_OF_RANGE)):
        where = np.array(at, np.int64)
        assert function(pointer(t), pointer(where), pointer(o), *sizes(5, 3), None) == want
        if want == OK:
            np.testing.assert_array_equal(o, t[where])


def test_complex_numbers_are_pairs(tmp_path: Path) -> None:
    _, function = on_cpu(tmp_path, TURNED)
    z = (draw(4, 9) + 1j * draw(4, 9)[::-1]).astype(np.complex64)
    w, o = (draw(9) - 2j * draw(9)).astype(np.complex64), np.empty(4, np.complex64)
    assert function(pointer(z), pointer(w), pointer(o), *sizes(4, 9), None) == OK
    np.testing.assert_allclose(o, z @ w.conj(), rtol=1e-5, atol=1e-5)


def test_tables_come_along(tmp_path: Path) -> None:
    _, function = on_cpu(tmp_path, WEIGHTED)
    x, o = draw(7), np.empty(7, np.float32)
    assert function(pointer(x), pointer(o), *sizes(7), None) == OK
    padded = np.pad(x, 1, mode="edge")
    np.testing.assert_allclose(o, np.convolve(padded, [0.25, 0.5, 0.25], "valid"), rtol=1e-5)


def test_conditions_on_sizes_must_be_decided_when_compiling(tmp_path: Path) -> None:
    text = "op shifted(x: f32[n], y: f32[m]) -> o: f32[m]\n  o[m] = x[m + 3] + y[m]\n"
    with pytest.raises(Unavailable, match="fix the sizes with --size"):
        files(program_of(text), request("native", {}, {}), "op", "native")
    _, function = on_cpu(tmp_path, text, n=10, m=7)
    x, y, o = draw(10), draw(7), np.empty(7, np.float32)
    assert function(pointer(x), pointer(y), pointer(o), None) == OK
    np.testing.assert_array_equal(o, x[3:] + y)


def test_a_program_in_c_from_the_command_line(tmp_path: Path) -> None:
    need("cxx")
    (tmp_path / "product.tc").write_text(PRODUCT)
    command = ["compile", str(tmp_path / "product.tc"), "--emit", "header", "-o"]
    assert code([*command, str(tmp_path / "product.h"), "--size", "m=2,k=2,n=2"]) == 0
    name = symbol_in((tmp_path / "product.h").read_bytes())
    (tmp_path / "main.cpp").write_text(f"""
        #include "product.h"
        #include <cstdio>
        int main() {{
          const float a[] = {{1, 2, 3, 4}}, b[] = {{5, 6, 7, 8}};
          float o[4];
          int status = {name}(a, b, o, nullptr);
          std::printf("%d %g %g %g %g\\n", status, o[0], o[1], o[2], o[3]);
        }}""")
    compiler = find_compiler().command
    subprocess.run(["cc", "-c", "product.c", "-o", "launch.o"], cwd=tmp_path, check=True)
    link = [*compiler, "main.cpp", "launch.o", "product.o", "-o", "main", "-lm"]
    subprocess.run(link, cwd=tmp_path, check=True)
    done = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True)
    assert done.stdout == "0 19 22 43 50\n"
    assert code([*command, str(tmp_path / "product.h")]) == 2  # it is there already
    assert code([*command, str(tmp_path / 'pro"duct.h')]) == 2  # C could not include it
    assert code(command[:-1]) == 2  # several files do not fit into standard output


def code(arguments: list[str]) -> int:
    """The exit code of the command line."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


FAKE = Path(__file__).parent / "fake_cuda.c"


class Device:
    """The CUDA driver's functions, as a library whose work the emulator does."""

    def __init__(
        self, library: ctypes.CDLL, program: Program, arch: str, static: Mapping[str, int]
    ) -> None:  # fmt: skip
        from tensorc.codegen.emulator import Emulator

        self.emulator = Emulator(arch)
        made = [levels(program, way) for way in usable(program, request(arch, static, {}))]
        self.modules = [self.emulator.load(self.emulator.compile(item.source)) for item in made]
        self.maps = [
            {kernel.entry.symbol: len(kernel.maps) for kernel in item.module.kernels}
            for item in made
        ]
        self.log: list[tuple[int, str]] = []
        self.cuda = FakeCuda(self.emulator)
        launch = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_int, ctypes.c_char_p, *[ctypes.c_uint] * 3,
            ctypes.POINTER(ctypes.c_void_p), ctypes.c_int,
        )  # fmt: skip
        encode = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p,
            *[ctypes.c_void_p] * 4, *[ctypes.c_int] * 4,
        )  # fmt: skip
        copy = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t
        )
        self.kept = (launch(self.launch), copy(self.copy), encode(self.encode))
        library.fake_driver(*self.kept)

    def launch(
        self, module: int, name: bytes, blocks: int, threads: int, shared: int, parameters: Any,
        count: int,
    ) -> int:  # fmt: skip
        maps = self.maps[module][name.decode()]
        values = [
            ctypes.string_at(parameters[n], 128) if n < maps
            else np.uint64(ctypes.c_uint64.from_address(parameters[n]).value)
            for n in range(count)
        ]  # fmt: skip
        self.log.append((module, name.decode()))
        function = self.modules[module].function(name.decode())
        self.emulator.launch(function, (blocks, 1, 1), (threads, 1, 1), shared, values)
        return 0

    def encode(
        self, target: int, element: int, rank: int, address: int, *rest: int
    ) -> int:  # fmt: skip
        longs, words = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
        shape, strides, box, steps, *modes = rest
        return self.cuda.cuTensorMapEncodeTiled(
            ctypes.c_void_p(target), element, rank, ctypes.c_void_p(address),
            longs.from_address(shape), (ctypes.c_uint64 * (rank - 1)).from_address(strides),
            words.from_address(box), words.from_address(steps), *modes,
        )  # fmt: skip

    def copy(self, kind: int, device: int, host: int, count: int) -> int:
        if kind == 0:
            self.emulator.write(device, bytes(count))
        elif kind == 1:
            self.emulator.write(device, ctypes.string_at(host, count))
        else:
            ctypes.memmove(host, self.emulator.read(device, count), count)
        return 0

    def put(self, array: Array) -> int:
        address = self.emulator.alloc(max(16, array.nbytes))
        self.emulator.write(address, np.ascontiguousarray(array))
        return address


@functools.cache
def built(text: str, arch: str, static: tuple[tuple[str, int], ...]) -> Mapping[str, bytes]:
    return files(program_of(text), request(arch, dict(static), {}), "op", arch)


def on_gpu(
    folder: Path, text: str, arch: str, **static: int
) -> tuple[Device, Any, Any, Any, ctypes.c_void_p]:
    """The device, the function, its check, its workspace's size, and the loaded module."""
    need("cxx")
    need("nvcc")
    made = built(text, arch, tuple(static.items()))
    library = build(folder, made, str(FAKE))
    device, symbol = Device(library, program_of(text), arch, static), symbol_in(made["op.h"])
    module = ctypes.c_void_p()
    assert getattr(library, f"{symbol}_load")(ctypes.byref(module)) == OK
    measure = getattr(library, f"{symbol}_workspace")
    measure.restype = ctypes.c_int64
    return device, getattr(library, symbol), getattr(library, f"{symbol}_check"), measure, module


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_the_launcher_of_a_cubin_through_the_emulator(tmp_path: Path, arch: str) -> None:
    device, function, _, measure, module = on_gpu(tmp_path, SOFTMAX, arch)
    x = draw(3, 21, dtype="f8")
    p, top = device.put(np.zeros((3, 21))), device.put(np.zeros(3, np.int32))
    space = device.emulator.alloc(measure(*sizes(3, 21)))
    addresses = [ctypes.c_void_p(a) for a in (device.put(x), p, top)]
    status = function(module, None, *addresses, *sizes(3, 21), ctypes.c_void_p(space))
    assert status == OK
    want = interpret(program_of(SOFTMAX), {"x": x}, {"m": 3, "n": 21})
    got = np.frombuffer(device.emulator.read(p, x.nbytes)).reshape(3, 21)
    np.testing.assert_allclose(got, want["p"], rtol=1e-12)
    np.testing.assert_array_equal(
        np.frombuffer(device.emulator.read(top, 12), np.int32), want["top"]
    )
    assert function(module, None, *addresses, *sizes(3, -1), ctypes.c_void_p(space)) == BAD_SIZE
    assert function(module, None, *addresses, *sizes(3, 21), None) == NO_ARRAY


HALVES = """op halves(a: f16[m, k], b: f16[k, n]) -> o: f16[m, n]
  o[m, n] = sum[k](a[m, k] * b[k, n])
"""
ATTEND = """op attend(q: f16[h, m, d], k: f16[h, n, d], v: f16[h, n, e]) -> o: f16[h, m, e]
  s[h, m, n] = sum[d](q[h, m, d] * k[h, n, d]) / 8
  p: f16[h, m, n] = softmax[n](s[h, m, n])
  o[h, m, e] = sum[n](p[h, m, n] * v[h, n, e])
"""


def test_a_launcher_makes_tensor_maps_where_it_can(tmp_path: Path) -> None:
    device, function, _, measure, module = on_gpu(tmp_path, HALVES, "sm_90a")
    for m, n, k, way in ((130, 136, 72, 0), (128, 20, 64, 1), (5, 8, 0, 1), (130, 136, 72, 0)):
        a, b = draw(m, k).astype(np.float16), draw(k, n).astype(np.float16)
        o = device.put(np.zeros((m, n), np.float16))
        addresses = [ctypes.c_void_p(x) for x in (device.put(a), device.put(b), o)]
        space = ctypes.c_void_p(device.emulator.alloc(measure(*sizes(m, k, n))))
        device.log.clear()
        assert function(module, None, *addresses, *sizes(m, k, n), space) == OK
        assert [item for item, _ in device.log] == [way]
        got = np.frombuffer(device.emulator.read(o, 2 * m * n), np.float16).reshape(m, n)
        want = a.astype(np.float32) @ b.astype(np.float32)
        np.testing.assert_allclose(got, want, rtol=1e-2, atol=1e-2)
    aligned = device.put(np.zeros((130, 73), np.float16))  # an address between 16 bytes
    addresses[0] = ctypes.c_void_p(aligned + 2)
    assert function(module, None, *addresses, *sizes(130, 72, 136), space) == OK
    assert [item for item, _ in device.log] == [0, 1]


def test_attention_called_from_c(tmp_path: Path) -> None:
    device, function, _, measure, module = on_gpu(tmp_path, ATTEND, "sm_90a", d=64, e=64)
    h, m, n = 2, 130, 200
    q, k, v = (draw(h, rows, 64).astype(np.float16) for rows in (m, n, n))
    o = device.put(np.zeros((h, m, 64), np.float16))
    addresses = [ctypes.c_void_p(x) for x in (*map(device.put, (q, k, v)), o)]
    space = ctypes.c_void_p(device.emulator.alloc(measure(*sizes(h, m, n))))
    assert function(module, None, *addresses, *sizes(h, m, n), space) == OK
    assert device.cuda.made == 4 and [item for item, _ in device.log] == [0]
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    p = np.exp(q @ k.swapaxes(1, 2) / 8)
    got = np.frombuffer(device.emulator.read(o, 2 * h * m * 64), np.float16).reshape(h, m, 64)
    np.testing.assert_allclose(got, p @ v / p.sum(2, keepdims=True), rtol=2e-2, atol=2e-2)


def test_complex_numbers_are_pairs_on_a_gpu(tmp_path: Path) -> None:
    device, function, _, measure, module = on_gpu(tmp_path, TURNED, "sm_80")
    z = (draw(4, 9) + 1j * draw(4, 9)[::-1]).astype(np.complex64)
    w = (draw(9) - 2j * draw(9)[::-1]).astype(np.complex64)
    o = device.put(np.zeros(4, np.complex64))
    space = ctypes.c_void_p(device.emulator.alloc(measure(*sizes(4, 9))))
    addresses = [ctypes.c_void_p(a) for a in (device.put(z), device.put(w), o)]
    assert function(module, None, *addresses, *sizes(4, 9), space) == OK
    got = np.frombuffer(device.emulator.read(o, 32), np.complex64)
    np.testing.assert_allclose(got, z @ w.conj(), rtol=1e-5, atol=1e-5)


def test_checks_on_a_gpu_are_asked_for(tmp_path: Path) -> None:
    device, function, check, measure, module = on_gpu(tmp_path, GATHER, "sm_80")
    t, o = device.put(draw(5)), device.put(np.zeros(2, np.float32))
    space = ctypes.c_void_p(device.emulator.alloc(measure(*sizes(5, 2))))
    for at, want in (([4, 1], OK), ([1, 5], OUT_OF_RANGE), ([0, 2], OK)):
        where = device.put(np.array(at, np.int64))
        addresses = [ctypes.c_void_p(a) for a in (t, where, o)]
        assert function(module, None, *addresses, *sizes(5, 2), space) == OK
        assert check(space, None) == want
