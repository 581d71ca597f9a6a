"""einsum against NumPy's, on examples of known trouble and on generated calls."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tensorc.contraction import einsum

Array = npt.NDArray[Any]
CALLS = 3000 if os.environ.get("TENSORC_PROFILE") == "campaign" else 150


def test_diagonals_keep_their_order() -> None:
    cube = np.arange(16).reshape(2, 2, 4)
    assert einsum("iij->i", cube).tolist() == [6, 54]
    assert einsum("iij->ij", cube).tolist() == [[0, 1, 2, 3], [12, 13, 14, 15]]
    batch = np.arange(96.0).reshape(2, 3, 4, 4)
    np.testing.assert_array_equal(einsum("...ii->...i", batch), np.einsum("...ii->...i", batch))


def test_values_off_the_diagonal_are_never_read_into_it() -> None:
    square = np.array([[1.0, np.inf], [np.nan, 2.0]])
    assert einsum("ii->i", square).tolist() == [1.0, 2.0]


def test_sizes_that_do_not_meet_are_refused_whatever_the_data() -> None:
    with pytest.raises(ValueError, match="is 5 before and 2"):
        einsum("ij,i->", np.ones((5, 1)), np.ones(2))
    assert einsum("i,i", np.zeros(2), np.zeros(1)) == 0.0
    np.testing.assert_array_equal(einsum("ij,j->i", np.ones((2, 1)), np.ones(2)), [2, 2])


def test_out_may_overlap_an_input() -> None:
    start = np.arange(27.0).reshape(3, 3, 3)
    expected = np.einsum("j,ijk->ijk", np.array([1.0, 2.0, 3.0]), start.copy())
    view = start.copy()
    assert einsum("j,ijk->ijk", np.array([1.0, 2.0, 3.0]), view, out=view) is view
    np.testing.assert_array_equal(view, expected)


def test_more_labels_than_letters_and_words_for_labels() -> None:
    many = np.ones((1,) * 30)
    labels = list(range(60))
    assert einsum(many, labels[:30], many, labels[30:], []) == 1.0
    q, k = np.ones((2, 3, 4)), np.ones((2, 5, 4))
    assert einsum("batch q d, batch k d -> batch q k", q, k).shape == (2, 3, 5)
    assert einsum("αβ,βγ->αγ", np.ones((2, 3)), np.ones((3, 4))).tolist() == [[3.0] * 4] * 2


def test_small_integers_wrap_as_numpys() -> None:
    bytes_ = np.full(100, 100, np.int8)
    assert einsum("i->", bytes_) == np.einsum("i->", bytes_)
    assert einsum("i,i->", bytes_, bytes_).dtype == np.int8


def test_half_sums_do_not_stall() -> None:
    ones = np.ones((3000, 2), np.float16)
    assert einsum("ij->j", ones).tolist() == [3000.0, 3000.0]


def test_the_result_is_always_fresh() -> None:
    array = np.arange(6.0).reshape(2, 3)
    result = einsum("ij->ji", array)
    result[0, 0] = 99
    assert array[0, 0] == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: einsum("ij,jk->ik", np.ones((2, 2))),
        lambda: einsum("ij->ii", np.ones((2, 2))),
        lambda: einsum("ij->k", np.ones((2, 2))),
        lambda: einsum("i->i", np.ones((2, 2))),
        lambda: einsum("i...j...->i", np.ones((2, 2))),
        lambda: einsum("i$->i", np.ones((2, 2))),
        lambda: einsum(),
        lambda: einsum("i->i", np.ones(3), out=np.ones(2)),
    ],
)
def test_wrong_calls_are_value_errors(call: Any) -> None:
    with pytest.raises(ValueError):
        call()


def test_types_without_a_kernel_are_named() -> None:
    with pytest.raises(TypeError, match="object"):
        einsum("i->", np.array([object()]))
    with pytest.raises(TypeError, match="longdouble|float128"):
        einsum("i->", np.ones(2, np.longdouble))
    with pytest.raises(TypeError, match="cast"):
        einsum("i->", np.ones(2), dtype=np.int32)


def test_out_takes_part_in_the_type() -> None:
    """As in NumPy: a sum of small integers into larger ones does not wrap, bools into integers are
    counted; on the short way too."""
    bytes_, flags = np.full(100, 100, np.int8), np.ones(7, bool)
    for _ in range(3):
        assert einsum("i->", bytes_) == 16
        assert einsum("i->", bytes_, out=np.zeros((), np.int8)) == 16
        assert einsum("i->", bytes_, out=np.zeros((), np.int64)) == 10_000
        assert einsum("i->", bytes_, out=np.zeros((), np.float64)) == 10_000
        assert einsum("i->", flags, out=np.zeros((), np.int32)) == 7
    with pytest.raises(TypeError, match="cast"):
        einsum("i->", np.ones(3), out=np.zeros((), np.float32))
    into = np.zeros((), np.float32)
    assert einsum("i->", np.ones(3), out=into, casting="same_kind") is into and into == 3
    for wrong in ([0.0], 3, "x"):
        with pytest.raises(TypeError, match="array"):
            einsum("i->", np.ones(3), out=wrong)  # pyright: ignore[reportArgumentType]


def test_a_result_of_one_element_fills_out() -> None:
    out = np.zeros(3)
    assert einsum(",ab->a", np.int64(2), np.full((1, 1), 3), out=out) is out
    assert out.tolist() == [6, 6, 6]
    for shape in ((2,), (3, 1), ()):
        with pytest.raises(ValueError, match="out has shape"):
            einsum("i->i", np.ones(3), out=np.zeros(shape))


def test_long_chains() -> None:
    """Where all points together are 2**35: neither computed nor compared at all of them."""
    factors = [[np.full((2, 2), 0.5), [n, n + 1]] for n in range(34)]
    got = einsum(*[part for pair in factors for part in pair], [0, 34])
    np.testing.assert_array_equal(got, np.full((2, 2), 0.5))


def test_orders_bytes_and_other_endians() -> None:
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    theirs: Any = np.einsum
    for order in "CFAK":
        want = theirs("ij,jk->ik", x, x.T, order=order)
        got = einsum("ij,jk->ik", x, x.T, order=order)
        np.testing.assert_array_equal(got, want)
        assert order not in "CF" or got.flags[f"{order}_CONTIGUOUS"]
    assert einsum("ij->ij", np.asfortranarray(x), order="A").flags.f_contiguous
    assert einsum("ij->ij", x, order="f").flags.f_contiguous
    assert einsum("ij->ij", x, order=None).tolist() == x.tolist()
    with pytest.raises(ValueError, match="order"):
        einsum("ij->ij", x, order="X")
    np.testing.assert_array_equal(einsum(b"ij->ji", x.astype(">f4")), x.T)


DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "float32", "float64", "complex64", "complex128")  # fmt: skip


def drawn(draw: random.Random) -> tuple[str, list[Array], dict[str, Any]]:
    """A random call that NumPy accepts."""
    labels = "abcde"[: draw.randint(1, 5)]
    sizes = {label: draw.choice([0, 1, 1, 2, 3, 4, 7]) for label in labels}
    terms = ["".join(draw.choices(labels, k=draw.randint(0, 3))) for _ in range(draw.randint(1, 3))]
    dots = draw.random() < 0.2
    arrays = [operand(draw, term, sizes, dots) for term in terms]
    used = sorted(set("".join(terms)))
    kept = [label for label in used if draw.random() < 0.5]
    draw.shuffle(kept)
    text = ",".join(("..." if dots else "") + term for term in terms)
    if draw.random() < 0.8:
        text += "->" + ("..." if dots else "") + "".join(kept)
    options: dict[str, Any] = {}
    if draw.random() < 0.2 and len(arrays) > 1:  # NumPy forgets dtype where it returns a view
        options["dtype"] = np.result_type(*arrays, np.float32)
    if draw.random() < 0.2:
        shape = [sizes[label] for label in kept] + [draw.randint(0, 1)] * (draw.random() < 0.1)
        options["out"] = operand_of(draw, ([2] if dots else []) + shape)
        options["casting"] = draw.choice(["safe", "same_kind", "unsafe"])
    return text, arrays, options


def operand(draw: random.Random, term: str, sizes: dict[str, int], dots: bool) -> Array:
    """An array in a random layout; a size may be 1 where its label's is not."""
    shape = [1 if draw.random() < 0.1 else sizes[label] for label in term]
    if len(set(term)) < len(term):
        shape = [sizes[label] for label in term]
    return operand_of(draw, ([2] if dots else []) + shape)


