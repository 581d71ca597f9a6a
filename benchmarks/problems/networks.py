"""The seven graphs on which TENSAT was measured, rebuilt from their published shapes.

A graph is its blocks in the language, each with how often it occurs; every block is one operator.
BERT is given twice: as it was published there (no softmax, no scale, no LayerNorm, no MLP), and as
a true layer. Seconds and speed-ups are those of the paper (arXiv 2101.01332), for TENSAT and, in
brackets in tables, for TASO.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.problems.network_text import Text, Value


@dataclass(frozen=True)
class Block:
    """An operator, how often it occurs, the parameters that are weights, and the equations that
    only pad, which a framework would not launch by themselves."""

    text: str
    count: int
    weights: tuple[str, ...]
    frames: tuple[str, ...] = ()


@dataclass(frozen=True)
class Network:
    """A graph; its published optimisation seconds and speed-ups in percent: TENSAT's, TASO's."""

    name: str
    blocks: tuple[Block, ...]
    seconds: tuple[float, float]
    gain: tuple[float, float]
    most: float = 2.0  # seconds: the bar


def block(text: Text, count: int, *outputs: Value) -> Block:
    """A finished block."""
    return Block(text.op(*outputs), count, tuple(text.weights), tuple(text.frames))


# --- sequences -----------------------------------------------------------------------------------


def bert_as_published() -> Iterator[Block]:
    """8 layers of sequence 64, width 1024, 16 heads; the next layer's input is a product of this
    one's."""
    text = Text("bert")
    x = text.given(64, 1024)
    made: list[Value] = []
    for _ in range(3):
        weight = text.weight(1024, 16, 64)
        body = f"sum[k1024]({x.name}[t64, k1024] * {weight.name}[k1024, h16, d64])"
        made.append(text.equation((64, 16, 64), "thd", body))
    q, k, v = (value.name for value in made)
    scores = f"sum[d64]({q}[t64, h16, d64] * {k}[v64, h16, d64])"
    p = text.equation((16, 64, 64), "htv", scores)
    o = text.equation(
        (64, 16, 64), "thd", f"sum[v64]({p.name}[h16, t64, v64] * {v}[v64, h16, d64])"
    )
    weight = text.weight(1024, 1024)
    body = f"sum[k1024]({x.name}[t64, k1024] * {weight.name}[k1024, c1024])"
    yield block(text, 8, o, text.equation((64, 1024), "tc", body))


LAYER = """\
op layer(x: f32[t, c], wq: f32[c, h, d], wk: f32[c, h, d], wv: f32[c, h, d], wo: f32[h, d, c],
    g: f32[c], b: f32[c], w1: f32[c, f], w2: f32[f, c], g2: f32[c], b2: f32[c]) -> y: f32[t, c]
  q[t, h, d] = sum[c](x[t, c] * wq[c, h, d])
  k[t, h, d] = sum[c](x[t, c] * wk[c, h, d])
  v[t, h, d] = sum[c](x[t, c] * wv[c, h, d])
  s[h, t, u=|t|] = sum[d](q[t, h, d] * k[u, h, d]) / sqrt(|d|)
  p[h, t, u=|t|] = softmax[u](s[h, t, u])
  o[t, h, d] = sum[u=|t|](p[h, t, u] * v[u, h, d])
  m[t, c] = x[t, c] + sum[h, d](o[t, h, d] * wo[h, d, c])
  a[t, c] = m[t, c] - mean[c](m[t, c])
  n[t, c] = a[t, c] * rsqrt(mean[c](a[t, c] ** 2) + 1e-5) * g[c] + b[c]
  j[t, f] = sum[c](n[t, c] * w1[c, f])
  l[t, f] = 0.5 * j[t, f] * (1 + erf(j[t, f] / sqrt(2)))
  z[t, c] = n[t, c] + sum[f](l[t, f] * w2[f, c])
  e[t, c] = z[t, c] - mean[c](z[t, c])
  y[t, c] = e[t, c] * rsqrt(mean[c](e[t, c] ** 2) + 1e-5) * g2[c] + b2[c]
"""


