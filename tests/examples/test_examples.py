"""The examples: text and Python are one program, and both mean what NumPy says they mean."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import tensorc as tc
from examples.sizes import EXAMPLES, Example
from tensorc.ir.accept import Outcome
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.node import Node, rebuild
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.rounding import numpy_dtype
from tensorc.ir.sizes import bind
from tensorc.ir.tensor import Declaration, Expr, Program, Tensor
from tensorc.prepare import prepare, run_prepared
from tensorc.verify import judge, worst

FOLDER = Path(__file__).parents[2] / "examples"
Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Arrays = Mapping[str, Array]

every = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)


def text_of(example: Example) -> Program:
    (op,) = tc.load(FOLDER / f"{example.name}.tc")
    return op.program


def traced(example: Example) -> tc.Op:
    op = getattr(importlib.import_module(f"examples.{example.name}"), example.name)
    assert isinstance(op, tc.Op)
    return op


def standard(program: Program) -> Program:
    """The program with its intermediates named t1, t2, ... in order."""
    names: dict[Node, Tensor] = {}
    outputs = {item.tensor for item in program.outputs}
    for equation in program.equations:
        tensor = equation.tensor
        if tensor not in outputs:
            names[tensor] = Tensor(f"t{len(names) + 1}", tensor.dtype, tensor.shape)

    def renamed(item: Node) -> Node:
        return names[item] if item in names else rebuild(item, renamed)

    def body(expr: Expr) -> Expr:
        return renamed(expr)  # type: ignore[return-value]

    equations = [
        replace(item, tensor=names.get(item.tensor, item.tensor), body=body(item.body))
        for item in program.equations
    ]
    checks = [replace(item, read=renamed(item.read)) for item in program.checks]  # type: ignore[arg-type]
    conditions = [replace(item, what="") for item in program.conditions]
    return replace(
        program,
        equations=tuple(equations),
        checks=tuple(checks),
        conditions=tuple(conditions),
    )


@every
def test_text_and_python_are_one_program(example: Example) -> None:
    assert standard(text_of(example)) == standard(traced(example).program)


@every
def test_a_traced_operator_reads_back(example: Example) -> None:
    op = traced(example)
    (again,) = tc.loads(op.text)
    assert again.program == op.program


@every
def test_text_and_python_begin_with_the_same_sentence(example: Example) -> None:
    comment = (FOLDER / f"{example.name}.tc").read_text().partition("\n")[0]
    module = importlib.import_module(f"examples.{example.name}")
    assert comment == f"# {str(module.__doc__).partition(chr(10))[0]}"


def test_every_file_is_listed() -> None:
    names = {example.name for example in EXAMPLES}
    assert names == {path.stem for path in FOLDER.glob("*.tc")}
    assert names <= {path.stem for path in FOLDER.glob("*.py")}
    table = (FOLDER / "README.md").read_text()
    assert all(f"[{name}]({name}.py)" in table for name in names)


@every
def test_sizes_fit(example: Example) -> None:
    program = text_of(example)
    for sizes in (example.sizes, example.tiny):
        extents = bind(program, {}, sizes)
        assert all(extents[name] == size for name, size in sizes.items() if name in extents)


def draw(
    example: Example, item: Declaration, extents: Mapping[str, int]
) -> npt.NDArray[np.generic]:
    """Small values of a parameter's type; integers below the bound that the example states."""
    name, dtype = item.tensor.name, item.tensor.dtype
    if name in example.tiny and not item.tensor.shape:
        return np.array(example.tiny[name], numpy_dtype(dtype))
    known = {Symbol(index, "extent"): size for index, size in extents.items()}
    shape = tuple(evaluate(size, known) for size in item.tensor.shape)
    random = np.random.default_rng(sum(name.encode()))
    if dtype.floating:
        return random.normal(size=shape).astype(np.float16).astype(numpy_dtype(dtype))
    bound = example.below.get(name, 2 if dtype.name == "bool" else 100)
    most = extents[bound] if isinstance(bound, str) else bound
    return random.integers(0, most, shape).astype(numpy_dtype(dtype))


def arrays_of(example: Example, program: Program) -> dict[str, npt.NDArray[np.generic]]:
    extents = bind(program, {}, example.tiny)
    return {item.tensor.name: draw(example, item, extents) for item in program.parameters}


def softmax(x: Array, seen: npt.ArrayLike = True) -> Array:
    """Over the last axis, 0 where nothing is seen."""
    masked = np.where(seen, x, -np.inf)
    y = np.exp(masked - np.maximum(masked.max(-1, keepdims=True), -1e300))
    return y / np.maximum(y.sum(-1, keepdims=True), 1e-300)


def attend(a: Arrays, seen: npt.ArrayLike = True, cap: float = 0.0, shared: int = 1) -> Array:
    """softmax(q k' / sqrt(d)) v; `shared` query heads have one head of keys and values."""
    keys, values = (np.repeat(a[name], shared, -3) for name in ("k", "v"))
    s = a["q"] @ keys.swapaxes(-1, -2) / np.sqrt(a["q"].shape[-1])
    return softmax(cap * np.tanh(s / cap) if cap else s, seen) @ values


