"""Every example through a call on sm_80 and sm_90a in the emulator: clean, within its bounds, and
the same bits in every interleaving, at sizes that fill tiles of tensor cores and at the least.

The tiny sizes are `test_cuda`'s. `TENSORC_PROFILE=campaign` takes 8 interleavings and more sizes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

import pytest

from examples.sizes import EXAMPLES, Example
from tensorc import emulated
from tensorc.codegen.emulator import Mode
from tensorc.ir.accept import Outcome
from tensorc.prepare import prepare
from tensorc.verify import judge, worst
from tests.examples.test_examples import arrays_of, text_of
from tests.requirements import need

CAMPAIGN = os.environ.get("TENSORC_PROFILE") == "campaign"
ARCHES = ("sm_80", "sm_90a")
_ROWS = dict(t=3, i=1030)
_HEADS = dict(b=1, h=2, m=70, n=136, d=64, e=64)

FULL: Mapping[str, Mapping[str, int]] = {
    "gemm": dict(m=130, n=136, k=72),
    "batched_gemm": dict(b=2, m=66, n=72, k=64),
    "grouped_gemm": dict(t=5, e=3, s=2, k=40, n=72),
    "attention": _HEADS,
    "causal_attention": _HEADS,
    "grouped_query_attention": dict(_HEADS, g=1),
    "window_attention": dict(h=1, m=70, n=70, d=64, e=64, w=30),
    "softcap_attention": dict(h=1, m=70, n=70, d=64, e=64),
    "softmax": _ROWS,
    "rms_norm": _ROWS,
    "layer_norm": _ROWS,
    "cross_entropy": dict(t=66, v=136, d=64),
    "conv2d": dict(n=1, c=16, h=10, w=12, o=32, r=3, s=3),
    "maxsim": dict(q=2, d=3, i=8, j=20, k=64),
    "tropical": dict(i=3, j=130, k=33),
    "transitive_closure": dict(n=40),
    "embedding": dict(v=9, d=1032, b=2, t=3),
    "rope": dict(t=3, h=2, d=64),
    "mla_decode": dict(b=1, h=16, t=70, r=64, e=16),
    "tt_linear": dict(n=5, i=4, j=4, k=4, a=4, b=4, c=4, r=4, s=4),
    "cg_product": dict(e=3, c=33, i=9, j=9, k=9),
    "int4_gemm": dict(m=9, n=72, k=32),
}
"""Sizes that reach past the end of one tile, by example."""

FIXED: Mapping[str, Mapping[str, int]] = {
    "conv2d": dict(r=3, s=3), "rope": dict(d=2), "cg_product": dict(i=9, j=9, k=9),
}  # fmt: skip
"""What is more than 1 at the least sizes."""


def least(example: Example) -> dict[str, int]:
    return {**dict.fromkeys(example.tiny, 1), **FIXED.get(example.name, {})}


def edges(example: Example) -> list[Mapping[str, int]]:
    """The sizes of one example. In the campaign also one more and one less than whole tiles."""
    found: list[Mapping[str, int]] = [FULL[example.name], least(example)]
    if CAMPAIGN:
        kept = {*FIXED.get(example.name, {}), "d", "e", "g", "h", "w", "k", "r"}
        for size in (63, 64, 65):
            found.append({n: v if n in kept else size for n, v in FULL[example.name].items()})
    return found


def test_every_example_has_sizes() -> None:
    assert set(FULL) == {example.name for example in EXAMPLES}


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_at_its_edges(
    example: Example, arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("cxx")
    program, device = text_of(example), emulated.emulator(arch)
    for sizes in edges(example):
        drawn = replace(example, tiny=sizes)
        call = prepare(program, arrays_of(drawn, program), sizes)
        runs: list[dict[str, bytes]] = []
        for seed in range(8 if CAMPAIGN else 2):
            monkeypatch.setattr(device, "mode", Mode(seed=seed))
            made = emulated.run(call, arch)
            runs.append({name: array.tobytes() for name, array in made.items()})
            if seed == 0:
                verdict = worst(judge(call, made))
                assert verdict in (Outcome.PASS, Outcome.UNDECIDED), (sizes, verdict)
        assert all(run == runs[0] for run in runs), sizes