def bert() -> Iterator[Block]:
    """8 true layers of the same shapes, with an MLP of width 4096."""
    sizes = {"t": 64, "c": 1024, "h": 16, "d": 64, "f": 4096}
    head, body = LAYER.split("->")
    for name, size in sizes.items():
        head = re.sub(rf"(?<=[\[ ]){name}(?=[,\]])", f"{name}={size}", head)
    weights = ("wq", "wk", "wv", "wo", "g", "b", "w1", "w2", "g2", "b2")
    yield Block(f"{head}->{body}", 8, weights)


_FUNCTIONS = {
    "relu": "max({0}, 0)",
    "sigmoid": "sigmoid({0})",
    "tanh": "tanh({0})",
}


def nasrnn() -> Iterator[Block]:
    """5 steps of width 512: 16 products each, then 14 functions and 7 combinations."""
    text = Text("step")
    x, state = text.given(512), text.given(512)
    sums = [text.add(text.dense(x, 512), text.dense(state, 512)) for _ in range(8)]

    def both(f: str, a: Value, sign: str, g: str, b: Value) -> Value:
        sides = [text.each(value, body=_FUNCTIONS[name]) for name, value in ((f, a), (g, b))]
        return text.each(*sides, body=f"{{0}} {sign} {{1}}")

    m0 = both("relu", sums[0], "+", "sigmoid", sums[3])
    m1 = both("sigmoid", sums[1], "+", "tanh", sums[2])
    m2 = both("sigmoid", sums[4], "*", "tanh", sums[5])
    m3 = both("sigmoid", sums[6], "*", "relu", sums[7])
    m4, m5 = both("sigmoid", m1, "+", "tanh", m2), both("tanh", m0, "*", "tanh", m3)
    yield block(text, 5, text.each(both("tanh", m4, "*", "tanh", m5), body="tanh({0})"))


# --- images --------------------------------------------------------------------------------------


def stem() -> Block:
    """7x7 convolution and pooling of a 224x224 image."""
    text = Text("stem")
    made = text.relu(text.conv(text.given(3, 224, 224), 64, (7, 7), 2))
    return block(text, 1, text.pool(made, "max", 3, 2))


def nasnet() -> Iterator[Block]:
    """NasNet-A: 3 stages of 5 normal cells and a reduction; widths 128, 256, 512."""
    yield stem()
    channels = 64
    for stage, size in enumerate((56, 28, 14)):
        width = 128 << stage
        yield _normal_cell(1, channels, None, width, size)
        if channels != 5 * width:
            yield _normal_cell(1, 5 * width, channels, width, size)
        yield _normal_cell(3 if channels != 5 * width else 4, 5 * width, 5 * width, width, size)
        yield _reduction_cell(5 * width, 2 * width, size)
        channels = 10 * width


def _separable(text: Text, value: Value, size: int, stride: int = 1) -> Value:
    apart = text.conv(value, value.shape[0], (size, size), stride, each=True)
    return text.conv(apart, value.shape[0])


def _cell_inputs(text: Text, cur: int, prev: int | None, width: int, size: int) -> list[Value]:
    current = text.given(cur, size, size)
    previous = current if prev is None else text.given(prev, size, size)
    return [text.relu(text.conv(value, width)) for value in (current, previous)]


def _normal_cell(count: int, cur: int, prev: int | None, width: int, size: int) -> Block:
    text = Text("normal")
    here, before = _cell_inputs(text, cur, prev, width, size)
    pairs = (
        (_separable(text, here, 3), here),
        (_separable(text, before, 3), _separable(text, here, 3)),
        (text.pool(here, "mean", 3, 1), before),
        (text.pool(before, "mean", 3, 1), text.pool(before, "mean", 3, 1)),
        (_separable(text, before, 3), _separable(text, before, 3)),
    )
    return block(text, count, text.concat([text.add(*pair) for pair in pairs]))


