"""Level-2 texts of six operators for the CPU and for warp groups, as whole texts to read: products,
attention, a norm, a convolution, late interaction, and decoding against a long cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from examples.sizes import EXAMPLES
from tensorc.ir.print_tile import show
from tensorc.ir.read_tile import read as read_tile
from tensorc.ir.tensor import Program
from tensorc.ir.verify_tile import verify
from tensorc.lang import read
from tensorc.machine import verify_uses
from tests.passes.test_tile_chain import DECODE
from tests.passes.tile_edges import MACHINES, source, tiled

SIZES: dict[str, Mapping[str, int]] = {
    "gemm": {"m": 1024, "n": 1024, "k": 1024},
    "causal_attention": {"b": 2, "h": 8, "m": 1024, "n": 1024, "d": 64, "e": 64},
    "layer_norm": {"t": 4096, "i": 1024},
    "conv2d": {"n": 8, "c": 64, "h": 56, "w": 56, "o": 128, "r": 3, "s": 3},
    "maxsim": {"q": 32, "d": 100, "i": 32, "j": 180, "k": 128},
    "decode": {"b": 1, "g": 8, "x": 8, "n": 32768, "d": 128, "e": 128},
}


def program(name: str) -> Program:
    """An example's program, or that of decoding."""
    if name == "decode":
        (found,) = read(DECODE)
        return found
    (example,) = (item for item in EXAMPLES if item.name == name)
    return source(example)


@pytest.mark.parametrize("machine", [MACHINES[0], MACHINES[-1]])
@pytest.mark.parametrize("name", SIZES)
def test_texts(name: str, machine: str, golden: Callable[[str, str], None]) -> None:
    made = tiled(program(name), machine, SIZES[name], SIZES[name])
    text = show(made)
    assert not [*verify(made), *verify_uses.verify(made)], text
    assert show(read_tile(text)) == text
    golden(f"{name}_{machine}.txt", text)
