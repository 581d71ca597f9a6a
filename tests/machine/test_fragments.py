"""Layouts are bijections, and agree where conversions are said to cost nothing."""

from __future__ import annotations

import numpy as np
import pytest

from tensorc.machine.fragments import Fragment, fragment, offset, swizzled

FRAGMENTS = [
    fragment("m16n8"), fragment("m16n8", "A"), fragment("m16n8", "B"),
    *(fragment("wgmma", "", n) for n in (8, 64, 136, 256)), fragment("wgmma", "A"),
]  # fmt: skip


@pytest.mark.parametrize("item", FRAGMENTS)
def test_every_element_has_one_register(item: Fragment) -> None:
    rows, columns = item.coordinates()
    places = rows * item.shape[1] + columns
    assert sorted(places.ravel()) == list(range(item.shape[0] * item.shape[1]))


@pytest.mark.parametrize(("atom", "columns"), [("m16n8", 16), ("wgmma", 128)])
def test_sums_become_a_first_operand_without_moving(atom: str, columns: int) -> None:
    """Registers 8 s ... 8 s + 7 of the accumulators are the operand of step s along k."""
    sums = fragment(atom, "", columns).coordinates()
    first = fragment(atom, "A").coordinates()
    for step in range(columns // 16):
        part = slice(8 * step, 8 * step + 8)
        np.testing.assert_array_equal(sums[0][:, part], first[0])
        np.testing.assert_array_equal(sums[1][:, part], first[1] + 16 * step)


def test_some_elements_as_the_manual_prints_them() -> None:
    rows, columns = fragment("m16n8").coordinates()
    assert (rows[5, 3], columns[5, 3]) == (9, 3)  # T5: c3 in row 1 + 8, column 2 + 1
    rows, columns = fragment("wgmma", "", 256).coordinates()
    assert (rows[127, 127], columns[127, 127]) == (63, 255)
    rows, columns = fragment("m16n8", "B").coordinates()
    assert (rows[31, 3], columns[31, 3]) == (7, 15)


@pytest.mark.parametrize("span", [0, 32, 64, 128])
@pytest.mark.parametrize("rows", [8, 24, 128])
def test_swizzled_tiles_have_a_place_for_every_element(rows: int, span: int) -> None:
    row, column = np.meshgrid(np.arange(rows), np.arange(128), indexing="ij")
    places = offset((row, column), (rows, 128), 2, span)
    assert sorted(places.ravel()) == list(range(0, rows * 256, 2))


@pytest.mark.parametrize(("span", "ways"), [(0, 8), (128, 1)])
def test_a_swizzle_spreads_eight_rows_over_all_banks(span: int, ways: int) -> None:
    """Eight rows of 128 bytes, as ldmatrix reads them: chunks of 16 bytes, 8 groups of banks."""
    row = np.arange(8, dtype=np.int64)
    places = offset((row, 0 * row), (8, 64), 2, span)
    groups = places // 16 % 8
    assert np.bincount(groups).max() == ways


def test_the_swizzle_of_128_bytes_exchanges_chunks_by_row() -> None:
    chunk, row = np.arange(8, dtype=np.int64), 5
    found = swizzled(row * 128 + 16 * chunk, 128)
    np.testing.assert_array_equal(found, row * 128 + 16 * (chunk ^ row))
