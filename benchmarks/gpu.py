"""Kernels on a GPU against the best that torch has there.

    python -m benchmarks.gpu [--json FILE] [--quick]

Needs an NVIDIA GPU and torch with CUDA; says what is missing and ends with exit code 4 elsewhere.
Every figure is a time of one call: many calls over rotating buffers, more bytes than the second
level cache holds, are captured in one CUDA graph, and its replays are timed with events. Ours and
each peer take turns; the table gives medians over rounds, the median ratio to the quickest peer
(below 1: ours is quicker) and its extremes. Results are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tensorc as tc
from tensorc.errors import Unavailable

ROUNDS = 7
BYTES = 256 << 20  # that the operands of all rotating copies have together, at least
MOST_COPIES = 32
Arrays = tuple[Any, ...]  # torch tensors; torch is imported where there is a GPU


@dataclass(frozen=True)
class Case:
    """One operator at one size: how to draw its operands, and who computes the same."""

    name: str
    flops: float
    draw: Callable[[], Arrays]
    ours: Callable[..., Any]
    peers: Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Row:
    """What was measured: seconds of one call, and the ratio to the quickest peer of each round."""

    name: str
    ours: float
    peers: Mapping[str, float]
    ratio: float
    lowest: float
    highest: float
    tflops: float


OPS = tc.loads("""
op gemm(a: f16[m, k], b: f16[k, n]) -> o: f16[m, n]
  o[m, n] = sum[k](a[m, k] * b[k, n])

op attention(q: f16[b, h, m, d], k: f16[b, h, n, d], v: f16[b, h, n, d]) -> o: f16[b, h, m, d]
  s[b, h, m, n] = sum[d](q[b, h, m, d] * k[b, h, n, d]) / sqrt(|d|)
  p: f16[b, h, m, n] = softmax[n](s[b, h, m, n])
  o[b, h, m, d] = sum[n](p[b, h, m, n] * v[b, h, n, d])

op causal(q: f16[b, h, m, d], k: f16[b, h, n, d], v: f16[b, h, n, d]) -> o: f16[b, h, m, d]
  s[b, h, m, n] = sum[d](q[b, h, m, d] * k[b, h, n, d]) / sqrt(|d|)
  p: f16[b, h, m, n] = softmax[n](s[b, h, m, n] where n <= m + |n| - |m|)
  o[b, h, m, d] = sum[n](p[b, h, m, n] * v[b, h, n, d])

op rms_norm(x: f16[t, i], g: f16[i]) -> y: f16[t, i]
  y[t, i] = x[t, i] * rsqrt(mean[j](x[t, j] * x[t, j]) + 1e-6) * g[i]

op softmax(x: f16[t, i]) -> y: f16[t, i]
  y[t, i] = softmax[i](x[t, i])
""")


def cases(torch: Any, quick: bool = False) -> list[Case]:
    """Products, attention forward, decode and norms at the sizes of language models."""
    sizes = (1024,) if quick else (1024, 2048, 4096, 8192)
    made = [_gemm(torch, size) for size in sizes]
    lengths = (1024,) if quick else (512, 1024, 2048, 4096, 8192, 16384)
    for d in (64, 128):
        for length in lengths:
            made += [_attention(torch, length, length, d, causal) for causal in (False, True)]
        made.append(_attention(torch, 1, 4096, d, False))
    for width in (1024,) if quick else (1024, 4096, 8192):
        made += [_rows(torch, "rms_norm", width), _rows(torch, "softmax", width)]
    return made


def _half(torch: Any, *shape: int) -> Any:
    return torch.randn(shape, dtype=torch.float16, device="cuda")


def _gemm(torch: Any, size: int) -> Case:
    def draw() -> Arrays:
        return _half(torch, size, size), _half(torch, size, size)

    return Case(f"gemm {size}", 2.0 * size**3, draw, OPS.gemm, {"cuBLAS": torch.matmul})


def _attention(torch: Any, m: int, n: int, d: int, causal: bool) -> Case:
    batch, heads = max(1, 16384 // n), 2048 // d

    def draw() -> Arrays:
        keys = (_half(torch, batch, heads, n, d) for _ in range(2))
        return _half(torch, batch, heads, m, d), *keys

    flops = 4.0 * batch * heads * m * n * d * (0.5 if causal else 1.0)
    name = f"{'causal ' if causal else ''}attention {m}x{n} d={d}"
    op = OPS.causal if causal else OPS.attention
    return Case(name, flops, draw, op, _sdpa(torch, causal))


def _sdpa(torch: Any, causal: bool) -> dict[str, Callable[..., Any]]:
    """torch's attention on each of its backends."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def on(backend: Any) -> Callable[..., Any]:
        def run(q: Any, k: Any, v: Any) -> Any:
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return run

    return {"flash": on(SDPBackend.FLASH_ATTENTION), "cuDNN": on(SDPBackend.CUDNN_ATTENTION)}


