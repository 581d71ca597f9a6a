"""CUDA C++ to machine code without a GPU, by both compilers, and what ptxas says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensorc.codegen.cuda_build import build, read_resources
from tensorc.cubins import image_of
from tensorc.cuda_levels import levels, request
from tensorc.errors import BrokenInvariant, Unavailable
from tensorc.lang import read
from tests.requirements import has, need

TEXT = "op gemv(a: f16[m, k], x: f32[k]) -> y: f32[m]\n  y[m] = sum[k](a[m, k] * x[k])\n"
TOOLS = [pytest.param("nvcc", id="nvcc"), pytest.param("nvrtc", id="nvrtc")]


def source(arch: str) -> str:
    (program,) = read(TEXT)
    return levels(program, request(arch, {}, {})).source


def here(tool: str) -> None:
    """NVRTC comes with the extra `cuda`, which the tests do not need."""
    if tool == "nvrtc" and not has("cupy"):
        pytest.skip("needs the extra cuda")
    need("nvcc")


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_cubin_and_what_it_uses(tool: str, arch: str) -> None:
    here(tool)
    image = build(source(arch), arch, "cubin", tool)
    assert image.data.startswith(b"\x7fELF") and image.tool.startswith(tool)
    used = image.resources["kernel_0"]
    assert 8 <= used.registers <= 128
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)
    assert image.repairs == []


@pytest.mark.parametrize("tool", TOOLS)
def test_ptx_names_its_target(tool: str) -> None:
    here(tool)
    text = build(source("sm_90a"), "sm_90a", "ptx", tool).data.decode().rstrip("\0")
    assert ".target sm_90a" in text and ".entry kernel_0" in text
    assert "ftz" not in text  # denormals are numbers


@pytest.mark.parametrize("tool", TOOLS)
def test_a_source_that_does_not_compile_is_our_bug(tool: str) -> None:
    here(tool)
    with pytest.raises(BrokenInvariant, match="undefined"):
        build('extern "C" __global__ void f() { nothing_of_that_name(); }', "sm_80", "cubin", tool)


def test_without_a_compiler_the_advice_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Unavailable, match="install the CUDA toolkit"):
        build("", "sm_80", "cubin", "nvcc")


def test_images_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("nvcc")
    monkeypatch.setenv("TENSORC_CACHE_DIR", str(tmp_path))
    first = image_of(source("sm_80"), "sm_80")

    def never(source: str, arch: str, kind: str) -> None:
        pytest.fail("built again")

    monkeypatch.setattr("tensorc.codegen.cuda_build.build", never)
    assert image_of(source("sm_80"), "sm_80") == first
    with pytest.raises(pytest.fail.Exception, match="built again"):
        image_of(source("sm_80"), "sm_80", "ptx")


LOG = """\
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 168 registers, used 9 barriers, 1024 bytes smem
ptxas info    : (C7517) Potential Performance Loss: warpgroup.wait is injected
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Used 24 registers, used 1 barriers
"""


def test_what_a_log_says_of_each_kernel() -> None:
    first, second = read_resources(LOG).values()
    assert (first.registers, first.stack, first.spill_stores, first.spill_loads) == (168, 16, 8, 4)
    assert (first.shared, first.barriers) == (1024, 9)
    assert (second.kernel, second.registers, second.stack) == ("second", 24, 0)
