"""Network graphs in the language: a block's operators, each an equation, from shapes alone.

Batch 1. A tensor is (channels, rows, columns), or whatever shape its maker gives it. Index names
say what they walk and how far: c64 channels, y56 rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Value:
    """A tensor of a block by name, and its shape."""

    name: str
    shape: tuple[int, ...]


@dataclass
class Text:
    """The text of one block as it grows. `frames`: equations that pad for a convolution or pooling,
    which a framework does in that."""

    name: str
    params: list[str] = field(default_factory=list[str])
    weights: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    frames: list[str] = field(default_factory=list[str])
    _padded: dict[tuple[str, tuple[int, ...], str], Value] = field(
        default_factory=dict[tuple[str, tuple[int, ...], str], Value]
    )

    def given(self, *shape: int) -> Value:
        """A parameter that changes from call to call."""
        made = Value(f"x{len(self.params)}", shape)
        self.params.append(f"{made.name}: f32[{', '.join(map(str, shape))}]")
        return made

    def weight(self, *shape: int) -> Value:
        """A parameter that stays the same."""
        made = self.given(*shape)
        self.weights.append(made.name)
        return made

    def equation(self, shape: Sequence[int], letters: str, body: str, frame: bool = False) -> Value:
        """One equation; its left side walks `shape` under letters with sizes."""
        made = Value(f"t{len(self.lines)}", tuple(shape))
        left = ", ".join(f"{a}{n}={n}" for a, n in zip(letters, shape, strict=True))
        self.lines.append(f"{made.name}[{left}] = {body}")
        self.frames += [made.name] * frame
        return made

    def each(self, value: Value, *others: Value, body: str) -> Value:
        """A function of elements; `{0}`, `{1}`, ... are the operands."""
        letters = "gcyx" if len(value.shape) == 4 else "cyx"[: len(value.shape)]
        reads = [read(item, letters) for item in (value, *others)]
        return self.equation(value.shape, letters, body.format(*reads))

    def relu(self, value: Value) -> Value:
        """max(x, 0)."""
        return self.each(value, body="max({0}, 0)")

    def add(self, a: Value, b: Value) -> Value:
        """a + b."""
        return self.each(a, b, body="{0} + {1}")

    def padded(self, value: Value, kernel: tuple[int, int], stride: int, fill: str) -> Value:
        """The tensor in a frame, such that a window of `kernel` covers it at this stride; the same
        frame is made once."""
        channels, *space = value.shape
        more = [max(0, (-(-n // stride) - 1) * stride + k - n)
                for n, k in zip(space, kernel, strict=True)]  # fmt: skip
        if not any(more):
            return value
        key = value.name, tuple(more), fill
        if key not in self._padded:
            (up, down), (h, w) = (n // 2 for n in more), space
            shape = channels, h + more[0], w + more[1]
            y, x = f"y{shape[1]} - {up}", f"x{shape[2]} - {down}"
            held = f"{value.name}[c{channels}, {y}, {x}]"
            inside = f"inside({y}, {h}) and inside({x}, {w})"
            body = f"select({inside}, {held}, {fill})"
            self._padded[key] = self.equation(shape, "cyx", body, True)
        return self._padded[key]

    def conv(
        self, value: Value, out: int, kernel: tuple[int, int] = (1, 1), stride: int = 1,
        same: bool = True, each: bool = False,
    ) -> Value:  # fmt: skip
        """A convolution to `out` channels; `each`: every channel by itself; `same`: padded so that
        the output has the input's size over the stride."""
        framed = self.padded(value, kernel, stride, "0") if same else value
        channels, h, w = framed.shape
        rows, columns = (h - kernel[0]) // stride + 1, (w - kernel[1]) // stride + 1
        y, u = window(f"y{rows}", f"r{kernel[0]}", kernel[0], stride)
        x, v = window(f"x{columns}", f"s{kernel[1]}", kernel[1], stride)
        if each:
            weight = self.weight(channels, *kernel)
            body = f"{framed.name}[c{channels}, {y}, {x}] * {weight.name}[c{channels}, {u}, {v}]"
            return self.equation((channels, rows, columns), "cyx", f"sum[{u}, {v}]({body})")
        weight = self.weight(out, channels, *(k for k in kernel if kernel != (1, 1)))
        inner = "" if kernel == (1, 1) else f", {u}, {v}"
        over = f"k{channels}{inner}"
        body = f"{framed.name}[k{channels}, {y}, {x}] * {weight.name}[c{out}, {over}]"
        return self.equation((out, rows, columns), "cyx", f"sum[{over}]({body})")

    def pool(self, value: Value, kind: str, size: int, stride: int, same: bool = True) -> Value:
        """The "max" or "mean" of windows."""
        fill = "0" if kind == "mean" else "-inf"
        framed = self.padded(value, (size, size), stride, fill) if same else value
        channels, h, w = framed.shape
        rows, columns = (h - size) // stride + 1, (w - size) // stride + 1
        y, u = window(f"y{rows}", f"r{size}={size}", size, stride)
        x, v = window(f"x{columns}", f"s{size}={size}", size, stride)
        held = f"{framed.name}[c{channels}, {y}, {x}]".replace(f"={size}", "")
        reduced = f"{'max' if kind == 'max' else 'sum'}[{u}, {v}]({held})"
        body = f"{reduced} / {size * size}" if kind == "mean" else reduced
        return self.equation((channels, rows, columns), "cyx", body)

    def concat(self, values: Sequence[Value]) -> Value:
        """Channels one after the other."""
        total, rows, columns = sum(v.shape[0] for v in values), *values[0].shape[1:]
        body, start = "", 0
        for value in values:
            held = f"{value.name}[c{total} - {start}, y{rows}, x{columns}]"
            start += value.shape[0]
            body += f"select(c{total} < {start}, {held}, " if start < total else held
        return self.equation((total, rows, columns), "cyx", body + ")" * (len(values) - 1))

    def dense(self, value: Value, out: int) -> Value:
        """A vector times a matrix."""
        (size,) = value.shape
        weight = self.weight(size, out)
        body = f"sum[k{size}]({value.name}[k{size}] * {weight.name}[k{size}, c{out}])"
        return self.equation((out,), "c", body)

    def op(self, *outputs: Value) -> str:
        """The operator, with these tensors as its results."""
        last = [f"{item.name}: f32[{', '.join(map(str, item.shape))}]" for item in outputs]
        head = f"op {self.name}({', '.join(self.params)}) -> {', '.join(last)}\n"
        return head + "".join(f"  {line}\n" for line in self.lines)


def window(at: str, offset: str, size: int, stride: int) -> tuple[str, str]:
    """The subscript of a window's element, and the name that walks the window."""
    start = at if stride == 1 else f"{stride} * {at}"
    return (f"{start} + {offset}" if size > 1 else start), offset


def read(value: Value, letters: str) -> str:
    """An element under the same letters as an equation's left side."""
    names = ", ".join(f"{a}{n}" for a, n in zip(letters, value.shape, strict=True))
    return f"{value.name}[{names}]"
