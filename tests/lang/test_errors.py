"""Every fault of meaning (E2xx) with its whole message; faults that are reported together."""

from __future__ import annotations

import pytest

from tensorc.errors import NotationError
from tensorc.ir.diagnostics import CATALOGUE
from tensorc.ir.source import Source
from tensorc.lang import read
from tests.conftest import Golden

# name of the golden file: the program. Its code is the file's first four letters.
FAULTS: dict[str, str] = {
    "E107_literal": """
op f(x: f32[n]) -> y: f32[n]
  y[n] = x[n] * 1e39
""",
    "E115_rank": """
op f(A: f32[m, n]) -> y: f32[m]
  y[m] = sum[n](A * 2)
""",
    "E119_arity": """
op f(x: f32[n]) -> y: f32[n]
  y[n] = sqrt(x[n], 2) + max(x[n])
""",
    "E119_function": """
op f(x: f32[n]) -> y: f32[n]
  y[n] = sigmiod(x[n]) + total[n](x[n])
""",
    "E207_caret": """
op f(x: f32[n]) -> y: f32[n]
  m = mean[n]((x[n] - 1)^2)
  y[n] = x[n] / sqrt(m + m)
""",
    "E201_bare": """
op attention(q: f16[b, m, d], k: f16[b, n, d]) -> s: f32[b, m, n]
  s[b, m, n] = sum[d](q[b, m, d] * k[b, m, d])
""",
    "E201_left": """
op f(x: f32[m, n]) -> y: f32[n, m]
  y[m, n] = x[m, n]
""",
    "E201_rows": """
const T: i32[2, 3] = [[1, 2], [3, 4]]
op f(x: f32[n]) -> y: f32[n]
  y[n] = x[n]
""",
    "E201_stated": """
op f(x: f32[n=4], z: f32[n=5]) -> y: f32[n]
  y[n] = x[n] + z[n]
""",
    "E202_free": """
op f(A: f32[m, k], B: f32[k, n]) -> C: f32[m, n]
  C[m, n] = A[m, k] * sum[k](B[k, n])
""",
    "E203_left": """
op f(x: f32[n]) -> D: f32[n, n]
  D[n, n] = x[n]
""",
    "E203_reduction": """
op f(x: f32[n]) -> y: f32
  y = sum[n, n](x[n])
""",
    "E204_array_rank": """
op f(A: f32[m, n]) -> y: f32[m]
  y[m] = A[m]
""",
    "E204_left": """
op f(x: f32[m, n]) -> y: f32[m, n]
  y[m] = sum[n](x[m, n])
""",
    "E204_name": """
op f(query: f32[n]) -> y: f32[n]
  y[n] = qeury[n] + scale
""",
    "E204_rows": """
const T: i32[2, 3] = [1, 2]
op f(x: f32[n]) -> y: f32[n]
  y[n] = x[n]
""",
    "E206_divisor": """
op f(x: f32[n]) -> y: f32[p=|n| // 0]
  y[p] = x[p + 0]
""",
    "E206_float": """
op f(x: f32[n]) -> y: f32[p=|n| * 0.5]
  y[p] = x[p + 0]
""",
    "E206_negative": """
op f(x: f32[n]) -> y: f32[p=4 - 6]
  y[p] = x[p + 0]
""",
    "E206_not_const": """
op f(x: f32[n], w: i64) -> y: f32[p=w]
  y[p] = x[p + 0]
""",
    "E206_data": """
op f(x: i32[n]) -> y: f32[p=x[0]]
  y[p] = p
""",
    "E207_accumulator": """
op f(x: f32[n]) -> y: f32
  y = max[n, f64](x[n])
""",
    "E207_mean_of_integers": """
op f(x: i32[n]) -> y: f32
  y = mean[n, i32](x[n])
""",
    "E207_bitcast": """
op f(x: f16[n]) -> y: f32[n]
  y[n] = bitcast(f32, x[n])
""",
    "E207_bits_of_floats": """
op f(x: f32[n], z: i32[n]) -> y: i32[n]
  y[n] = z[n] & x[n]
""",
    "E207_comparison_trap": """
op f(a: i32[n], b: i32[n], m: bool[n]) -> y: bool[n]
  y[n] = a[n] <= b[n] & m[n]
""",
    "E207_complex": """
op f(x: complex64[n]) -> y: f32[n]
  y[n] = tanh(x[n]) + max[n](x[n])
""",
    "E207_negative_power": """
op f(x: i32[n]) -> y: f32[n]
  y[n] = x[n] ** -1
""",
    "E207_signs": """
op f(a: i64[n], b: u64[n]) -> y: i64[n]
  y[n] = a[n] + b[n]
""",
    "E207_subscript": """
op f(x: f32[n], at: f32[m]) -> y: f32[m]
  y[m] = x[at[m]]
""",
    "E214_compared_only": """
op f(x: f32[t]) -> y: f32[t]
  y[t] = x[t] * sum[s](select(s <= t, 1.0, 0.0))
""",
    "E214_itself": """
op f(x: f32[n]) -> y: f32[p=|q|, q=|p|]
  y[p, q] = x[0]
""",
    "E214_padded": """
op f(x: f32[n], k: f32[r]) -> y: f32[o]
  y[o] = sum[r](x[o + r - 1] * k[r] where inside(o + r - 1, |n|))
""",
    "E214_unknown": """
op f(x: f32[n]) -> y: f32[n]
  y[n] = x[n] / |m|
""",
    "E215_high": """
op f(x: f32[n]) -> y: f32[n]
  y[n] = x[n] + x[n + 1]
""",
    "E215_low": """
op f(x: f32[n, m]) -> y: f32[n, m]
  y[n, m] = x[n, m - 1]
""",
    "E215_strided": """
op f(x: f32[n], k: f32[r]) -> y: f32[o=|n| // 2]
  y[o] = sum[r=4](x[2*o + r])
""",
    "E215_number": """
op f(x: f32[4]) -> y: f32
  y = x[4] + select(x[0] > 0, x[1], x[-1])
""",
    "E218_only_reduced": """
op f(x: f32[i]) -> o: f32[i]
  o[i] = sum[i](x[i])
""",
    "E219_absent": """
op f(x: f32[n], z: f32[m]) -> y: f32
  y = sum[n, m](x[n])
""",
    "E220_before": """
op f(x: f32[n]) -> y: f32[n]
  y[n] = z[n] + 1
  z[n] = 2 * x[n]
""",
    "E220_scalar": """
op f(x: f32[n], n: f32) -> y: f32[n]
  y[n] = x[n] * n
""",
    "E220_twice": """
op f(x: f32[n]) -> y: f32[n]
  z[n] = x[n] + 1
  z[n] = z[n] * 2
  y[n] = z[n]
""",
    "E221_output": """
op f(x: f32[n]) -> y: f32[n], m: f32
  y[n] = x[n]
""",
    "E221_parameter": """
op f(x: f32[n]) -> y: f32[n]
  x[n] = 1
  y[n] = x[n]
""",
    "E222_bool": """
op f(x: i32[n]) -> y: bool[n]
  y[n] = x[n]
""",
    "E222_complex": """
op f(x: complex64[n]) -> y: f32[n]
  y[n] = x[n] * x[n]
""",
    "E222_float": """
op f(x: i32[n]) -> y: i32[n]
  y[n] = x[n] / 2
""",
    "E222_header": """
op f(x: f32[n]) -> y: f16[n]
  y: bf16[n] = x[n]
""",
    "E223_any": """
op f(x: i32[n]) -> y: bool
  y = any[n](x[n])
""",
    "E223_where": """
op f(x: f32[n], m: u8[n]) -> y: f32
  y = sum[n](x[n] where m[n]) + select(1, 2.0, 3.0)
""",
    "E224_literal": """
op f(x: u8[n]) -> y: bool[n], z: u8[n]
  y[n] = x[n] == 3000000000
  z[n] = 256
""",
    "E224_negative": """
op f(x: u32[n]) -> y: u32[n]
  y[n] = x[n] + (-1)
""",
}  # fmt: skip


