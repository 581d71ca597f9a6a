"""No evaluation of a level-2 program exceeds its bound, whether written by hand or lowered.

The adversary walks the program in float64 and errs by 0.9 units of the value type at every
operation and every step of a sum, upwards, downwards or at random, and takes the lanes of every
block in random order.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tensorc.ir import bounded, interpret_tile, propagate
from tensorc.ir.accept import accept
from tensorc.ir.bound import BoundMemory, BoundRun, BoundSite, bound
from tensorc.ir.bound_tensor import bound_tensor
from tensorc.ir.bounded import Bounded
from tensorc.ir.dtypes import BY_NAME, DType, value_of
from tensorc.ir.functions import SUM, Reducer
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.lanes import KNOWN, Lanes, Site
from tensorc.ir.node import postorder
from tensorc.ir.read_tile import read as read_tile
from tensorc.ir.rounding import round_to
from tensorc.ir.tensor import Apply, Equation, Expr, Reduce
from tensorc.ir.tile import Let, TileProgram, Use
from tensorc.ir.tile_block import Axes, Block, exact, parts, stacked
from tensorc.lang import read
from tensorc.pipeline import run_passes
from tensorc.request import Request, Target
from tests.ir.random_programs import SIZE, Generator
from tests.ir.test_tile_operators import HISTOGRAM, RAGGED, SPLIT, TROPICAL, VARIANCE

Array = npt.NDArray[Any]
GOLDEN = Path(__file__).parents[1] / "golden" / "tile"
UNMOVED = frozenset({"neg", "abs", "sign", "floor", "ceil", "round", "min", "max"})


class Attacker:
    """Chooses the sides of all errors."""

    def __init__(self, side: int, seed: int) -> None:
        self.side, self.rng = side, np.random.default_rng(seed)

    def off(self, values: Array, dtype: DType, units: float = 0.9) -> Array:
        """Values off by so many units of their type."""
        side = self.rng.choice([-1, 1], values.shape) if self.side == 0 else self.side
        return values * (1 + side * units * bounded.UNIT[dtype])

    def added(self, values: Array, dtype: DType) -> Array:
        """A sum, difference or product: right where its type holds it."""
        with np.errstate(all="ignore"):
            held = round_to(values, dtype).astype(np.float64) == values
        return np.where(held, values, self.off(values, dtype))


ATTACKER = Attacker(0, 0)


class AttackedSite(BoundSite):
    """Every operation errs, and narrow stores round or do not."""

    def applied(self, expr: Apply, own: DType, items: list[Lanes]) -> Lanes:
        lanes, name = super().applied(expr, own, items), expr.function.name
        if name in UNMOVED or not own.floating:
            return lanes
        relative, _, slope = propagate.ACCURACY.get(name, (1.0, 0.0, 0.0))
        relative += float(slope) * float(np.min(np.abs(items[0].values)))
        plain = name in ("add", "sub", "mul", "pow")
        values = lanes.values
        values = ATTACKER.added(values, own) if plain else ATTACKER.off(values, own, 0.9 * relative)
        return Lanes(values, lanes.states, lanes.errors)

    def stored(self, expr: Expr, storage: DType) -> Lanes:
        lanes = super().stored(expr, storage)
        narrow = storage.floating and value_of(storage) is not storage
        if not narrow or ATTACKER.rng.random() < 0.2:
            return lanes
        values = round_to(lanes.values, storage).astype(np.float64)
        return Lanes(values, lanes.states, lanes.errors)


class AttackedRun(BoundRun):
    """Every step of a sum errs, in a random order of the lanes of a block."""

    def site(self, block: Block | None, axes: Axes, by: Use | None = None) -> Site:
        plain = super().site(block, axes, by)
        return AttackedSite(
            plain.memory, plain.extents, plain.axes, plain.fixed, plain.seen, plain.tiles,
            plain.fill, plain.checked,
        )  # fmt: skip

    def reduced(self, let: Let, op: Reducer, axes: Axes, block: Block) -> Lanes:
        lanes = super().reduced(let, op, axes, block)
        if op is not SUM or not let.tile.dtype.floating:
            return lanes
        rank = len(block.batch) + len(let.tile.axes)
        inner = tuple(exact(axis) if axis.index in let.by.exact else axis for axis in axes[rank:])
        total = block.fetch(let.onto).values if let.onto else None
        for part in parts(axes[:rank], inner):
            site = self.site(block, (*axes[:rank], *part), let.by)
            item = self.operand(let, op, site)
            held = np.where(item.states == KNOWN, item.values, 0.0)
            for row in ATTACKER.rng.permutation(stacked(None, held, site.shape, rank)):
                added = row if total is None else ATTACKER.added(total + row, let.tile.dtype)
                total = added if total is None else np.where(row == 0, total, added)
        assert total is not None
        return Lanes(np.broadcast_to(total, lanes.values.shape), lanes.states, lanes.errors)


def attacked(
    program: TileProgram, arrays: Mapping[str, Array], extents: Mapping[str, int], side: int
) -> dict[str, Array]:
    """All outputs as an adversary computes them."""
    ATTACKER.side, ATTACKER.rng = side, np.random.default_rng(side + 5)
    run = AttackedRun(program, BoundMemory(), dict(extents), None)
    for item in program.parameters:
        run.hold(item.tensor, round_to(arrays[item.tensor.name], item.tensor.dtype))
    run.complete_extents()
    for table in program.tables:
        run.hold(table.tensor, run.entries(table))
    for kernel in program.kernels:
        run.kernel(kernel)
    return {item.tensor.name: run.memory.arrays[item.tensor.name] for item in program.outputs}


def ratio(got: Array, found: Bounded) -> float:
    """The largest error over its bound."""
    value = found.value.astype(float)
    with np.errstate(all="ignore"):
        same = (got == value) | (np.isnan(got) & np.isnan(value)) | np.isinf(found.error)
        apart = np.where(same, 0.0, np.abs(got - value))
        known = np.where(apart == 0, 0.0, apart / found.error)
    return float(np.max(np.where(np.isnan(known), np.inf, known), initial=0.0))


def worst(
    program: TileProgram, arrays: Mapping[str, Array], extents: Mapping[str, int]
) -> tuple[dict[str, Bounded], float]:
    """The bound, and the largest error over it of the interpreter and of three adversaries."""
    found = bound(program, arrays, extents)
    runs = [interpret_tile.interpret(program, arrays, extents)]
    runs += [attacked(program, arrays, extents, side) for side in (1, -1, 0)]
    rates = [ratio(run[name].astype(float), item) for run in runs for name, item in found.items()]
    return found, max(rates)


def draw(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    values = np.random.default_rng(seed).standard_normal(shape)
    return round_to(values, BY_NAME[dtype])


GEMM = """
op gemm(a: {type}[m, k], w: {type}[k, n], bias: f32[n]) -> o: {type}[m, n]
  z[m, n] = sum[k](a[m, k] * w[k, n]) + bias[n]
  o[m, n] = z[m, n] * sigmoid(z[m, n])