def lower(rows: int, columns: int) -> Mask:
    """Position n is seen from row m if n <= m + columns - rows."""
    return np.tri(rows, columns, columns - rows, dtype=np.bool_)


def positions(n: int) -> Array:
    return np.arange(n, dtype=np.float64)


def gemm(a: Arrays) -> Array:
    z = a["A"] @ a["B"] + a["b"]
    return z / (1 + np.exp(-z))


def grouped(a: Arrays) -> Array:
    weights = a["W"][a["pick"].astype(int)]
    return np.einsum("ts,tk,tskn->tn", a["gate"], a["X"], weights)


def causal(a: Arrays) -> tuple[Array, ...]:
    seen = lower(a["q"].shape[-2], a["k"].shape[-2])
    s = a["q"] @ a["k"].swapaxes(-1, -2) / np.sqrt(a["q"].shape[-1])
    return attend(a, seen), np.log((np.exp(s) * seen).sum(-1))


def layer_norm(a: Arrays) -> Array:
    x = a["x"]
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * a["g"] + a[
        "b"
    ]


def cross_entropy(a: Arrays) -> Array:
    z = a["X"] @ a["W"].T
    return np.log(np.exp(z).sum(1)) - z[np.arange(len(z)), a["label"].astype(int)]


def conv2d(a: Arrays) -> Array:
    padded = np.pad(a["X"], ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    return np.einsum("ncyxrs,ocrs->noyx", windows, a["K"])


def maxsim(a: Arrays) -> tuple[Array, ...]:
    s = np.einsum("qik,djk->qdij", a["Q"], a["D"])
    live = positions(s.shape[3]) < a["len"][:, None, None]
    masked = np.where(live, s, -np.inf)
    win = np.where(live.any(-1), masked.argmax(-1), -1)
    return masked.max(-1).sum(-1), win


def rope(a: Arrays) -> Array:
    u = a["u"]
    half = u.shape[2] // 2
    angle = positions(u.shape[0])[:, None] * 10000.0 ** (-positions(half) / half)
    z = (u[..., :half] + 1j * u[..., half:]) * np.exp(1j * angle)[:, None, :]
    return np.concatenate([z.real, z.imag], -1)


def mla_decode(a: Arrays) -> Array:
    s = np.einsum("bhr,btr->bht", a["q"], a["C"]) + np.einsum("bhe,bte->bht", a["p"], a["R"])
    seen = positions(s.shape[2]) < a["len"][:, None, None]
    return softmax(s / np.sqrt(128 + a["p"].shape[2]), seen) @ a["C"]


def int4_gemm(a: Arrays) -> Array:
    halves = np.stack([a["W"] % 16, a["W"] // 16], 1).reshape(-1, a["W"].shape[1]) - 8
    return a["z"] * (a["X"] @ halves[: a["X"].shape[1]])


def window(a: Arrays) -> Array:
    size = a["q"].shape[-2]
    return attend(a, lower(size, size) & ~np.tri(size, k=-int(a["w"]), dtype=np.bool_))


REFERENCES: dict[str, Callable[[Arrays], Array | tuple[Array, ...]]] = {
    "gemm": gemm,
    "batched_gemm": lambda a: a["A"] @ a["B"],
    "grouped_gemm": grouped,
    "attention": attend,
    "causal_attention": causal,
    "grouped_query_attention": lambda a: attend(a, lower(8, 10), shared=2),
    "window_attention": window,
    "softcap_attention": lambda a: attend(a, lower(9, 9), cap=30.0),
    "softmax": lambda a: softmax(a["x"]),
    "rms_norm": lambda a: a["x"] / np.sqrt((a["x"] ** 2).mean(1, keepdims=True) + 1e-6) * a["g"],
    "layer_norm": layer_norm,
    "cross_entropy": cross_entropy,
    "conv2d": conv2d,
    "maxsim": maxsim,
    "tropical": lambda a: (a["A"][:, :, None] + a["B"]).min(1),
    "transitive_closure": lambda a: ((a["P"] + a["P"] @ a["P"]) > 0).astype(np.float64),
    "embedding": lambda a: a["E"][a["tok"].astype(int)],
    "rope": rope,
    "mla_decode": mla_decode,
    "tt_linear": lambda a: np.einsum("nijk,iar,rjbs,skc->nabc", a["x"], a["F"], a["G"], a["H"]),
    "cg_product": lambda a: np.einsum("ijk,eci,ecj->eck", a["T"], a["x"], a["y"]),
    "int4_gemm": int4_gemm,
}


@every
def test_tiny_twin_means_what_numpy_says(example: Example) -> None:
    program = text_of(example)
    arrays = arrays_of(example, program)
    found = interpret(program, arrays, bind(program, {}, example.tiny))
    exact = {name: np.asarray(array, np.float64) for name, array in arrays.items()}
    wanted = REFERENCES[example.name](exact)
    for value, expected in zip(
        found.values(), wanted if isinstance(wanted, tuple) else (wanted,), strict=True
    ):
        np.testing.assert_allclose(value.astype(np.float64), expected, rtol=1e-6, atol=1e-9)


@every
def test_tiny_twin_runs_on_the_cpu(example: Example) -> None:
    program = traced(example).program
    call = prepare(program, arrays_of(example, program))
    assert worst(judge(call, run_prepared(call))) is Outcome.PASS
