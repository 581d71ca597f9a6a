"""CUDA kernels of calls: which way they are made, and that the cache keeps all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tensorc import cuda_code
from tensorc.codegen.cuda import CudaModule
from tensorc.codegen.cuda_launch import Placed, misfit, row_major
from tensorc.cuda_code import code_of
from tensorc.cuda_levels import request
from tensorc.cuda_ways import explained, first, usable, ways
from tensorc.ir.tensor import Program
from tensorc.lang import read
from tests.passes.test_tile_chain import CHAINS

GEMM = "op f(a: f16[m, k], w: f16[k, n]) -> o: f16[m, n]\n  o[m, n] = sum[k](a[m, k] * w[k, n])\n"
COPY = "op g(z: complex64[n]) -> y: complex64[n]\n  y[n] = 2 * z[n]\n"
SIZES = {"m": 256, "n": 256, "k": 128}


def program(text: str) -> Program:
    """Read anew: nothing is remembered of it."""
    (item,) = read(text)
    return item


def test_the_cache_keeps_all_that_a_call_needs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = ways(request("sm_90a", SIZES, {}))[0].request
    made = code_of(program(GEMM), wanted)
    assert made.cores and len(made.module.kernels[0].maps) == 3
    other = code_of(program(COPY), request("sm_80", {}, {}))
    monkeypatch.setattr(cuda_code, "levels", None)  # nothing is lowered again
    assert code_of(program(GEMM), wanted) == made
    assert code_of(program(COPY), request("sm_80", {}, {})) == other
    assert [tensor.dtype.name for tensor in other.outputs] == ["f32", "f32"]


def test_a_request_that_differs_has_kernels_of_its_own() -> None:
    item = program(GEMM)
    texts = {
        code_of(item, wanted).module.text
        for wanted in (
            request("sm_80", {}, {}),
            request("sm_80", SIZES, {}),
            request("sm_80", {}, {"a": (1, None)}),
            request("sm_80", {}, {}, "strict"),
        )  # fmt: skip
    }
    assert len(texts) == 4
    again = code_of(item, request("sm_80", dict(reversed(SIZES.items())), {}))
    assert again is code_of(item, request("sm_80", SIZES, {}))


def test_ways_of_an_architecture() -> None:
    item = program(GEMM)
    assert [way.words for way in ways(request("sm_90a", {}, {}))] == [
        "warp groups with tensor maps",
        "tensor cores with copies by threads",
        "plain kernels",
    ]
    assert len(ways(request("sm_90a", {}, {}, "strict"))) == 1
    assert len(ways(request("sm_80", {}, {}))) == 1
    assert first(item, request("sm_90a", SIZES, {})).target.product == "h100"
    fixed = first(item, request("sm_90a", {}, {}, deterministic=True))  # by no layout
    assert fixed.target.product == "a100" and not code_of(item, fixed).module.kernels[0].maps
    odd = first(item, request("sm_90a", {**SIZES, "n": 17}, {}))
    assert odd.target.product == "a100"
    assert first(program(COPY), request("sm_90a", {}, {})).target.product == ""


def test_what_has_no_text_for_tensor_cores_is_plain() -> None:
    item = program(CHAINS["layer norm and product"])
    for arch in ("sm_80", "sm_90a"):
        found = usable(item, request(arch, {}, {}))
        assert all(code_of(item, way).module.text for way in found)


def test_which_way_a_call_takes_is_explained() -> None:
    section = explained(program(GEMM), request("sm_90a", SIZES, {})).sections[-1]
    assert section.title == "ways"
    assert section.lines == (
        "warp groups with tensor maps: calls in which a, w, o have rows without gaps between "
        "elements, addresses and strides of whole 16 bytes",
        "tensor cores with copies by threads: all others",
    )
    section = explained(program(COPY), request("sm_90a", {}, {})).sections[-1]
    assert section.lines == ("plain kernels: all calls",)


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (Placed(64, (256, 128), (128, 1)), ""),
        (Placed(64, (256, 128), (136, 1)), ""),
        (Placed(64, (1, 128), (3, 1)), ""),  # a stride that nothing is multiplied by
        (Placed(64, (0, 128), (3, 1)), ""),
        (Placed(64, (256, 1), (8, 5)), ""),
        (Placed(66, (256, 128), (128, 1)), "a: address 0x42 is no multiple of 16"),
        (Placed(64, (256, 128), (130, 1)), "a: strides (260,): multiples of 16"),
        (Placed(64, (256, 128), (-128, 1)), "a: strides (-256,): multiples of 16"),
        (Placed(64, (256, 128), (1, 256)), "a: its last dimension is not contiguous"),
    ],
)
def test_arrays_of_which_no_map_is_made(array: Placed, why: str) -> None:
    wanted = ways(request("sm_90a", {}, {}))[0].request
    made: CudaModule = code_of(program(GEMM), wanted).module
    kernels = [replace(item, maps=item.maps[:1]) for item in made.kernels]
    assert [item.tensor for item in kernels[0].maps] == ["a"]
    found = misfit(kernels, {"a": array}, SIZES)
    assert found.startswith(why) and bool(found) == bool(why)


def test_a_grid_that_blocks_cannot_count_goes_another_way() -> None:
    wanted = ways(request("sm_90a", {}, {}))[0].request
    kernels = code_of(program(GEMM), wanted).module.kernels
    arrays = {name: row_major(0, (128, 256)) for name in "awo"}
    assert not misfit(kernels, arrays, SIZES)
    huge = misfit(kernels, arrays, {"m": 1 << 40, "n": 256, "k": 128})
    assert huge == "kernel_0 has 8589934592 blocks and counts to 2147483647"
