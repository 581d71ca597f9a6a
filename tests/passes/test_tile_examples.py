"""Every example has a level 2 for both GPUs: it verifies, keeps the machine's rules, reads back and
means what the equations say. Which of its kernels are on tensor cores is stated here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from examples.sizes import EXAMPLES, Example
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.interpret_tile import interpret as interpret_tile
from tensorc.ir.print_tile import show
from tensorc.ir.read_tile import read as read_tile
from tensorc.ir.sizes import bind
from tensorc.ir.verify_tile import verify
from tensorc.lang import read
from tensorc.machine import verify_uses
from tensorc.passes.canonicalise import canonicalise
from tensorc.passes.tiling.block_sizes import Widths
from tensorc.passes.tiling.tile_gpu import tile_gpu
from tests.examples.test_examples import arrays_of
from tests.passes.test_tile_product import GPUS, products

FOLDER = Path(__file__).parents[2] / "examples"
# Products on tensor cores at the sizes of `examples.sizes`; the others have none that fits.
TENSOR_CORE = {
    "gemm": 1, "batched_gemm": 1, "attention": 2, "causal_attention": 2,
    "grouped_query_attention": 2, "window_attention": 2, "softcap_attention": 2,
    "cross_entropy": 1, "conv2d": 1, "maxsim": 3,
}  # fmt: skip


@pytest.mark.parametrize("machine", GPUS)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_on_gpus(example: Example, machine: str) -> None:
    (source,) = read((FOLDER / f"{example.name}.tc").read_text())
    made = tile_gpu(canonicalise(source), machine, Widths(128), {}, {}, example.sizes)
    text = show(made.program)
    assert not [*verify(made.program), *verify_uses.verify(made.program)], text
    assert show(read_tile(text)) == text
    if example.name != "mla_decode":  # 512 columns of sums fit one of the two machines
        assert len(products(made)) == TENSOR_CORE.get(example.name, 0)
    arrays, extents = arrays_of(example, source), bind(source, {}, example.tiny)
    wanted = interpret(source, arrays, extents)
    found = interpret_tile(made.program, arrays, extents)
    for output in source.outputs:
        name, dtype = output.tensor.name, output.tensor.dtype
        if not dtype.floating:
            np.testing.assert_array_equal(found[name], wanted[name])
            continue
        exact = wanted[name].astype(np.float64)
        finite = np.abs(exact[np.isfinite(exact)]).max(initial=1)
        unit = {"f16": 2.0**-9, "bf16": 2.0**-6}.get(dtype.name, 2.0**-18)
        got = found[name].astype(np.float64)
        np.testing.assert_allclose(got, exact, rtol=0, atol=unit * finite)
