"""Every fault of the text (E101 to E109, E115, E117 to E119): the whole message, as users see it.

One golden file for each case under `tests/golden/errors`, named by its code.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tensorc.errors import NotationError
from tensorc.ir.source import Source
from tensorc.lang.parse import Limits, parse_file, parse_signature, read_source
from tests.conftest import Golden

HEADER = "op f(x: f32[n], w: f32) -> y: f32[n]\n"

FILES: dict[str, str] = {
    "E101": "# only a comment\n",
    "E102_nul": HEADER + "  y[n] = x[n]\0\n",
    "E104_brackets": HEADER + f"  y[n] = {'(' * 201}x[n]{')' * 201}\n",
    "E104_chain": HEADER + f"  y[n] = x[n]{' - w' * 250}\n",
    "E105": HEADER + f"  y[n] = w{' + w' * 20_000}\n",
    "E106_ligature": "op f(\ufb01lter: f32) -> y: f32\n  y = 1\n",
    "E106_cyrillic": HEADER + "  y[n] = \u0445[n] * w\n",
    "E106_zero-width": HEADER + "  y[n] = w\u200b * x[n]\n",
    "E106_direction": HEADER + "  y[n] = x[n] # \u202e } w \u2066\n",
    "E106_minus": HEADER + "  y[n] = x[n] \u2212 w\n",
    "E106_mark": HEADER + "  y[n] = x[n].size\n",
    "E106_wide": HEADER + "  y[n] = \u5165\u529b[n] + w\n",
    "E106_long": HEADER + f"  y[n] = {'a' * 65}[n]\n",
    "E106_prime": HEADER + "  y'[n] = x[n]\n",
    "E107_large": HEADER + "  y[n] = x[n] * 1e999\n",
    "E107_huge": HEADER + "  y[n] = x[n] * 1e999999999999999999\n",
    "E107_small": HEADER + "  y[n] = x[n] * 1e-400\n",
    "E107_digits": HEADER + f"  y[n] = x[n] * 0.{'3' * 60}\n",
    "E107_form": HEADER + "  y[n] = x[n] * 2x\n",
    "E107_octal": HEADER + "  y[n] = x[n] * 017\n",
    "E108_value": HEADER + "  y[n] = x[n] +\n",
    "E108_operator": HEADER + "  y[n] = x[n] w\n",
    "E108_if": HEADER + "  y[n] = x[n] if w else 0\n",
    "E108_where": HEADER + "  y[n] = x[n] where w > 0\n",
    "E108_colon": "op f(x: f32[n]) -> y: f32[n]:\n  y[n] = x[n]\n",
    "E108_slice": HEADER + "  y[n] = x[0:3]\n",
    "E108_extent": HEADER + "  y[n] = |x[n]|\n",
    "E108_dtype": "op f(x: float16[n]) -> y: f32[n]\n",
    "E108_dimension": "op f(x: f32[n + 1]) -> y: f32[n]\n",
    "E108_cast": HEADER + "  y[n] = f16\n",
    "E108_index": HEADER + "  y[n] = sum[n + 1](x[n])\n",
    "E108_left": HEADER + "  y[2*n] = x[n]\n",
    "E108_subscript": HEADER + "  y[n] = x[n=3]\n",
    "E108_rows": "const C: f32[2, 2] = [[1, 2], [3]]\n",
    "E108_continued": HEADER + "  y[n] = x[n]\n    + w\n",
    "E108_outside": "y[n] = x[n]\n",
    "E108_closed": HEADER + "  y[n] = x[n])\n",
    "E108_equation": HEADER + "  y[n] == x[n]\n",
    "E109_equation": HEADER + "  y[n] = (x[n] + 1\n  y[n] = x[n]\n",
    "E109_mismatch": HEADER + "  y[n] = sum[k(x[k])\n",
    "E109_header": "op f(x: f32[n] -> y: f32[n]\n  y[n] = x[n]\n",
    "E115": HEADER + "  y[n] = sum[](x[n])\n",
    "E117_parameter": "op f(in: f32[n]) -> y: f32[n]\n",
    "E117_index": HEADER + "  y[n] = sum[as](x[n])\n",
    "E117_value": HEADER + "  y[n] = scan + 1\n",
    "E118_init": HEADER + "  y[n] = y[n - 1] + x[n] init 0\n",
    "E118_range": HEADER + "  y[n] = sum[p in 0..n](x[p])\n",
    "E118_format": "op f(W: f16[m, k] as bcsr(16, 8)) -> y: f16[m]\n",
    "E118_values": "op f(t: i32[n] in 0..|v|, E: f16[v]) -> y: f16[n]\n",
    "E118_mesh": "op f(q: f16[b, h@tp]) -> y: f16[b]\n",
    "E118_monoid": "monoid lse2(a, b) = log2(exp2(a) + exp2(b)) unit -inf\n",
    "E118_def": "def gelu(x) = x\n",
    "E118_topk": HEADER + "  y[n] = topk[n, k=8](x[n])\n",
    "E118_random": HEADER + "  y[n] = uniform(w, n)\n",
    "E119_sqroot": HEADER + "  y[n] = sqroot(x[n])\n",
    "E119_known": HEADER + "  y[n] = relu(x[n])\n",
    "E119_reduced": HEADER + "  y[n] = sum(x[n])\n",
    "E119_reduction": HEADER + "  y[n] = summ[k](x[k])\n",
    "E119_select": HEADER + "  y[n] = select(x[n] > 0, x[n])\n",
    "E220_operator": HEADER + "  y[n] = x[n]\n" + HEADER + "  y[n] = x[n]\n",
    "several": (
        "op f(x: f32[n]) -> y: f32[n]\n"
        "  y[n] = (x[n] + \n"
        "  z[n] = x[n] *\n"
        "op g(x: f99[n]) -> y: f32[n]\n"
        "  y[n] = x[n] ! 2\n"
        "op h(x: f32[n]) -> y: f32[n]\n"
        "  y[n] = x[n]\n"
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_file(case: str, golden: Golden) -> None:
    with pytest.raises(NotationError) as caught:
        parse_file(Source("f.tc", FILES[case]))
    if case[0] == "E":
        assert [item.code for item in caught.value.diagnostics] == [case[:4]]
    golden(f"errors/{case}.txt", f"{caught.value}\n")


def test_file_that_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("big.tc").write_text("#" * 300_000)
    with pytest.raises(NotationError) as caught:
        read_source("big.tc")
    golden("errors/E103_bytes.txt", f"{caught.value}\n")
    assert read_source("big.tc", Limits(bytes=300_000)).text == "#" * 300_000


def test_too_many_statements(golden: Golden) -> None:
    source = Source("f.tc", HEADER + "  y[n] = x[n]\n" * 5000)
    with pytest.raises(NotationError) as caught:
        parse_file(source)
    golden("errors/E103_statements.txt", f"{caught.value}\n")
    assert len(parse_file(source, Limits(statements=5001)).operators[0].statements) == 5000


def test_bytes_that_are_not_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.tc").write_bytes(b"\xef\xbb\xbf# caf\xe9\n")
    with pytest.raises(NotationError) as caught:
        read_source("f.tc")
    golden("errors/E102.txt", f"{caught.value}\n")


def test_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "f.tc"
    path.write_bytes(b"\xef\xbb\xbfop f() -> y: f32\r\n  y = 1\r\n")
    assert parse_file(read_source(path)).operators[0].name == "f"


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("arrow", "x: f32[n]"),
        ("outputs", "x: f32[n] ->"),
        ("bracket", "x: f32[n -> y: f32[n]"),
        ("reserved", "x: f32[n] -> if: f32[n]"),
        ("name", "op f(x: f32) -> y: f32"),
    ],
)
def test_signature(case: str, text: str, golden: Golden) -> None:
    with pytest.raises(NotationError) as caught:
        parse_signature(Source("<signature>", text))
    golden(f"errors/signature_{case}.txt", f"{caught.value}\n")
