"""Whole networks through rewriting: blocks stay what they are, and weights that meet one tensor are
joined."""

from __future__ import annotations

import pytest

from benchmarks.networks import ahead, rewritten, sizes_of
from benchmarks.problems.networks import networks
from tensorc.ir.verify_tensor import verify
from tensorc.passes.algebra.validate import validate

NETWORKS = {network.name: network for network in networks()}
JOINED = {  # the weights that end up in one tensor, of a network's last block but for VGG's
    "BERT, as published": [4],
    "BERT, true layers": [3],
    "NasRNN": [8, 8],
    "NasNet-A": [2],
    "ResNeXt-50": [],
    "Inception-v3": [4],
    "SqueezeNet": [],
    "VGG-19": [],
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_block_is_rewritten_into_an_equal_one(name: str) -> None:
    block = NETWORKS[name].blocks[-1]
    program, made, _ = rewritten(block)
    assert not verify(made)
    assert validate(program, made, sizes_of(program)).passed
    first, rest = ahead(made, block.weights)
    joined = [] if first is None else [len(item.tensor.name.split("_")) for item in first.outputs]
    assert sorted(joined) == JOINED[name]
    assert len(rest.equations) <= len(program.equations)


def test_networks_have_their_published_shapes() -> None:
    blocks = {
        name: sum(block.count for block in network.blocks) for name, network in NETWORKS.items()
    }
    assert blocks["NasNet-A"] == 1 + 3 * 6
    assert blocks["ResNeXt-50"] == 1 + 16
    assert blocks["VGG-19"] == 16 + 5 + 3
