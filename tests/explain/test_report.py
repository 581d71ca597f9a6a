"""Reports on compiled programs: every section says what is true of the program at hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tensorc as tc
from tensorc.explain import SECTIONS, Report, Section, Step, Subject
from tensorc.explain.kernels import kernels
from tensorc.explain.passes import changes
from tensorc.ir.tensor import Program
from tensorc.pipeline import explained
from tensorc.request import Request, cpu_target

SOFT = """
op attend(q: f16[m, d], k: f16[n, d], v: f16[n, e]) -> o: f16[m, e]
  s[m, n] = sum[d](q[m, d] * k[n, d])
  p[m, n] = softmax[n](s[m, n])
  o[m, e] = sum[n](p[m, n] * v[n, e])
"""
GEMV = "op gemv(a: f32[m, k], x: f32[k]) -> y: f32[m]\n  y[m] = sum[k](a[m, k] * x[k])\n"


def report(text: str, policy: str = "fast", cuts: str = "cost", **sizes: int) -> Report:
    """The report on the one operator of a text."""
    (op,) = tc.loads(text)
    return explained(op.program, Request(cpu_target(), sizes, policy=policy, cuts=cuts))


def section(found: Report, title: str) -> Section:
    """The section with this title."""
    return next(item for item in found.sections if item.title == title)


def test_sections_come_in_order_and_as_data() -> None:
    found = report(SOFT, m=3, n=20, d=8, e=4)
    titles = [item.title for item in found.sections]
    assert titles == [t for t in ("passes", "fusion", "kernels", "costs", "numerics", "hints")]
    assert len(SECTIONS) >= len(titles)
    assert str(found).startswith("attend for ") and "at m=3, n=20, d=8, e=4" in str(found)
    assert set(json.loads(json.dumps(found.data))) == {"title", *titles}
    assert "&quot;" not in str(found) and found._repr_html_().startswith("<pre>attend for ")  # pyright: ignore[reportPrivateUsage]


def test_passes_say_what_changed() -> None:
    lines = section(report(SOFT, cuts="all"), "passes").lines
    assert "complex_parts: changes nothing here" in lines
    assert "  - p[m, n] = softmax[n](s[m, n])" in lines
    assert any(line.startswith("  + p[m, n] = exp(s[m, n] - ") for line in lines)
    assert lines[-1] == "lower: 3 kernels"


def test_long_changes_are_cut() -> None:
    equations = "".join(f"  t{n}[i] = softmax[i](x[i] * {n})\n" for n in range(60))
    found = report(f"op f(x: f32[i]) -> y: f32[i]\n{equations}  y[i] = t59[i]\n")
    assert any("TENSORC_DUMP=DIR writes all" in line for line in section(found, "passes").lines)


def test_kernels_say_what_runs_along_the_lanes() -> None:
    lines = section(report(GEMV), "kernels").lines
    assert lines[0].startswith("y: ") and f"k by {lines[1].split()[0]}" in lines[0]
    assert lines[1].endswith(" lanes of k: a, x neighbours")
    far = report("op t(a: f32[m, k]) -> y: f32[k, m]\n  y[k, m] = a[m, k]\n")
    assert "elements far apart" in section(far, "kernels").lines[1]
    scalar = report("op f(x: f32) -> y: f32\n  y = x * 2\n")
    assert section(scalar, "kernels").lines == (
        "y: one element", "  no vector lanes: one element at a time",
    )  # fmt: skip


def test_layouts_count() -> None:
    """The unit axis of a column-major operand decides which index has neighbours."""
    (op,) = tc.loads("op t(a: f32[m, k]) -> y: f32[k, m]\n  y[k, m] = a[m, k]\n")
    request = Request(cpu_target(), {}, strides={"a": (1, None)})
    assert "a, y neighbours" in section(explained(op.program, request), "kernels").lines[1]


def test_costs_are_counted_where_sizes_are_known() -> None:
    assert section(report(GEMV), "costs").lines == (
        "counted where all sizes are known: give m=..., k=...",
    )  # fmt: skip
    data = section(report(GEMV, m=10, k=100), "costs").data
    assert isinstance(data, dict)
    assert data["bytes"] == 4 * (10 * 100 + 100 + 10) and data["temporaries"] == 0
    apart = report(SOFT, cuts="all", m=3, n=20, d=8, e=4)
    assert section(apart, "costs").lines[-1] == "480 bytes of temporaries (s, p)"
    together = report(SOFT, cuts="none", m=3, n=20, d=8, e=4)
    assert section(together, "costs").lines[-1] == "0 bytes of temporaries"


def test_numerics() -> None:
    head = "op f(x: f16[i], n: i8[i]) -> y: f16, z: i64\n"
    text = head + "  y = sum[i](f16(x[i] * 2))\n  z = sum[i](n[i])\n"
    lines = section(report(text, policy="strict"), "numerics").lines
    assert lines[0].startswith("strict: sums in the order written")
    assert lines[1:] == (
        "y: sums and products kept in f32",
        "z: sums and products kept in i64",
        "y: rounded to f16 exactly where the cast stands",
        "y: rounded to f16 when it is stored",
    )


def test_what_is_left_for_the_call() -> None:
    text = "op f(e: f32[v, d], t: i32[b]) -> y: f32[b, d]\n  y[b, d] = e[t[b], d]\n"
    assert section(report(text), "ranges").lines == (
        "compared while running: e[t[b], d], dimension 0",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("declared", "hint"),
    [
        ("p[m, n]", "p is f32, so sum[n](p * v) cannot use the tensor core; declare p: f16 to "),
        ("p: f16[m, n]", ""),
    ],
)
def test_a_forgotten_type_is_a_hint(declared: str, hint: str) -> None:
    found = report(SOFT.replace("p[m, n] = soft", f"{declared} = soft"))
    titles = [item.title for item in found.sections]
    assert ("hints" in titles) == bool(hint)
    if hint:
        assert section(found, "hints").lines == (f"{hint}allow it",)


def test_a_pass_that_lowers_shows_no_lines() -> None:
    (op,) = tc.loads(GEMV)
    tiles = op.compile().tiles
    assert changes(Step("lower", "", op.program, tiles)) == []
    subject = Subject(op.program, (Step("lower", "", op.program, tiles),), "avx512", {}, {}, "fast")
    assert isinstance(kernels(subject), Section) and isinstance(op.program, Program)


def test_a_kernel_has_source_and_report_and_runs() -> None:
    (op,) = tc.loads(GEMV)
    kernel = op.compile(sizes={"k": 5})
    assert repr(kernel).startswith("<kernel gemv[m, k=5] for ")
    assert "define void" in kernel.source and "gemv for" in str(kernel.report)
    a, x = np.arange(15, dtype=np.float32).reshape(3, 5), np.ones(5, np.float32)
    np.testing.assert_array_equal(kernel(a, x), [10, 35, 60])
    np.testing.assert_array_equal(kernel(np.asfortranarray(a), x=x[::-1]), [10, 35, 60])
    with pytest.raises(tc.ArgumentError, match="k is 4 in a and 5 in the given sizes"):
        kernel(np.ones((3, 4), np.float32), np.ones(4, np.float32))
    with pytest.raises(TypeError, match="x not given"):
        kernel(a)
