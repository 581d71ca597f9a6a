"""Machine files: what is shipped is complete, what is wrong is told, and a new GPU is one file."""

from __future__ import annotations

from fractions import Fraction
from importlib import resources
from pathlib import Path

import pytest

from benchmarks.problems.gemm import gemm
from tensorc.errors import ArgumentError
from tensorc.machine.costs import Ledger
from tensorc.machine.product import KEYS, PRODUCTS, load_product, read_product, scaled
from tensorc.passes.scheduling.schedule import schedule

H100 = resources.files("tensorc.machine").joinpath("products", "h100.toml").read_text("utf-8")


@pytest.mark.parametrize("name", PRODUCTS)
def test_shipped(name: str) -> None:
    product = load_product(name)
    assert product.name == name and set(product.numbers) == set(KEYS)
    assert all(number.note for number in product.numbers.values())


@pytest.mark.parametrize(
    "name, tflops",
    [("a100", 312), ("rtx4090", 165.2), ("h100", 989.4), ("h200", 989.4), ("b200", 2250)],
)
def test_rates_give_the_published_peak(name: str, tflops: float) -> None:
    chip = load_product(name)
    peak = 2 * chip["rate.mma_f16"] * chip["chip.processors"] * chip["chip.clock"] * 10**6
    assert float(peak) / 1e12 == pytest.approx(tflops, rel=0.005)


BAD = {
    "missing": (("exp      =", "#"), "rate.exp", "nothing", "results/cycle"),
    "negative": (("value = 900,", "value = -900,"), "cost.copy_latency", "value -900",
                 "at least 0"),
    "zero rate": (("value = 16,   source", "value = 0, source"), "rate.exp", "value 0",
                  "at least 1"),
    "text": (("value = 132,", 'value = "132",'), "chip.processors", "'132'", "a number"),
    "boolean": (("value = 132,", "value = true,"), "chip.processors", "True", "a number"),
    "infinite": (("value = 132,", "value = inf,"), "chip.processors", "inf", "at least 1"),
    "source": (("source = \"assumed\",   note = \"TMA", "source = \"guess\", note = \"TMA"),
               "cost.copy_latency", "'guess'", "measured, derived, published, assumed"),
    "note": (('note = "H100 datasheet"', 'note = ""'), "chip.dram", "note ''", "comes from"),
    "unknown": (("exp      =", "exq ="), "rate.exq", "an unknown key", "KEYS"),
    "field": (('note = "none" }', 'note = "none", unit = "B" }'), "size.tensor", "unit", "value"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_file_is_refused_by_file_key_and_expectation(case: str) -> None:
    (old, new), key, found, allowed = BAD[case]
    assert old in H100
    with pytest.raises(ArgumentError) as caught:
        read_product(H100.replace(old, new, 1), "mine.toml")
    message = str(caught.value)
    for part in ("TC-E406 at mine.toml:", f"machine file mine.toml: {key}", found, allowed):
        assert part in message, message


def test_every_fault_of_a_file_is_listed() -> None:
    text = H100.replace("value = 900,", "value = -1,").replace("value = 132,", "value = -2,")
    with pytest.raises(ArgumentError) as caught:
        read_product(text, "mine.toml")
    assert len(caught.value.diagnostics) == 2


@pytest.mark.parametrize("name", ["h300", "", "missing.toml"])
def test_unknown_machine(name: str) -> None:
    with pytest.raises(ArgumentError, match="TC-E406"):
        load_product(name)


def test_not_toml(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b"\xff")
    (tmp_path / "y.toml").write_text("a = = 1")
    for name in ("x.toml", "y.toml"):
        with pytest.raises(ArgumentError, match="TC-E406"):
            load_product(tmp_path / name)


def test_a_ledger_notes_what_was_read() -> None:
    ledger = Ledger(load_product("h100"))
    assert ledger.cycles("cost.mbarrier") == 90 and ledger["rate.exp"] == 16
    assert [figure.key for figure in ledger.figures()] == ["cost.mbarrier", "rate.exp"]


def test_a_fictional_gpu_is_one_file_and_moves_the_optimum(tmp_path: Path) -> None:
    """Twice the tensor core and a quarter of the copy rate: 48 KiB at 16 bytes a cycle."""
    text = H100.replace('"h100"', '"paper1"').replace("value = 2048,", "value = 4096,")
    text = text.replace("copy     = { value = 64,", "copy     = { value = 16,")
    (tmp_path / "paper1.toml").write_text(text)
    product = load_product(tmp_path / "paper1.toml")
    made = schedule(gemm(product))
    assert made.machine == "paper1" and made.ii == 3072
    assert made.certificate.limit == "unit copy" and made.certificate.proof == "closed form"
    faster = scaled(product, "rate.copy", Fraction(8))
    made = schedule(gemm(faster))
    assert made.ii == 512 and made.certificate.limit == "unit mma"
