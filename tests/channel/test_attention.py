"""The attention programs compute attention: with numbers, in random interleavings, for all T."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from benchmarks.protocol_faults import load
from tensorc.ir.channel import Kernel
from tensorc.ir.interpret_channel import interpret
from tests.channel import hopper
from tests.channel.profile import CAMPAIGN

ROWS, KEYS, D, E = 3, 4, 5, 2  # of a consumer's part; of a block; of q and k; of v
Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


class Attention:
    """What the operations of the hand-written program compute, on random tensors."""

    def __init__(self, tiles: int, trips: int, seed: int) -> None:
        chance = np.random.default_rng(seed)
        self.q = chance.normal(size=(tiles, 2, ROWS, D))
        self.k = chance.normal(size=(tiles, trips, KEYS, D))
        self.v = chance.normal(size=(tiles, trips, KEYS, E))

    def meaning(self, name: str, tile: int, at: int, arguments: tuple[object, ...]) -> object:
        """The value of an operation instance; a part is the last letter of its name."""
        operation, _, part = name.removeprefix("start ").partition(".")
        given = cast("tuple[Array, ...]", arguments)
        if name.startswith("start"):
            return {"r": -np.inf * np.ones(ROWS), "l": np.zeros(ROWS), "a": np.zeros((ROWS, E))}[
                operation
            ]
        match operation:
            case "load_q":
                return self.q[tile]
            case "load_k":
                return self.k[tile, at]
            case "load_v":
                return self.v[tile, at]
            case "scores":
                return given[0][int(part)] @ given[1].T
            case "largest":
                return given[0].max(axis=1)
            case "running":
                return np.maximum(*given)
            case "factor":
                return np.exp(given[0] - np.maximum(*given))
            case "power":
                return np.exp(given[0] - given[1][:, None])
            case "total":
                return given[0] * given[1] + given[2].sum(axis=1)
            case "rescale":
                return given[0] * given[1][:, None]
            case "pack":
                return given[0]
            case "values":
                return given[2] + given[0] @ given[1]
            case "store":
                return given[0] / given[1][:, None]
            case _:
                raise ValueError(name)

    def reference(self, tile: int, trips: int, part: int) -> Array:
        """softmax(q k^T) v of a tile's part over all its keys at once."""
        k, v = self.k[tile, :trips].reshape(-1, D), self.v[tile, :trips].reshape(-1, E)
        weights = np.exp(self.q[tile, part] @ k.T)
        return weights @ v / weights.sum(axis=1, keepdims=True)


class Lowered(Attention):
    """The same under the operations of the loop problem that `hopper` lowers.

    Its `r` makes the running maximum together with the factor, and that maximum to carry on.
    """

    def meaning(self, name: str, tile: int, at: int, arguments: tuple[object, ...]) -> object:
        operation, _, part = name.removeprefix("start ").partition(".")
        if name.startswith("start"):
            operation = operation.replace("m", "r")
            return super().meaning(f"start {operation}.{part}", tile, at, arguments)
        match operation:
            case "load_q" | "store":
                return super().meaning(name, tile, at, arguments)
            case "K" | "V":
                return super().meaning(f"load_{operation.lower()}", tile, at, arguments)
            case "t":
                return super().meaning(f"scores.{part}", tile, at, arguments)
            case "r":
                scores, before = cast("tuple[Array, Array]", arguments)
                top = np.maximum(scores.max(axis=1), before)
                return (top, np.exp(before - top)), top
            case "y":
                scores, (top, _) = cast("tuple[Array, tuple[Array, Array]]", arguments)
                return np.exp(scores - top[:, None])
            case "l":
                y, (_, factor), sums = cast("tuple[Array, tuple[Array, Array], Array]", arguments)
                return sums * factor + y.sum(axis=1)
            case "P":
                return arguments[0]
            case "x":
                (_, factor), sums = cast("tuple[tuple[Array, Array], Array]", arguments)
                return sums * factor[:, None]
            case "a":
                v, weights, sums = cast("tuple[Array, Array, Array]", arguments)
                return sums + weights @ v
            case _:
                raise ValueError(name)


@pytest.mark.parametrize("name", ["attention", "balanced"])
def test_the_hand_written_programs_compute_attention(name: str) -> None:
    _computes(load(name), Attention)


def test_the_lowered_program_computes_attention() -> None:
    _computes(hopper.attention(), Lowered)


def _computes(kernel: Kernel, kind: type[Attention]) -> None:
    trips = [3, 1, 5, 2]
    for seed in range(20 if CAMPAIGN else 3):
        maths = kind(len(trips), max(trips), seed)
        run = interpret(kernel, trips, seed, maths.meaning)
        assert run.fault is None, str(run)
        for tile, count in enumerate(trips):
            for part in range(2):
                (out,) = cast("tuple[Array]", run.results[f"store.{part}", tile, 0])
                expected = maths.reference(tile, count, part)
                np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)