"""
ATTENTION = """
op attention(q: f16[b, h, m, d=128], k: f16[b, h, n, d], v: f16[b, h, n, e=128])
    -> o: f16[b, h, m, e]
  s[b, h, m, n] = sum[d](q[b, h, m, d] * k[b, h, n, d]) / sqrt(|d|)
  p: f16[b, h, m, n] = softmax[n](s[b, h, m, n] where n <= m + |n| - |m|)
  o[b, h, m, e] = sum[n](p[b, h, m, n] * v[b, h, n, e])
"""


@pytest.mark.parametrize(
    ("name", "source", "extents"),
    [
        ("gemm_cpu", GEMM.format(type="f32"), dict(m=13, n=70, k=33)),
        ("gemm_sm80", GEMM.format(type="f16"), dict(m=130, n=65, k=90)),
        ("attention_sm90", ATTENTION, dict(b=1, h=1, m=150, n=140, d=128, e=128)),
    ],
    ids=lambda item: item if isinstance(item, str) and len(item) < 20 else "",
)
def test_kernels_written_at_level_2(
    name: str, source: str, extents: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    """The exact value is level 1's; a kernel that loses a term is found."""
    program = read_tile((GOLDEN / f"{name}.txt").read_text())
    (exact_,) = read(source)
    arrays: dict[str, Array] = {}
    for seed, item in enumerate(exact_.parameters):
        shape = tuple(extents[str(dim)] for dim in item.dims)
        arrays[item.tensor.name] = draw(shape, item.tensor.dtype.name, seed)
    found, rate = worst(program, arrays, extents)
    want, source_bound = interpret(exact_, arrays, extents), bound_tensor(exact_, arrays, extents)
    twin = interpret_tile.interpret(program, arrays, extents)["o"]
    dtype = exact_.outputs[0].tensor.dtype
    np.testing.assert_allclose(found["o"].value, want["o"], rtol=1e-9, atol=1e-12)
    share = np.median(found["o"].error) / np.median(np.abs(want["o"]))
    source_share = np.median(source_bound["o"].error) / np.median(np.abs(want["o"]))
    with capsys.disabled():
        print(
            f"\n{name}: bound {share:.2%} of the median, level 1's {source_share:.2%}; "
            f"largest error over bound {rate:.2f}"
        )
    assert 0.01 < rate <= 1
    verdict = accept(twin, want["o"], twin, found["o"].error, dtype)
    assert verdict.passed, str(verdict)
    first = arrays["w"][0] if "w" in arrays else arrays["v"][:, :, 0]
    first[:] = 0  # a kernel that loses one term of every sum
    wrong = interpret_tile.interpret(program, arrays, extents)["o"]
    assert not accept(wrong, want["o"], twin, found["o"].error, dtype).passed


