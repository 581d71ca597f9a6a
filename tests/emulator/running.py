"""Runs the hand-written kernels in the emulator on random arrays, against float64."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tensorc.codegen.driver import Box, Dim3, Parameter
from tensorc.codegen.emulator import EmulatedKernel, Emulator, Mode
from tensorc.codegen.emulator_report import Outcome

KERNELS = Path(__file__).parent / "kernels"
BF16, F16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
Array = np.ndarray[Any, np.dtype[Any]]


@functools.cache
def emulator(arch: str) -> Emulator:
    """One emulator for each architecture in this process."""
    return Emulator(arch)


@dataclass(frozen=True)
class Result:
    """One launch: what was reported, and the largest error over the largest output."""

    outcome: Outcome
    error: float
    output: Array = field(repr=False)


class Arrays:
    """Device copies of arrays for one launch."""

    def __init__(self, device: Emulator) -> None:
        self.device = device
        self.addresses: list[int] = []

    def __enter__(self) -> Arrays:
        return self

    def __exit__(self, *_: object) -> None:
        for address in self.addresses:
            self.device.free(address)

    def put(self, array: Array) -> int:
        address = self.device.alloc(array.nbytes)
        self.addresses.append(address)
        self.device.write(address, array)
        return address

    def empty(self, nbytes: int) -> int:
        address = self.device.alloc(nbytes)
        self.addresses.append(address)
        return address

    def get(self, address: int, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        nbytes = math.prod(shape) * dtype.itemsize
        return np.frombuffer(self.device.read(address, nbytes), dtype).reshape(shape)

    def map(self, address: int, array: Array, box: tuple[int, ...], swizzle: int = 128) -> bytes:
        """The tensor map of a contiguous array; box lists the fastest dimension first."""
        return self.map_of(address, array.shape, array.dtype, box, swizzle)

    def map_of(
        self,
        address: int,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        box: tuple[int, ...],
        swizzle: int = 128,
    ) -> bytes:
        element = {BF16: "bf16", F16: "f16", np.dtype(np.float32): "f32"}[dtype]
        strides = [math.prod(shape[i:]) * dtype.itemsize for i in range(1, len(shape))][::-1]
        return self.device.tensor_map(
            address, Box(element, tuple(shape[::-1]), tuple(strides), box, swizzle)
        )


@dataclass(frozen=True)
class Kernel:
    """An instance of a kernel source: its architecture, macros, and how it is launched and judged.

    edits turn the source into a faulty one: (old text, new text, which occurrence or None for all).
    """

    file: str
    arch: str
    defines: tuple[tuple[str, int], ...] = ()
    edits: tuple[tuple[str, str, int | None], ...] = ()

    def value(self, name: str, default: int) -> int:
        return dict(self.defines).get(name, default)

    def source(self) -> str:
        text = (KERNELS / self.file).read_text()
        for old, new, which in self.edits:
            text = _edited(text, old, new, which)
        return text

    def build(self) -> EmulatedKernel:
        device = emulator(self.arch)
        image = device.compile(self.source(), self.file, [f"{k}={v}" for k, v in self.defines])
        return device.load(image).function(self.file.split("_")[0])

    def faulty(self, edits: Sequence[tuple[str, str, int | None]]) -> Kernel:
        return replace(self, edits=tuple(edits))

    @property
    def name(self) -> str:
        return self.file.removesuffix(".cu") + "".join(f" {k.lower()}={v}" for k, v in self.defines)


def _edited(text: str, old: str, new: str, which: int | None) -> str:
    parts = text.split(old)
    if len(parts) < 2 or (which is not None and which + 1 >= len(parts)):
        raise AssertionError(f"the kernel no longer has {old!r} (occurrence {which})")
    if which is None:
        return new.join(parts)
    return old.join(parts[: which + 1]) + new + old.join(parts[which + 1 :])


def judge(output: Array, reference: Array) -> float:
    """Largest error over the largest reference; infinite if anything is not finite."""
    with np.errstate(invalid="ignore"):  # a signalling NaN is one of the values to judge
        values = output.astype(np.float64)
    if not np.isfinite(values).all():
        return math.inf
    return float(np.abs(values - reference).max() / max(np.abs(reference).max(), 1e-30))


# ---- GEMM: C[m, n] = A[m, k] B[n, k]^T ----


def gemm(
    kernel: Kernel,
    shape: tuple[int, int, int],
    mode: Mode,
    blocks: int = 0,
    data: int = 0,
    device: Emulator | None = None,
) -> Result:
    """Run a GEMM kernel. blocks: of the persistent grid (0: one for each output tile)."""
    m, n, depth = shape
    rng = np.random.default_rng(data)
    a = rng.standard_normal((m, depth)).astype(BF16)
    b = rng.standard_normal((n, depth)).astype(BF16)
    reference = a.astype(np.float64) @ b.astype(np.float64).T
    device = device or emulator(kernel.arch)
    with Arrays(device) as arrays:
        pa, pb = arrays.put(a), arrays.put(b)
        launch = {"sm_80": _gemm_sm80, "sm_90a": _gemm_sm90a, "sm_100a": _gemm_sm100a}[kernel.arch]
        kind, grid, block, shared, make = launch(kernel, shape, blocks)
        pc = arrays.empty(m * n * kind.itemsize)
        parameters = make(arrays, (pa, a), (pb, b), pc)
        sizes = [np.int32(x) for x in (m, n, depth)]
        outcome = device.run(kernel.build(), grid, block, shared, [*parameters, *sizes], mode)
        output = arrays.get(pc, (m, n), kind)
    return Result(outcome, judge(output, reference), output)


Operand = tuple[int, Array]
Make = Callable[[Arrays, Operand, Operand, int], list[Parameter]]
Launch = tuple[np.dtype[Any], Dim3, Dim3, int, Make]


def _gemm_sm80(kernel: Kernel, shape: tuple[int, int, int], blocks: int) -> Launch:
    m, n, _ = shape

    def make(arrays: Arrays, a: Operand, b: Operand, pc: int) -> list[Parameter]:
        return [np.uint64(a[0]), np.uint64(b[0]), np.uint64(pc)]

    return np.dtype(np.float32), (-(-n // 64), -(-m // 64), 1), (128, 1, 1), 32768, make


def _gemm_sm90a(kernel: Kernel, shape: tuple[int, int, int], blocks: int) -> Launch:
    m, n, _ = shape
    cluster = kernel.file == "gemm_sm90a_cluster.cu"
    stages = kernel.value("STAGES", 3 if cluster else 4)

    def make(arrays: Arrays, a: Operand, b: Operand, pc: int) -> list[Parameter]:
        return [
            arrays.map(*a, (64, 128)),
            arrays.map(*b, (64, 128 if cluster else 256)),
            arrays.map_of(pc, (m, n), BF16, (64, 64)),
        ]

    grid = (blocks or -(-m // 128) * -(-n // 256), 1, 1)
    panels = 4
    if cluster:
        grid, panels = (-(-m // 256) * 2, -(-n // 256), 1), 8
    return BF16, grid, (384, 1, 1), stages * 49152 + panels * 8192 + 16 * stages, make


def _gemm_sm100a(kernel: Kernel, shape: tuple[int, int, int], blocks: int) -> Launch:
    m, n, _ = shape
    stages = kernel.value("STAGES", 2)

    def make(arrays: Arrays, a: Operand, b: Operand, pc: int) -> list[Parameter]:
        return [arrays.map(*a, (64, 128)), arrays.map(*b, (64, 128)), np.uint64(pc)]

    grid = (-(-n // 128), -(-m // 128), 1)
    return np.dtype(np.float32), grid, (128, 1, 1), stages * 32768 + 16 * stages + 16, make


# ---- attention ----


def attention_reference(q: Array, k: Array, v: Array, causal: bool) -> Array:
    """Attention in float64; a row that sees no key is zero."""
    s: Array = np.einsum("bhmd,bhnd->bhmn", q, k) / math.sqrt(q.shape[-1])
    m, n = s.shape[-2:]
    if causal:
        s = np.where(np.tri(m, n, n - m, dtype=bool), s, -np.inf)
    top = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = p.sum(-1, keepdims=True)
    return np.einsum("bhmn,bhne->bhme", p, v) / np.where(total == 0, 1, total)


def attention(
    kernel: Kernel,
    shape: tuple[int, int, int, int],
    mode: Mode,
    blocks: int = 1,
    data: int = 0,
    scale: float = 1.0,
    head: int = 0,
) -> Result:
    """Run an attention kernel on shape (b, h, m, n). head: the arrays' d if less than HEAD."""
    b, h, m, n = shape
    d = head or kernel.value("HEAD", 128)
    dtype = BF16 if kernel.value("BF16", 0) else F16
    rng = np.random.default_rng(data)
    q, k, v = (
        (rng.standard_normal((b, h, rows, d)) * by).astype(dtype)
        for rows, by in ((m, scale), (n, 1), (n, 1))
    )
    wide = [x.astype(np.float64) for x in (q, k, v)]
    causal = bool(kernel.value("CAUSAL", 0))
    reference = attention_reference(wide[0], wide[1], wide[2], causal)
    device = emulator(kernel.arch)
    with Arrays(device) as arrays:
        pointers = [arrays.put(x) for x in (q, k, v)]
        po = arrays.empty(q.nbytes)
        factor = np.float32(math.log2(math.e) / math.sqrt(d))
        if kernel.arch == "sm_90a":
            boxes = ((64, 128, 1, 1), *((64, kernel.value("KEYS", 128), 1, 1),) * 2)
            maps = [arrays.map(p, x, s) for p, x, s in zip(pointers, (q, k, v), boxes, strict=True)]
            maps.append(arrays.map(po, q, (64, 16, 1, 1)))
            sizes = [np.int32(x) for x in (m, n, h, b * h)]
            parameters, grid, block = [*maps, *sizes, factor], (blocks, 1, 1), (384, 1, 1)
        else:
            warps, rows = kernel.value("WARPS", 4), kernel.value("BLOCKS", 2)
            parameters = [*map(np.uint64, (*pointers, po)), np.int32(m), np.int32(n), factor]
            grid, block = (-(-m // (16 * rows * warps)), h, b), (32 * warps, 1, 1)
        shared = _attention_shared(kernel)
        outcome = device.run(kernel.build(), grid, block, shared, parameters, mode)
        output = arrays.get(po, q.shape, dtype)
    return Result(outcome, judge(output, reference), output)


def _attention_shared(kernel: Kernel) -> int:
    head = kernel.value("HEAD", 128)
    if kernel.arch == "sm_90a":
        depths = kernel.value("K_DEPTH", 2) + kernel.value("V_DEPTH", 2)
        return head * 256 + depths * kernel.value("KEYS", 128) * head * 2 + 16 + 16 * depths
    rows = 16 * kernel.value("BLOCKS", 2) * kernel.value("WARPS", 4)
    return (rows + 4 * kernel.value("KEYS", 32 if head == 128 else 64)) * head * 2


def tolerance(kernel: Kernel) -> float:
    """The largest error that rounding explains: inputs are exact, outputs and P round once."""
    if kernel.file.startswith("attention"):
        return 8e-3 if kernel.value("BF16", 0) else 1.5e-3
    return 8e-3 if kernel.arch == "sm_90a" else 1e-6