def operand_of(draw: random.Random, shape: list[int]) -> Array:
    """An array of this shape in a random type and layout."""
    dtype = np.dtype(draw.choice(DTYPES))
    generator = np.random.default_rng(draw.randint(0, 1 << 30))
    values = generator.integers(0, 2 if dtype.kind == "b" else 9, shape).astype(dtype)
    if dtype.kind in "fc":
        values = (values + generator.standard_normal(shape)).astype(dtype)
    if dtype.kind == "c":
        values = (values + 1j * generator.standard_normal(shape)).astype(dtype)
    if values.ndim and draw.random() < 0.3:
        values = np.ascontiguousarray(values[..., ::-1])[..., ::-1]
    if values.ndim > 1 and draw.random() < 0.3:
        values = np.asfortranarray(values)
    return values


def test_generated_calls() -> None:
    for seed in range(CALLS):
        draw = random.Random(seed)
        text, arrays, options = drawn(draw)
        where = f"seed {seed}: {text} {[(a.dtype, a.shape) for a in arrays]} {options}"
        theirs = {**options, "out": options["out"].copy("K")} if "out" in options else options
        try:
            want = np.einsum(text, *arrays, **theirs)
        except (ValueError, TypeError) as error:
            with pytest.raises(type(error)):
                einsum(text, *arrays, **options)
                pytest.fail(where)
            continue
        got = einsum(text, *arrays, **options)
        assert "out" not in options or got is options["out"], where
        assert np.shape(got) == np.shape(want), where
        assert np.asarray(got).dtype == np.asarray(want).dtype, where
        compare(got, want, text, arrays, where)