def _reduction_cell(channels: int, width: int, size: int) -> Block:
    text = Text("reduction")
    here, before = _cell_inputs(text, channels, channels, width, size)
    first = text.add(_separable(text, before, 7, 2), _separable(text, here, 5, 2))
    second = text.add(text.pool(here, "max", 3, 2), _separable(text, before, 7, 2))
    third = text.add(text.pool(here, "mean", 3, 2), _separable(text, before, 5, 2))
    fourth = text.add(text.pool(here, "max", 3, 2), _separable(text, first, 3))
    fifth = text.add(text.pool(first, "mean", 3, 1), second)
    return block(text, 1, text.concat([first, second, third, fourth, fifth]))


def resnext() -> Iterator[Block]:
    """ResNeXt-50: 32 groups; stages of 3, 4, 6 and 3 blocks."""
    yield stem()
    channels, size = 64, 56
    for stage, count in enumerate((3, 4, 6, 3)):
        width, stride = 128 << stage, 1 if stage == 0 else 2
        yield _grouped_block(1, channels, width, size, stride)
        channels, size = 2 * width, size // stride
        yield _grouped_block(count - 1, channels, width, size, 1)


def _grouped_block(count: int, channels: int, width: int, size: int, stride: int) -> Block:
    """1x1, 3x3 in 32 groups, 1x1, and what was there added."""
    text, part = Text("block"), width // 32
    x = text.given(channels, size, size)
    wide = text.relu(_to_groups(text, x, part))
    made = text.relu(_grouped(text, wide, stride))
    weight, out = text.weight(2 * width, 32, part), size // stride
    body = (f"sum[g32, k{part}]({made.name}[g32, k{part}, y{out}, x{out}] * "
            f"{weight.name}[c{2 * width}, g32, k{part}])")  # fmt: skip
    last = text.equation((2 * width, out, out), "cyx", body)
    if stride > 1 or channels != 2 * width:
        x = text.relu(text.conv(x, 2 * width, (1, 1), stride))
    return block(text, count, text.relu(text.add(x, last)))


def _to_groups(text: Text, x: Value, part: int) -> Value:
    channels, size, _ = x.shape
    weight = text.weight(32, part, channels)
    body = (f"sum[k{channels}]({x.name}[k{channels}, y{size}, x{size}] * "
            f"{weight.name}[g32, c{part}, k{channels}])")  # fmt: skip
    return text.equation((32, part, size, size), "gcyx", body)


def _grouped(text: Text, x: Value, stride: int) -> Value:
    groups, part, size, _ = x.shape
    wide, out = size + 2, size // stride
    inside = f"inside(y{wide} - 1, {size}) and inside(x{wide} - 1, {size})"
    held = f"{x.name}[g{groups}, c{part}, y{wide} - 1, x{wide} - 1]"
    framed = text.equation((groups, part, wide, wide), "gcyx", f"select({inside}, {held}, 0)", True)
    weight = text.weight(groups, part, part, 3, 3)
    at = ", ".join(f"{stride} * {n}{out} + {k}3" for n, k in (("y", "r"), ("x", "s")))
    body = (f"sum[k{part}, r3, s3]({framed.name}[g{groups}, k{part}, {at}] * "
            f"{weight.name}[g{groups}, c{part}, k{part}, r3, s3])")  # fmt: skip
    return text.equation((groups, part, out, out), "gcyx", body)


Branch = tuple[tuple[int, tuple[int, int]], ...]  # (channels, kernel) of each convolution


