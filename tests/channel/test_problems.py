"""The loop problems of `benchmarks/problems`, scheduled without a solver and lowered: all right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.problems import hopper
from benchmarks.problems.attention import attention_hopper
from benchmarks.problems.attention_blackwell import attention_blackwell
from benchmarks.problems.gemm import gemm
from tensorc.ir.interpret_channel import check_run
from tensorc.ir.print_channel import print_channel
from tensorc.ir.read_channel import read_channel
from tensorc.ir.schedule import LoopProblem
from tensorc.ir.verify_channel import verify_channel
from tensorc.machine.product import Product, load_product
from tensorc.passes.pipelining.channels import channels
from tensorc.passes.pipelining.check_protocol import check_protocol
from tensorc.passes.scheduling.list_schedule import list_schedule
from tests.channel.profile import CAMPAIGN

PROBLEMS: dict[str, Callable[[Product], LoopProblem]] = {
    "gemm": gemm,
    "attention": attention_hopper,
    "attention backward": hopper.attention_backward,
    "gated linear attention": hopper.gated_linear_attention,
    "fused mlp": hopper.fused_mlp,
    "norm gemm": hopper.norm_gemm,
    "max similarity": hopper.max_similarity,
    "int4 gemm": hopper.int4_gemm,
    "blackwell, 1 chunk": attention_blackwell,
    "blackwell, 2 chunks": lambda product: attention_blackwell(product, chunks=2),
    "blackwell, one issuer": lambda product: attention_blackwell(product, issuers=1),
}


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_a_real_loop_is_lowered_right(name: str) -> None:
    problem = PROBLEMS[name](load_product("b200" if name.startswith("blackwell") else "h100"))
    schedule = list_schedule(problem)
    assert schedule is not None
    kernel = channels(problem, schedule)
    assert verify_channel(kernel) == []
    assert read_channel(print_channel(kernel)) is kernel
    verdict = check_protocol(kernel)
    assert verdict.outcome == "PASS", str(verdict)
    for trips in (0, 1, 2, 3, 6):
        for seed in range(50 if CAMPAIGN else 2):
            run = check_run(kernel, [trips], seed)
            assert run.fault is None, str(run)
            for item in problem.operations:
                for i in range(trips):
                    assert (item.name, 0, i) in run.results
