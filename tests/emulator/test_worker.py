"""The worker's limits, the search for a compiler, device memory, the checks of a launch."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tensorc.codegen import emulator_build
from tensorc.codegen.driver import Box, Driver, packed
from tensorc.codegen.emulator import Emulator, Mode
from tensorc.codegen.emulator_build import find_compiler, find_kernels
from tensorc.codegen.emulator_worker import GAP, HEAP_ADDRESS, DeviceMemory
from tensorc.errors import KernelError, Unavailable
from tests.emulator.snippets import Out, call, clean
from tests.requirements import need

OUT = Out((32,), np.uint32)


def test_a_loop_without_end_is_killed_and_the_next_launch_runs() -> None:
    need("cxx")
    text = "TC_KERNEL(32, 1) test(u32* out) { volatile int go = 1; while (go) {} out[0] = 1; }"
    with pytest.raises(KernelError, match="R701: no answer from the kernel within 0.5 s"):
        call("sm_80", text, [OUT], mode=Mode(seconds=0.5))
    fine = "TC_KERNEL(32, 1) test(u32* out) { out[threadIdx.x] = threadIdx.x; }"
    np.testing.assert_array_equal(clean("sm_80", fine, [OUT])[0], np.arange(32))


def test_polling_without_end_is_a_livelock() -> None:
    need("cxx")
    text = """TC_KERNEL(32, 1) test(u32* out) {
      while (true) { tc_syncwarp(); if (tc_shfl_xor(1, 1) == 0) break; }
    }"""
    _, outcome = call("sm_80", text, [OUT], mode=Mode(steps=10_000))
    assert outcome.kinds() == {"livelock"}
    assert "no end after 10000 scheduling steps" in str(outcome)


def test_a_crash_is_an_error_and_the_next_launch_runs() -> None:
    need("cxx")
    deep = """
    __attribute__((noinline)) static int sink(int n) {
      volatile char room[4096];
      room[0] = (char)n;
      return n == 0 ? 0 : sink(n - 1) + room[0];
    }
    TC_KERNEL(32, 1) test(u32* out) { out[threadIdx.x] = sink(1000); }
    """
    with pytest.raises(KernelError, match="R702: test crashed in the emulator: signal 11"):
        call("sm_80", deep, [OUT])
    fine = "TC_KERNEL(32, 1) test(u32* out) { out[threadIdx.x] = 3; }"
    assert (clean("sm_80", fine, [OUT])[0] == 3).all()


def test_compile_errors_are_shown_with_the_users_line() -> None:
    need("cxx")
    with pytest.raises(KernelError, match=r"(?s)test.cu does not compile.*test.cu:2:.*no_such"):
        call("sm_80", "TC_KERNEL(32, 1) test(u32* out) { no_such(out); }", [OUT])
    with pytest.raises(KernelError, match="has no TC_KERNEL"):
        call("sm_80", "int x;", [OUT])
    wgmma = "TC_KERNEL(128, 1) test(u32* out) { tc_wgmma_fence(); }"
    with pytest.raises(KernelError, match="tc_wgmma_fence"):
        call("sm_80", wgmma, [OUT])


def test_an_image_is_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It runs where nothing else of its compilation is left."""
    need("cxx")
    device = Emulator("sm_80")
    text = '#include "device.cuh"\nTC_KERNEL(32, 1) test(u32* out) { out[threadIdx.x] = 7; }'
    image = device.compile(text, "test.cu")
    monkeypatch.setenv("TENSORC_CACHE_DIR", str(tmp_path))
    kernel = device.load(image).function("test")
    address = device.alloc(128)
    device.launch(kernel, (1, 1, 1), (32, 1, 1), 0, [np.uint64(address)])
    assert (np.frombuffer(device.read(address, 128), np.uint32) == 7).all()
    with pytest.raises(KernelError, match="no kernel other here; there are test"):
        device.load(image).function("other")
    with pytest.raises(KernelError, match="not compiled for the emulator"):
        device.load(b"\x7fELF")
    device.close()


