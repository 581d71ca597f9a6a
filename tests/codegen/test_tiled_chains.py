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
# Chains whose fragments of one block do not fit into the registers of any number of warps.
LARGE = ("MaxSim", "gated MLP")
FEW = ("causal", "soft cap", "ragged", "latent attention", "RMS norm and product", "cross-entropy")


@pytest.mark.parametrize("name", [n for n in CHAINS if n not in LARGE] if CAMPAIGN else FEW)
def test_chains(name: str) -> None:
    need("cxx")
    sizes = sizes_for(CHAINS[name])
    check(CHAINS[name], sizes, sizes)


@pytest.mark.parametrize("name", LARGE)
def test_what_does_not_fit_is_refused(name: str) -> None:
    sizes = sizes_for(CHAINS[name])
    with pytest.raises(Infeasible):
        check(CHAINS[name], sizes, sizes)
