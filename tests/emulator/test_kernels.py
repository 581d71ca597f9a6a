"""The hand-written kernels are right and clean, in any interleaving, around every tile edge."""

from __future__ import annotations

import pytest

from tensorc.codegen.emulator import Emulator, Mode
from tests.emulator.profiles import CAMPAIGN, count
from tests.emulator.running import Kernel, attention, gemm, tolerance
from tests.requirements import need

SM80, SM90, SM100 = (
    Kernel(f"gemm_{arch.replace('_', '')}.cu", arch) for arch in ("sm_80", "sm_90a", "sm_100a")
)
CLUSTER = Kernel("gemm_sm90a_cluster.cu", "sm_90a")
EDGES = {
    SM80: [(64, 64, 64), (63, 65, 72), (128, 128, 256), (1, 1, 8), (100, 72, 136), (64, 64, 640)],
    SM90: [
        (128, 256, 64),
        (127, 264, 72),
        (256, 512, 384),
        (1, 8, 8),
        (200, 264, 136),
        (129, 248, 320),
    ],
    CLUSTER: [(256, 256, 64), (255, 264, 456), (1, 8, 8), (384, 256, 328)],
    SM100: [(128, 128, 64), (127, 136, 72), (128, 128, 512), (1, 8, 8), (129, 120, 200)],
}


def _sm90(**defines: int) -> Kernel:
    return Kernel("attention_sm90a.cu", "sm_90a", tuple(defines.items()))


def _sm80(**defines: int) -> Kernel:
    return Kernel("attention_sm80.cu", "sm_80", tuple(defines.items()))


ATTENTION = [
    _sm90(),
    _sm90(CAUSAL=1),
    _sm90(V_DEPTH=3),
    _sm90(BF16=1, CAUSAL=1),
    _sm90(KEYS=176),
    _sm90(HEAD=64),
    _sm90(HEAD=64, CAUSAL=1, BF16=1, K_DEPTH=3, V_DEPTH=3),
    _sm90(KEYS=64, CAUSAL=1, K_DEPTH=3, V_DEPTH=4),
    _sm90(K_DEPTH=1, V_DEPTH=1),
    _sm80(),
    _sm80(CAUSAL=1, BF16=1),
    _sm80(KEYS=64, BLOCKS=1, WARPS=8),
    _sm80(HEAD=64, CAUSAL=1),
]
SHAPES = [
    (1, 1, 128, 128),
    (1, 2, 200, 300),
    (1, 1, 64, 77),
    (1, 1, 300, 140),
    (1, 1, 1, 1),
    (1, 1, 130, 640),
    (2, 1, 256, 256),
    (1, 1, 127, 129),
]


@pytest.mark.parametrize("kernel", EDGES, ids=lambda k: k.name)
def test_gemm_is_clean_and_bit_equal(kernel: Kernel) -> None:
    need("cxx")
    for shape in EDGES[kernel]:
        runs = [
            gemm(kernel, shape, Mode(seed=seed), blocks=1 + seed % 3) for seed in range(count(50))
        ]
        for seed, run in enumerate(runs):
            assert run.outcome.clean, f"{shape} seed {seed}\n{run.outcome}"
            assert run.error <= tolerance(kernel), (shape, seed)
            assert run.output.tobytes() == runs[0].output.tobytes(), (shape, seed)


@pytest.mark.parametrize("kernel", ATTENTION, ids=lambda k: k.name)
def test_attention_is_clean_and_bit_equal(kernel: Kernel) -> None:
    need("cxx")
    for number, shape in enumerate(SHAPES):
        if not CAMPAIGN and number % 3 != ATTENTION.index(kernel) % 3:
            continue
        runs = [
            attention(kernel, shape, Mode(seed=seed), blocks=1 + seed % 3, scale=4.0)
            for seed in range(count(50, 3))
        ]
        for seed, run in enumerate(runs):
            assert run.outcome.clean, f"{shape} seed {seed}\n{run.outcome}"
            assert run.error <= tolerance(kernel), (shape, seed)
            assert run.output.tobytes() == runs[0].output.tobytes(), (shape, seed)


def test_head_narrower_than_its_tile() -> None:
    need("cxx")
    for head in (72, 96):
        run = attention(_sm90(CAUSAL=1), (1, 2, 150, 260), Mode(seed=head), head=head)
        assert run.outcome.clean, str(run.outcome)
        assert run.error <= tolerance(_sm90())


def test_portable_switch_gives_the_same() -> None:
    """The ucontext switch follows the same interleaving as the processor's own instructions."""
    need("cxx")
    portable = Emulator("sm_90a", portable=True)
    for seed in range(count(20)):
        fast = gemm(SM90, (200, 264, 136), Mode(seed=seed))
        slow = gemm(SM90, (200, 264, 136), Mode(seed=seed), device=portable)
        assert slow.outcome.clean
        assert slow.outcome.steps == fast.outcome.steps
        assert slow.output.tobytes() == fast.output.tobytes()
    portable.close()