def _rows(torch: Any, name: str, width: int) -> Case:
    rows = (64 << 20) // width

    def norm(x: Any, g: Any) -> Any:
        return torch.nn.functional.rms_norm(x, (width,), g, 1e-6)

    def softmax(x: Any) -> Any:
        return torch.softmax(x, -1)

    def draw() -> Arrays:
        x = _half(torch, rows, width)
        return (x, _half(torch, width)) if name == "rms_norm" else (x,)

    peer = norm if name == "rms_norm" else softmax
    peers = {"torch": peer, "torch.compile": _compiled(torch, peer)}
    return Case(f"{name} {rows}x{width}", 4.0 * rows * width, draw, getattr(OPS, name), peers)


def _compiled(torch: Any, peer: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile, which is slow to import, at the first call."""
    made: list[Callable[..., Any]] = []

    def run(*operands: Any) -> Any:
        if not made:
            made.append(torch.compile(peer))
        return made[0](*operands)

    return run


def measured(case: Case, timer: Callable[[Callable[..., Any], Sequence[Arrays]], float]) -> Row:
    """Compare, then time in turns. `timer`: seconds of one call of a function over operands."""
    copies = [case.draw()]
    check(case, copies[0])
    size = sum(array.numel() * array.element_size() for array in copies[0])
    copies += [case.draw() for _ in range(min(MOST_COPIES, -(-BYTES // size)) - 1)]
    rounds = [
        {name: timer(run, copies) for name, run in {"ours": case.ours, **case.peers}.items()}
        for _ in range(ROUNDS)
    ]
    ratios = [times["ours"] / min(times[name] for name in case.peers) for times in rounds]
    middle = {name: statistics.median(times[name] for times in rounds) for name in rounds[0]}
    ours = middle.pop("ours")
    return Row(
        case.name, ours, middle, statistics.median(ratios), min(ratios), max(ratios),
        case.flops / ours / 1e12,
    )  # fmt: skip


def check(case: Case, operands: Arrays) -> None:
    """AssertionError: ours differs from a peer by more than 1 % of the largest element."""
    got = case.ours(*operands).float()
    for name, peer in case.peers.items():
        want = peer(*operands).float()
        error = float((got - want).abs().max()) / max(1e-6, float(want.abs().max()))
        assert error < 0.01, (
            f"{case.name}: differs from {name} by {error:.3%} of the largest element"
        )


def graph_timer(torch: Any) -> Callable[[Callable[..., Any], Sequence[Arrays]], float]:
    """Seconds of one call: one graph with a call on each of the operands, replayed and timed."""

    def seconds(run: Callable[..., Any], copies: Sequence[Arrays]) -> float:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for operands in copies:
                run(*operands)  # compiled, and memory at hand, before anything is captured
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            kept = [run(*operands) for operands in copies]
        graph.replay()
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(5):
            graph.replay()
        stop.record()
        torch.cuda.synchronize()
        del kept
        return float(start.elapsed_time(stop)) * 1e-3 / (5 * len(copies))

    return seconds


def line(row: Row) -> str:
    """One row of the table."""
    peers = ", ".join(f"{name} {seconds * 1e6:.1f}" for name, seconds in row.peers.items())
    ratio = f"{row.ratio:.2f} [{row.lowest:.2f}, {row.highest:.2f}]"
    return (
        f"{row.name:34} ours {row.ours * 1e6:9.1f} us {row.tflops:7.1f} TF/s   {peers} us   {ratio}"
    )


def gpu() -> Any:
    """torch, if it sees a GPU. Raises Unavailable."""
    try:
        import torch
    except ImportError as error:
        raise Unavailable("torch is not installed; install it with CUDA") from error
    if not torch.cuda.is_available():
        raise Unavailable("torch sees no GPU here")
    return torch


def main() -> int:
    """Print the table; with --json keep it too."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", type=Path)
    options.add_argument("--quick", action="store_true", help="one small size of each")
    given = options.parse_args()
    try:
        torch = gpu()
    except Unavailable as error:
        print(f"benchmarks.gpu: {error}", file=sys.stderr)
        return 4
    name = torch.cuda.get_device_name()
    print(f"{name}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    rows: list[Row] = []
    for case in cases(torch, given.quick):
        rows.append(measured(case, graph_timer(torch)))
        print(line(rows[-1]), flush=True)
    if given.json:
        found = {"schema": "tensorc-gpu-1", "device": name, "torch": torch.__version__,
                 "rows": [asdict(row) for row in rows]}  # fmt: skip
        given.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
