"""Dependent products that the tiler puts on tensor cores of sm_80, as CUDA C++: attention with
masks, norms and products, in the emulator against their level-2 text."""

from __future__ import annotations

import os

import pytest

from tensorc.errors import Infeasible
from tests.codegen.test_tiled_products import check
from tests.passes.test_tile_chain import CHAINS, sizes_for
from tests.requirements import need

CAMPAIGN = os.environ.get("TENSORC_PROFILE") == "campaign"
# A chain whose fragments of one block do not fit into the registers of any number of warps.
LARGE = "gated MLP"
FEW = (
    "causal",
    "ragged rows",
    "latent attention",
    "RMS norm and product",
    "cross-entropy",
    "MaxSim",
)


@pytest.mark.parametrize("name", [n for n in CHAINS if n != LARGE] if CAMPAIGN else FEW)
def test_chains(name: str) -> None:
    need("cxx")
    sizes = sizes_for(CHAINS[name])
    check(CHAINS[name], sizes, sizes)


def test_what_does_not_fit_is_refused() -> None:
    sizes = sizes_for(CHAINS[LARGE])
    with pytest.raises(Infeasible, match="need 224 registers of a thread"):
        check(CHAINS[LARGE], sizes, sizes)