def inception() -> Iterator[Block]:
    """Inception-v3: the modules with parallel branches, as in torchvision."""
    one, three, five = (1, 1), (3, 3), (5, 5)
    for channels, pooled in ((192, 32), (256, 64), (288, 64)):
        branches: tuple[Branch, ...] = (
            ((64, one),), ((48, one), (64, five)), ((64, one), (96, three), (96, three)),
        )  # fmt: skip
        yield _module(1, channels, 35, branches, pooled)
    flat, tall = (1, 7), (7, 1)
    for count, mid in ((1, 128), (2, 160), (1, 192)):
        branches = (
            ((192, one),), ((mid, one), (mid, flat), (192, tall)),
            ((mid, one), (mid, tall), (mid, flat), (mid, tall), (192, flat)),
        )  # fmt: skip
        yield _module(count, 768, 17, branches, 192)
    for channels in (1280, 2048):
        branches = (
            ((320, one),), ((384, one), (384, (1, 3))), ((384, one), (384, (3, 1))),
            ((448, one), (384, three), (384, (1, 3))),
        )  # fmt: skip
        yield _module(1, channels, 8, branches, 192)


def _module(
    count: int, channels: int, size: int, branches: tuple[Branch, ...], pooled: int
) -> Block:
    text = Text("module")
    x = text.given(channels, size, size)
    ends: list[Value] = []
    for branch in branches:
        value = x
        for out, kernel in branch:
            value = text.relu(text.conv(value, out, kernel))
        ends.append(value)
    ends.append(text.relu(text.conv(text.pool(x, "mean", 3, 1), pooled)))
    return block(text, count, text.concat(ends))


def squeezenet() -> Iterator[Block]:
    """SqueezeNet 1.0: eight fire modules between its first and last convolution."""
    text = Text("first")
    made = text.relu(text.conv(text.given(3, 224, 224), 96, (7, 7), 2))
    yield block(text, 1, text.pool(made, "max", 3, 2))
    fires = ((96, 16, 64, 56), (128, 16, 64, 56), (128, 32, 128, 56), (256, 32, 128, 28),
             (256, 48, 192, 28), (384, 48, 192, 28), (384, 64, 256, 28),
             (512, 64, 256, 14))  # fmt: skip
    for channels, few, many, size in fires:
        text = Text("fire")
        squeezed = text.relu(text.conv(text.given(channels, size, size), few))
        sides = [text.relu(text.conv(squeezed, many, kernel)) for kernel in ((1, 1), (3, 3))]
        yield block(text, 1, text.concat(sides))
    text = Text("last")
    yield block(text, 1, text.relu(text.conv(text.given(512, 14, 14), 1000)))


def vgg() -> Iterator[Block]:
    """VGG-19: sixteen 3x3 convolutions, five poolings, three dense layers."""
    channels, size = 3, 224
    for out, count in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for number in range(count):
            if number > 1:
                continue
            text = Text("convolution")
            made = text.relu(text.conv(text.given(channels, size, size), out, (3, 3)))
            yield block(text, 1 if number == 0 else count - 1, made)
            channels = out
        text = Text("pooling")
        yield block(text, 1, text.pool(text.given(out, size, size), "max", 2, 2))
        size //= 2
    for given, out in ((25088, 4096), (4096, 4096), (4096, 1000)):
        text = Text("dense")
        yield block(text, 1, text.relu(text.dense(text.given(given), out)))


_BUILDERS: tuple[
    tuple[str, Callable[[], Iterator[Block]], tuple[float, float], tuple[float, float]], ...
] = (
    ("BERT, as published", bert_as_published, (1.4, 13.6), (9.2, 8.5)),
    ("BERT, true layers", bert, (1.4, 13.6), (9.2, 8.5)),
    ("NasRNN", nasrnn, (0.5, 177.3), (68.9, 45.4)),
    ("NasNet-A", nasnet, (10.6, 1226.0), (7.3, 1.9)),
    ("ResNeXt-50", resnext, (0.7, 25.3), (8.8, 5.5)),
    ("Inception-v3", inception, (5.1, 68.6), (10.0, 6.3)),
    ("SqueezeNet", squeezenet, (0.3, 16.4), (24.5, 6.7)),
    ("VGG-19", vgg, (0.4, 8.9), (8.9, 8.9)),
)


def networks() -> list[Network]:
    """All seven, BERT in both forms."""
    return [
        Network(name, tuple(make()), seconds, gain, 5.0 if name == "NasNet-A" else 2.0)
        for name, make, seconds, gain in _BUILDERS
    ]