@pytest.mark.parametrize("block", range(4))
def test_lowered_programs(block: int) -> None:
    """Random programs, lowered: level 2's exact value is level 1's, and its bound holds."""
    finite = 0
    for seed in range(10 * block, 10 * block + 10):
        generator = Generator(seed)
        program, arrays = generator.program(), generator.arrays()
        tiles = run_passes(program, Request(Target("generic", 4, 2, 3), {}))
        found, rate = worst(tiles, arrays, SIZE)
        want = interpret(program, arrays, SIZE)["y"]
        if any(map(_narrow_sum, program.equations)):  # rounded once there, here not at all
            apart = np.abs(found["y"].value - want)
            assert (apart <= found["y"].error).all(), seed
        else:
            np.testing.assert_allclose(found["y"].value, want, rtol=1e-9, atol=1e-12)
        assert rate <= 1, (seed, rate)
        finite += bool(np.isfinite(found["y"].error).all())
    assert finite >= 7


def _narrow_sum(equation: Equation) -> bool:
    """Whether an accumulator of a narrow type was asked for."""
    return any(isinstance(item, Reduce) and item.dtype for item in postorder((equation.body,)))


@pytest.mark.parametrize(
    "text",
    [
        "a: f16[m, k], b: f16[k, n]) -> y: f32[m, n]\n  y[m, n] = sum[k](a[m, k] * b[k, n])\n",
        "a: bf16[m, k], b: f32[k, n]) -> y: f32[m, n]\n"
        "  y[m, n] = max[k](a[m, k] - 2 * b[k, n]) ** 2 + sum[k](a[m, k])\n",
        "a: f32[m, k], b: f16[k, n]) -> y: f16[m, n]\n"
        "  p[n] = prod[k](b[k, n] where k < 3)\n"
        "  y[m, n] = sum[k](select(a[m, k] > b[k, n], a[m, k], 3)) * p[n]\n",
    ],
)
def test_small_integers_leave_no_room(text: str) -> None:
    """Where every order is exact the bound is 0 on both levels: equality is demanded."""
    (program,) = read("op p(" + text)
    extents = {"m": 5, "k": 40, "n": 7}
    rng, arrays = np.random.default_rng(0), dict[str, Array]()
    for item in program.parameters:
        shape = [extents[str(dim)] for dim in item.dims]
        arrays[item.tensor.name] = round_to(rng.integers(-3, 4, shape), item.tensor.dtype)
    tiles, dtype = (
        run_passes(program, Request(Target("generic", 4, 2, 3), {})),
        program.outputs[0].tensor.dtype,
    )
    found, rate = worst(tiles, arrays, extents)
    assert not found["y"].error.any() and not rate
    assert not bound_tensor(program, arrays, extents)["y"].error.any()
    want = interpret(program, arrays, extents)["y"]
    got = interpret_tile.interpret(tiles, arrays, extents)["y"]
    assert accept(got, want, None, found["y"].error, dtype).passed
    got[2, 3] = np.nextafter(got[2, 3], got.dtype.type(99))
    assert not accept(got, want, None, found["y"].error, dtype).passed


ROWS = HISTOGRAM.replace("i32", "f32")
SHAPES: dict[str, tuple[str, dict[str, tuple[int, ...]], dict[str, int]]] = {
    "split reductions": (SPLIT, {"q": (5, 20), "k": (40, 20), "v": (40, 20)},
                         {"m": 5, "n": 40, "d": 20}),
    "variance in one pass": (VARIANCE, {"x": (5, 70)}, {"m": 5, "d": 70}),
    "stores that combine": (ROWS, {"a": (23, 13)}, {"i": 23, "j": 13}),
    "tropical": (TROPICAL, {"a": (9, 6), "b": (6, 17)}, {"i": 9, "j": 17, "k": 6}),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_operators_of_other_shapes(name: str) -> None:
    text, shapes, extents = SHAPES[name]
    arrays = {item: draw(shape, "f32", 3) for item, shape in shapes.items()}
    program = read_tile(text)
    found, rate = worst(program, arrays, extents)
    assert np.isfinite(found["o"].error).all()
    assert 0.001 < rate <= 1, rate
    share = np.median(found["o"].error) / np.median(np.abs(found["o"].value))
    assert share < 5e-4, share


def test_gathers_and_open_subscripts() -> None:
    """Subscripts from exact data are exact; a subscript that rounding may change is open."""
    tok = np.array([[1, 2, 0], [2, 2, 1]], np.int32)
    arrays = {"tab": draw((4, 5), "f32", 0), "tok": tok, "len": np.array([3, 2], np.int32)}
    found, rate = worst(read_tile(RAGGED), arrays, {"b": 2, "t": 3, "d": 5, "v": 4})
    assert 0 < rate <= 1 and (found["o"].error < 1e-5).all()
    text = "op p(x: f32[i], t: f32[i]) -> y: f32[i]\n  y[i] = x[clamp(i32(t[i] * 1.5), 0, 3)]\n"
    (program,) = read(text)
    tiles = run_passes(program, Request(Target("generic", 4, 2, 3), {}))
    near = np.array([1.0, 2.0, 0.3, 4 / 3], np.float32)  # 1.5 * 2 is 3, at the edge of a floor
    inputs = {"x": draw((4,), "f32", 1), "t": near}
    opened = np.isinf(bound(tiles, inputs, {"i": 4})["y"].error).tolist()
    assert opened == np.isinf(bound_tensor(program, inputs, {"i": 4})["y"].error).tolist()
    assert opened[0] is False and opened[3] is True