def test_launches_are_checked() -> None:
    need("cxx")
    text = "TC_KERNEL(64, 1) test(u32* out, int n) { out[threadIdx.x] = n; }"
    with pytest.raises(KernelError, match="takes 2 parameters, 1 were given"):
        call("sm_80", text, [OUT])
    with pytest.raises(KernelError, match="parameter 1 has 4 bytes, 8 were given"):
        call("sm_80", text, [OUT, np.int64(1)])
    _, outcome = call("sm_80", text, [OUT, np.int32(1)], threads=96)
    assert "blocks of 96 threads; the kernel is compiled for at most 64" in str(outcome)
    _, outcome = call("sm_80", text, [OUT, np.int32(1)], shared=300_000)
    assert "300000 bytes of shared memory; a block has at most 232448" in str(outcome)


def test_kernels_are_found_in_a_source() -> None:
    source = """
    TC_KERNEL(N * (2 + 1), 1) first(int x) {}
    TC_KERNEL(128, 2) TC_CLUSTER(2, C, 1)
    second(float* y) {}
    """
    found = [(k.name, k.bounds, k.cluster) for k in find_kernels(source)]
    assert found == [("first", "N * (2 + 1), 1", "1, 1, 1"), ("second", "128, 2", "2, C, 1")]


def test_device_memory_is_reused_and_apart() -> None:
    memory = DeviceMemory(1 << 24)
    first, second = memory.alloc(1000), memory.alloc(1)
    assert first == HEAP_ADDRESS + GAP
    assert first % 256 == 0 and second >= first + 1000 + GAP
    memory.free(first)
    assert memory.alloc(500) == first
    with pytest.raises(MemoryError, match="bytes of device memory, of 16777216"):
        memory.alloc(1 << 24)
    with pytest.raises(ValueError, match="no buffer holds 8 bytes"):
        memory.buffer_of(second, 8)
    memory.close()


def test_freed_memory_comes_back_uninitialised() -> None:
    need("cxx")
    device = Emulator("sm_80")
    driver: Driver = device
    address = driver.alloc(1 << 20)
    driver.write(address, np.ones(1 << 18, np.float32))
    assert driver.read(address + 8, 4) == np.float32(1).tobytes()
    driver.free(address)
    assert driver.alloc(1 << 20) == address
    assert address not in device.memory.initialised
    device.close()


def test_tensor_map_rules() -> None:
    fine = Box("bf16", (64, 32), (128,), (64, 16), 128)
    assert fine.faults() == []
    wrong = Box("bf16", (64, 32), (120,), (128, 300), 64)
    assert wrong.faults() == [
        "box (128, 300): 1 to 256 in each dimension",
        "strides (120,): multiples of 16 bytes below 2^40",
        "a box row has 256 bytes, more than its swizzle of 64",
    ]
    assert Box("c64", (1,), (), (1,)).faults() == ["no tensor map has elements of type c64"]
    assert "a box row has 6 bytes" in Box("bf16", (8,), (), (3,), 0).faults()[0]
    assert packed(np.int32(-2)) == b"\xfe\xff\xff\xff"


def test_no_compiler_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    find_compiler.cache_clear()
    monkeypatch.setattr(emulator_build, "_candidates", lambda: [("/no/such/compiler",)])
    with pytest.raises(Unavailable, match="pip install 'tensorc\\[emulator\\]'"):
        find_compiler()
    find_compiler.cache_clear()


def test_cxx_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "my-c++"
    script.write_text(f"#!{sys.executable}\nprint('mine 1.0')\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", f"{script} -flag")
    find_compiler.cache_clear()
    assert find_compiler().command == (str(script), "-flag")
    assert find_compiler().version == "mine 1.0"
    find_compiler.cache_clear()


def test_the_cache_is_private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TENSORC_CACHE_DIR", str(tmp_path / "cache"))
    folder = emulator_build.cache_folder()
    assert folder == tmp_path / "cache" / "emulator"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert emulator_build.program_folder() == folder


def test_a_cache_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TENSORC_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert emulator_build.cache_folder().is_dir()


def test_no_cache_keeps_no_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`off` is no path: kernels go to a folder of this process, the worker's program stays."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TENSORC_CACHE_DIR", "off")
    assert emulator_build.cache_folder() != emulator_build.program_folder()
    assert emulator_build.cache_folder().is_relative_to(Path(tempfile.gettempdir()))
    assert emulator_build.program_folder().is_absolute()
    assert not list(tmp_path.iterdir())
