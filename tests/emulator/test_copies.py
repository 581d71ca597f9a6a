"""Copies against NumPy: cp.async, TMA in every rank and swizzle, reductions, multicast, bulk."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.emulator.running import BF16, Array
from tests.emulator.snippets import Map, Out, clean, told
from tests.requirements import need


@pytest.mark.parametrize("size", [4, 8, 16])
def test_cp_async_fills_with_zeros(size: int) -> None:
    need("cxx")
    text = f"""
    TC_KERNEL(32, 1) test(const u8* in, u8* out) {{
      TC_DYN_SMEM(smem);
      const int at = threadIdx.x * {size};
      tc_cp_async{size}(tc_smem_u32(smem) + at, in + at, threadIdx.x % {size + 1});
      tc_cp_async_commit();
      tc_cp_async_wait<0>();
      for (int i = 0; i < {size}; i++) out[at + i] = smem[at + i];
    }}
    """
    data = np.random.default_rng(0).integers(1, 255, 32 * size, dtype=np.uint8)
    (got,) = clean("sm_80", text, [data, Out((32 * size,), np.uint8)], shared=32 * size)
    kept = np.arange(size)[None, :] < (np.arange(32) % (size + 1))[:, None]
    np.testing.assert_array_equal(got, np.where(kept, data.reshape(32, size), 0).reshape(-1))


LOAD = """
TC_KERNEL(32, 1) test(TC_GRID_CONST CUtensorMap map, const u32* ignored, u32* out) {{
  TC_DYN_SMEM(smem);
  const u32 base = tc_smem_u32(smem), bar = base + {bytes};
  if (threadIdx.x == 0) {{
    tc_mbar_init(bar, 1);
    tc_fence_mbar_init();
    tc_tma_prefetch(&map);
    tc_mbar_arrive_expect_tx(bar, {bytes});
    tc_tma_load_{rank}d(base, &map, bar, {at});
  }}
  tc_syncwarp();
  tc_mbar_wait(bar, 0);
  for (int i = threadIdx.x; i < {bytes} / 4; i += 32) out[i] = ((u32*)smem)[i];
}}
"""
STORE = """
TC_KERNEL(32, 1) test(TC_GRID_CONST CUtensorMap map, const u32* in, u32* target) {{
  TC_DYN_SMEM(smem);
  const u32 base = tc_smem_u32(smem);
  for (int i = threadIdx.x; i < {bytes} / 4; i += 32) ((u32*)smem)[i] = in[i];
  tc_fence_proxy_async();
  tc_syncwarp();
  if (threadIdx.x == 0) {{
    tc_tma_{what}_{rank}d(&map, base, {at});
    tc_tma_store_commit();
    tc_tma_store_wait<0>();
  }}
}}
"""
MASKS = {0: 0, 32: 0x10, 64: 0x30, 128: 0x70}


def swizzled(raw: Array, span: int) -> Array:
    """The bytes of a box as they lie in shared memory: chunk index xor row index, per pattern."""
    address = np.arange(raw.size)
    out = np.empty_like(raw)
    out[address ^ (address >> 3 & MASKS[span])] = raw
    return out


def box_of(array: Array, at: tuple[int, ...], box: tuple[int, ...]) -> Array:
    """The box at `at` (both fastest dimension first), zero outside the array."""
    out = np.zeros(box[::-1], array.dtype)
    ranges = [range(a, a + b) for a, b in zip(at[::-1], box[::-1], strict=True)]
    for place in itertools.product(*(range(len(r)) for r in ranges)):
        index = tuple(r[i] for r, i in zip(ranges, place, strict=True))
        if all(0 <= i < n for i, n in zip(index, array.shape, strict=True)):
            out[place] = array[index]
    return out


CASES = [
    ((40,), (32,), (0,)),
    ((40,), (32,), (16,)),
    ((24, 20), (16, 8), (8, 4)),
    ((24, 20), (16, 8), (16, 15)),
    ((24, 20), (16, 8), (-8, -3)),
    ((16, 6, 5), (8, 4, 2), (8, 3, 4)),
    ((16, 4, 3, 3), (16, 2, 2, 2), (0, 3, -1, 2)),
    ((8, 3, 3, 2, 3), (8, 2, 2, 1, 2), (0, 1, 2, 1, 2)),
]


SPANS = [
    (*case, span) for case in CASES for span in (0, 32, 64, 128) if not 0 < span < case[1][0] * 2
]


@pytest.mark.parametrize(("shape", "box", "at", "swizzle"), SPANS, ids=str)
def test_tma_load(
    shape: tuple[int, ...], box: tuple[int, ...], at: tuple[int, ...], swizzle: int
) -> None:
    need("cxx")
    array = np.arange(1, np.prod(shape) + 1).reshape(shape[::-1]).astype(np.float16)
    nbytes = int(np.prod(box)) * 2
    text = LOAD.format(rank=len(shape), at=", ".join(map(str, at)), bytes=nbytes)
    arguments = [Map(1, box, swizzle), array, Out((nbytes // 4,), np.uint32)]
    (got,) = clean("sm_90a", text, arguments, shared=nbytes + 16)
    expected = swizzled(box_of(array, at, box).reshape(-1).view(np.uint8), swizzle)
    np.testing.assert_array_equal(got.view(np.uint8), expected)


@pytest.mark.parametrize(("shape", "box", "at", "swizzle"), SPANS, ids=str)
def test_tma_store(
    shape: tuple[int, ...], box: tuple[int, ...], at: tuple[int, ...], swizzle: int
) -> None:
    need("cxx")
    data = np.arange(1, np.prod(box) + 1).reshape(box[::-1]).astype(np.float16)
    raw = swizzled(data.reshape(-1).view(np.uint8), swizzle)
    text = STORE.format(what="store", rank=len(shape), at=", ".join(map(str, at)), bytes=raw.size)
    arguments = [Map(2, box, swizzle), raw.view(np.uint32), Out(shape[::-1], np.float16, 0.5)]
    (got,) = clean("sm_90a", text, arguments, shared=raw.size)
    expected = np.full(shape[::-1], 0.5, np.float16)
    for place in np.ndindex(*box[::-1]):
        index = tuple(p + a for p, a in zip(place, at[::-1], strict=True))
        if all(0 <= i < n for i, n in zip(index, expected.shape, strict=True)):
            expected[index] = data[place]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16], ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_tma_add(dtype: Any, rank: int) -> None:
    need("cxx")
    box = (8, 2, 1, 2, 1)[:rank]
    data = (np.arange(np.prod(box)) - 4).reshape(box[::-1]).astype(dtype)
    raw = data.reshape(-1).view(np.uint32)
    text = STORE.format(what="add", rank=rank, at=", ".join("0" * rank), bytes=raw.nbytes)
    arguments = [Map(2, box), raw, Out(box[::-1], dtype, 1.5)]
    (got,) = clean("sm_90a", text, arguments, shared=raw.nbytes)
    np.testing.assert_array_equal(got, data + np.array(1.5, dtype))


def test_blocks_add_to_one_place_without_a_race() -> None:
    need("cxx")
    raw = np.ones(64, np.float32)
    text = STORE.format(what="add", rank=1, at="0", bytes=256)
    arguments = [Map(2, (64,)), raw.view(np.uint32), Out((64,), np.float32, 0)]
    (got,) = clean("sm_90a", text, arguments, shared=256, grid=(5, 1, 1))
    np.testing.assert_array_equal(got, np.full(64, 5, np.float32))


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_multicast_reaches_the_blocks_of_its_mask(rank: int) -> None:
    need("cxx")
    box = (16, 2, 2, 1, 2)[:rank]
    nbytes = int(np.prod(box)) * 2
    text = f"""
    TC_KERNEL(32, 1) TC_CLUSTER(4, 1, 1)
    test(TC_GRID_CONST CUtensorMap map, const u32* in, u32* out) {{
      TC_DYN_SMEM(smem);
      const u32 base = tc_smem_u32(smem), bar = base + {nbytes};
      if (threadIdx.x == 0) {{
        tc_mbar_init(bar, 1);
        tc_fence_mbar_init();
        if (tc_cluster_rank() % 2) tc_mbar_arrive_expect_tx(bar, {nbytes});
      }}
      tc_cluster_sync();
      if (threadIdx.x == 0 && tc_cluster_rank() == 2)
        tc_tma_multicast_{rank}d(base, &map, bar, 0xa, {", ".join("0" * rank)});
      if (tc_cluster_rank() % 2) {{
        tc_mbar_wait(bar, 0);
        for (int i = threadIdx.x; i < {nbytes} / 4; i += 32)
          out[blockIdx.x * {nbytes} / 4 + i] = ((u32*)smem)[i];
      }}
      tc_cluster_sync();
    }}
    """
    array = np.arange(1, np.prod(box) + 1).reshape(box[::-1]).astype(np.float16)
    arguments = [Map(1, box), array, Out((4, nbytes // 4), np.uint32, 0)]
    (got,) = clean("sm_90a", text, arguments, shared=nbytes + 16, grid=(4, 1, 1))
    expected = array.reshape(-1).view(np.uint32)
    for block in range(4):
        np.testing.assert_array_equal(got[block], expected if block % 2 else 0 * expected)


def test_bulk_copies() -> None:
    need("cxx")
    text = """
    TC_KERNEL(32, 1) test(const u32* in, u32* out) {
      TC_DYN_SMEM(smem);
      const u32 base = tc_smem_u32(smem), bar = base + 512;
      if (threadIdx.x == 0) {
        tc_mbar_init(bar, 1);
        tc_fence_mbar_init();
        tc_mbar_arrive_expect_tx(bar, 512);
        tc_bulk_load(base, in, 512, bar);
        tc_mbar_wait(bar, 0);
        tc_bulk_store(out + 4, base, 512);
        tc_tma_store_commit();
        tc_tma_store_wait_read<0>();
      }
    }
    """
    data = np.arange(128, dtype=np.uint32)
    (got,) = clean("sm_90a", text, [data, Out((136,), np.uint32, 7)], shared=528)
    np.testing.assert_array_equal(got, np.r_[[7] * 4, data, [7] * 4])


def test_reading_while_a_store_is_on_its_way() -> None:
    """wait_group.read frees shared memory; global memory is there only after wait_group."""
    need("cxx")
    text = STORE.format(what="store", rank=1, at="0", bytes=128).replace(
        "tc_tma_store_wait<0>();", "tc_tma_store_wait_read<0>(); target[40] = target[0];"
    )
    arguments = [Map(2, (32,)), np.zeros(32, np.uint32), Out((64,), np.float32, 0)]
    reports = told("sm_90a", text, arguments, shared=128)
    read_last = "race: plain read reads a global buffer" in reports
    assert read_last or "race: TMA store writes a global buffer" in reports