def message(text: str) -> NotationError:
    """The error of a program."""
    with pytest.raises(NotationError) as caught:
        read(Source("f.tc", text.lstrip("\n")))
    return caught.value


@pytest.mark.parametrize("name", FAULTS)
def test_message(name: str, golden: Golden) -> None:
    error = message(FAULTS[name])
    assert error.code == name[:4]
    assert {item.code for item in error.diagnostics} == {error.code}
    golden(f"errors/{name}.txt", f"{error}\n")


def test_every_code_of_meaning_has_a_message() -> None:
    tested = {name[:4] for name in FAULTS}
    definition = {f"E2{n:02}" for n in (1, 2, 3, 4, 6, 7, 14, 15, 18, 19, 20, 21, 22, 23, 24)}
    assert definition <= tested


def test_all_faults_of_a_file_are_raised_together() -> None:
    text = """
const T: i32[2] = [1, 2.5]
op f(x: f32[n], k: f32[m]) -> y: f32[n], z: f32[n]
  y[n] = x[n + 1] + k[n] + nosuch[n]
  u[n] = x[q]
  y[n] = 1
op g(x: i32[n]) -> y: bool[n]
  y[n] = x[n]
"""
    codes = [item.code for item in message(text).diagnostics]
    assert codes == ["E222", "E221", "E201", "E204", "E204", "E220", "E222"]


def test_a_fault_is_not_reported_for_what_contains_it() -> None:
    error = message("op f(x: f32[n]) -> y: i32[n]\n  y[n] = 2 * sqrt(nosuch[n]) + x[n]")
    assert [item.code for item in error.diagnostics] == ["E204"]


@pytest.mark.parametrize(
    "code", [code for code in CATALOGUE if code[0] == "E" and CATALOGUE[code].wrong]
)
def test_the_catalogue_is_right_about_its_programs(code: str) -> None:
    entry = CATALOGUE[code]
    read(entry.right)
    assert message(entry.wrong).code == code