def compare(got: Any, want: Any, text: str, arrays: list[Array], where: str) -> None:
    """Integers and bools equal; others within the bound of the result in the widest type."""
    kind = np.asarray(want).dtype
    if kind.kind not in "fc":
        np.testing.assert_array_equal(got, want, err_msg=where)
        return
    wide = [array.astype(np.result_type(array, np.float64)) for array in arrays]
    exact: Any = np.einsum(text, *wide)
    exact = exact.real if kind.kind == "f" else exact  # into a real `out`, unsafely
    size = np.einsum(text, *[np.abs(array) for array in wide])
    terms = max(1, max((array.size for array in arrays), default=1)) * len(arrays)
    real = np.finfo(kind).dtype
    unit = np.finfo(np.float64 if real == np.float64 else np.float32).eps
    bound = 4 * terms * unit * size + np.finfo(kind).eps * np.abs(exact)
    bound = bound + 1e-7 * (kind.itemsize == 2)
    with np.errstate(over="ignore"):
        top = np.abs(exact) > float(np.finfo(kind).max)
    assert np.all((np.abs(np.asarray(got, exact.dtype) - exact) <= bound) | top), where


@pytest.mark.parametrize("subscripts", ["ii->i", "ii", "ij,ii->ij"])
def test_a_diagonal_has_one_size(subscripts: str) -> None:
    """Size 1 meets another size of another operand, not along a diagonal of one."""
    arrays = [np.ones((1, 3))] * ("," in subscripts) + [np.ones((1, 4))]
    for contract in (np.einsum, einsum):
        with pytest.raises(ValueError, match="collapsing index"):
            contract(subscripts, *arrays)
