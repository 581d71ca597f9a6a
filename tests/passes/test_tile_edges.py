"""Every example on every machine at the edges of its tiles: one element less than they hold, as
many, and one more; with nothing to reduce, nothing to store, and rows that see nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import product

import numpy as np
import pytest

from examples.sizes import EXAMPLES, Example
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.interpret_tile import interpret as interpret_tile
from tensorc.ir.print_tile import show
from tensorc.ir.read_tile import read as read_tile
from tensorc.ir.tile import TileProgram
from tensorc.ir.verify_tile import verify
from tensorc.machine import verify_uses
from tensorc.prepare import prepare
from tests.examples.test_examples import arrays_of
from tests.passes.fused import Array
from tests.passes.tile_edges import MACHINES, at, at_edge, edges, free, source

CAMPAIGN = os.environ.get("TENSORC_PROFILE") == "campaign"
every = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
on_all = pytest.mark.parametrize("machine", MACHINES)


def offsets(count: int) -> Iterable[tuple[int, ...]]:
    """How far sizes are from full tiles: every index at each of three places; in a campaign, all
    of them together."""
    if CAMPAIGN:
        return product((-1, 0, 1), repeat=count)
    return (tuple((start + place) % 3 - 1 for place in range(count)) for start in range(3))


def made_for(example: Example, machine: str) -> TileProgram:
    """Level 2 at the example's tiny sizes; verified, and equal to its text read back."""
    made = at_edge(example, machine)
    text = show(made)
    assert not [*verify(made), *verify_uses.verify(made)], text
    assert show(read_tile(text)) == text
    return made


def compare(example: Example, machine: str, **arrays: Array) -> dict[str, Array]:
    """Level 2 against level 1 at the example's tiny sizes."""
    item = source(example)
    call = prepare(item, {**arrays_of(example, item), **arrays}, example.tiny)
    wanted = interpret(item, call.arrays, call.extents)
    found = interpret_tile(made_for(example, machine), call.arrays, call.extents)
    for output in item.outputs:
        name, dtype = output.tensor.name, output.tensor.dtype
        if not dtype.floating:
            np.testing.assert_array_equal(found[name], wanted[name])
            continue
        unit = {"f16": 2.0**-9, "bf16": 2.0**-6}.get(dtype.name, 2.0**-18)
        exact, got = wanted[name].astype(np.float64), found[name].astype(np.float64)
        finite = np.abs(exact[np.isfinite(exact)]).max(initial=1)
        np.testing.assert_allclose(got, exact, rtol=0, atol=unit * finite, err_msg=str(example))
    return found


@on_all
@every
def test_edges_of_tiles(example: Example, machine: str) -> None:
    full, rest = edges(example, machine)
    for by in offsets(len(full)):
        compare(at(example, full, rest, by), machine)


def emptied(example: Example) -> Iterator[Example]:
    """The example with one extent 0: in a campaign each in turn, else the last. What
    others have to be below, or divide by, stays."""
    item = source(example)
    below = {*example.below.values(), *({"g", "h"} if "grouped_query" in example.name else ())}
    names = [name for name in free(item) if name not in below]
    for name in names if CAMPAIGN else names[-1:]:
        yield Example(example.name, example.sizes, {**example.tiny, name: 0}, example.below)


@on_all
@every
def test_extents_of_nothing(example: Example, machine: str) -> None:
    for item in emptied(example):
        compare(item, machine)


MASKED: Mapping[str, dict[str, int]] = {
    "causal_attention": {"m": 150, "n": 9}, "grouped_query_attention": {"m": 150, "n": 9},
    "window_attention": {"m": 150, "n": 9},
}  # fmt: skip


@on_all
@pytest.mark.parametrize("name", MASKED)
def test_rows_that_see_nothing(name: str, machine: str) -> None:
    (example,) = (item for item in EXAMPLES if item.name == name)
    tiny = {**example.tiny, **MASKED[name], "d": 8, "e": 8}
    found = compare(Example(name, example.sizes, tiny, example.below), machine)["o"]
    first, last = found[..., :140, :], found[..., -1, :]
    if name == "window_attention":  # keys come first, then queries that are too far from them
        first, last = found[..., 13:, :], found[..., 0, :]
    assert not first.any() and last.any()


@on_all
@pytest.mark.parametrize("name", ["maxsim", "mla_decode"])
def test_lengths_of_nothing(name: str, machine: str) -> None:
    (example,) = (item for item in EXAMPLES if item.name == name)
    count = example.tiny[{"maxsim": "d", "mla_decode": "b"}[name]]
    lengths = np.zeros(count, np.int32)
    lengths[0] = 3
    compare(example, machine, len=lengths)
