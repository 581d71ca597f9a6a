"""Conversions and arithmetic of the helpers against NumPy and ml_dtypes, bit for bit."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.emulator.running import BF16, Array
from tests.emulator.snippets import Out, clean
from tests.requirements import need

EACH = """
TC_KERNEL(128, 1) test(const {source}* in, {target}* out, int n) {{
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) out[i] = {expression};
}}
"""


def each(arch: str, expression: str, values: Array, source: str, target: str, dtype: Any) -> Array:
    """The helper expression over `in[i]`."""
    text = EACH.format(source=source, target=target, expression=expression)
    return clean(
        arch, text, [values, Out(values.shape, dtype), np.int32(values.size)], threads=128
    )[0]


def floats() -> Array:
    """f32 values of every exponent, ties between f16 neighbours, infinities, both zeros."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 3000, dtype=np.uint64).astype(np.uint32)
    halves = np.arange(0, 31744, 7, dtype=np.uint16).view(np.float16).astype(np.float32)
    ties = (halves[:-1] + halves[1:]) / 2
    special = np.array(
        [0.0, -0.0, np.inf, -np.inf, 65504, 65519.9, 65520, 6e-8, 3e-8, 464, 449, 57344]
    )
    values = np.concatenate(
        [bits.view(np.float32), halves, ties, -ties, special.astype(np.float32)]
    )
    return values[~np.isnan(values)]


def test_f16_decodes_every_pattern() -> None:
    need("cxx")
    patterns = np.arange(65536, dtype=np.uint16)
    got = each("sm_80", "tc_from_f16(in[i])", patterns, "u16", "float", np.float32)
    np.testing.assert_array_equal(got, patterns.view(np.float16).astype(np.float32))


def test_bf16_decodes_every_pattern() -> None:
    need("cxx")
    patterns = np.arange(65536, dtype=np.uint16)
    got = each("sm_80", "tc_from_bf16(in[i])", patterns, "u16", "float", np.float32)
    np.testing.assert_array_equal(got, patterns.view(BF16).astype(np.float32))


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [("tc_to_f16(in[i])", np.dtype(np.float16)), ("tc_to_bf16(in[i])", BF16)],
    ids=["f16", "bf16"],
)
def test_rounding_to_16_bits(expression: str, dtype: np.dtype[Any]) -> None:
    need("cxx")
    values = floats()
    got = each("sm_80", expression, values, "float", "u16", np.uint16)
    with np.errstate(over="ignore"):
        expected = values.astype(dtype).view(np.uint16)
    np.testing.assert_array_equal(got, expected)


def test_packs_put_the_lower_index_low() -> None:
    need("cxx")
    values = floats()
    got = each("sm_80", "tc_pack_f16(in[i], 1.f)", values, "float", "u32", np.uint32)
    with np.errstate(over="ignore"):
        assert (got & 0xFFFF == values.astype(np.float16).view(np.uint16)).all()
    assert (got >> 16 == 0x3C00).all()
    got = each("sm_80", "tc_pack_bf16(1.f, in[i])", values, "float", "u32", np.uint32)
    assert (got >> 16 == values.astype(BF16).view(np.uint16)).all()
    assert (got & 0xFFFF == 0x3F80).all()


@pytest.mark.parametrize(
    ("helper", "dtype"),
    [("tc_pack_e4m3", ml_dtypes.float8_e4m3fn), ("tc_pack_e5m2", ml_dtypes.float8_e5m2)],
    ids=["e4m3", "e5m2"],
)
def test_rounding_to_8_bits_saturates(helper: str, dtype: Any) -> None:
    need("cxx")
    values = floats()
    got = each("sm_89", f"{helper}(in[i], 1.f)", values, "float", "u16", np.uint16)
    top = np.float32({"tc_pack_e4m3": 448, "tc_pack_e5m2": 57344}[helper])
    expected = np.clip(values, -top, top).astype(dtype).view(np.uint8)
    np.testing.assert_array_equal(got & 0xFF, expected)
    assert (got >> 8 == np.array(1, dtype).view(np.uint8)).all()


def test_tf32_rounds_ties_away() -> None:
    need("cxx")
    values = floats()[np.isfinite(floats())]
    got = each("sm_80", "tc_to_tf32(in[i])", values, "float", "u32", np.uint32)
    bits = values.view(np.uint32).astype(np.uint64)
    expected = ((bits + 0x1000) & 0xFFFFE000).astype(np.uint32)
    np.testing.assert_array_equal(got, expected)


def _flushed(x: Array) -> Array:
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


MEANINGS: dict[str, Any] = {
    "tc_ex2": np.exp2,
    "tc_lg2": np.log2,
    "tc_rcp": np.reciprocal,
    "tc_rsqrt": _rsqrt,
    "tc_tanh": np.tanh,
    "tc_sqrt": np.sqrt,
}


@pytest.mark.parametrize("helper", MEANINGS)
def test_special_functions_are_within_one_unit(helper: str) -> None:
    need("cxx")
    values = floats()
    values = values[(np.abs(values) < 1e30) & (np.abs(values) > 1e-30)]
    values = np.abs(values) if helper in ("tc_lg2", "tc_rsqrt", "tc_sqrt") else values
    got = each("sm_80", f"{helper}(in[i])", values, "float", "float", np.float32)
    with np.errstate(all="ignore"):
        expected = _flushed(MEANINGS[helper](values.astype(np.float64)).astype(np.float32))
    distance = np.abs(got.view(np.int32).astype(np.int64) - expected.view(np.int32))
    assert distance.max() <= 1


def test_the_c_librarys_functions_are_there() -> None:
    """What device code has without a header, the host build has, too."""
    need("cxx")
    text = """
    TC_KERNEL(32, 1) test(float* out, double* wide) {
      if (threadIdx.x) return;
      out[0] = expf(1.f) + logf(2.f) + sinf(1.f) + erff(0.5f) + powf(2.f, 0.5f);
      out[1] = fmaxf(floorf(2.5f), copysignf(3.f, -1.f)) + min(3, 4) + max(2.f, 1.f);
      wide[0] = tanh(0.25) + fma(2.0, 3.0, 1.0) + atan2(1.0, 2.0);
    }
    """
    out, wide = clean("sm_80", text, [Out((2,)), Out((1,), np.float64)])
    expected = math.exp(1) + math.log(2) + math.sin(1) + math.erf(0.5) + math.sqrt(2)
    np.testing.assert_allclose(out, [expected, 7.0], rtol=1e-6)
    np.testing.assert_allclose(wide, [math.tanh(0.25) + 7 + math.atan2(1, 2)], rtol=1e-14)


def test_special_values() -> None:
    need("cxx")
    text = """
    TC_KERNEL(32, 1) test(float* out) {
      if (threadIdx.x) return;
      const float inf = -tc_neg_inf(), nan = inf - inf;
      out[0] = tc_ex2(tc_neg_inf()); out[1] = tc_rcp(inf); out[2] = tc_max(nan, 2.f);
      out[3] = tc_min(3.f, nan); out[4] = tc_ex2(nan); out[5] = tc_rcp(0.f);
      out[6] = tc_fma(1.f + 0x1p-12f, 1.f - 0x1p-12f, -1.f);
      out[7] = tc_bits_f32(tc_f32_bits(-2.5f));
    }
    """
    (got,) = clean("sm_80", text, [Out((8,))])
    expected = [0, 0, 2, 3, np.nan, np.inf, -(2.0**-24), -2.5]
    np.testing.assert_array_equal(got, np.array(expected, np.float32))
