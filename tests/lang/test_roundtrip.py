"""A printed program reads back as the same program: nodes, extents, conditions and checks.

Programs are drawn with types that fit, so that nearly all of them pass the checker.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tensorc.errors import NotationError
from tensorc.ir.print_tensor import show_program
from tensorc.ir.source import Source
from tensorc.ir.tensor import Program
from tensorc.lang import read
from tensorc.lang.check import check
from tensorc.lang.parse import parse_file, read_source
from tensorc.passes.canonicalise import canonicalise

COUNT = 5000 if os.environ.get("TENSORC_PROFILE") == "campaign" else 240
PROGRAMS = Path(__file__).parent.parent / "programs"
EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def assert_reads_back(program: Program) -> None:
    """Printing, reading and printing again change nothing."""
    text = show_program(program)
    (again,) = read(text, "printed")
    assert [item.body for item in again.equations] == [item.body for item in program.equations], (
        text
    )
    assert again == program, text
    assert show_program(again) == text


WRITTEN = sorted([*PROGRAMS.glob("*.tc"), *EXAMPLES.glob("*.tc")])


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_written_programs(path: Path) -> None:
    for program in read(read_source(path)):
        assert_reads_back(program)


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_canonical_programs(path: Path) -> None:
    for program in map(canonicalise, read(read_source(path))):
        source = Source("printed", show_program(program))
        assert check(parse_file(source, primes=True)) == [program]


@pytest.mark.parametrize(
    "text",
    [
        "op f() -> y: f32\n  y = 1\n",
        "op f(x: f32) -> y: f16\n  y = x\n",
        "op f(x: f32[n, n]) -> y: f32[n]\n  y[i] = x[i, i]\n",
        "op f(x: f32[4, 3]) -> y: f32[4]\n  y[i] = sum[j](x[i, j])\n",
        "op f(x: f32[n, d=64]) -> y: f32[n]\n  y[n] = sum[d](x[n, d] / |d|)\n",
        "op f(x: f32[n]) -> y: f32[n]\n  y[n] = sum[s=|n|](select(s <= n, 1.0, 0.0) * x[n])\n",
        "op f(x: f32[n]) -> y: f32[r=(|n| + 1) // 2]\n  y[r] = x[clamp(2*r, 0, |n| - 1)]\n",
        "op f(x: f32[n], w: const i64) -> y: f32[m=max(w, 0)]\n"
        "  y[m] = sum[n](x[n] where n % 3 == m)\n",
        "op f(x: f32[n]) -> y: f32[n]\n  z: f16[i=|n|] = x[i + 0]\n  y[n] = z[n] ** 2\n",
        "op f(x: f16[n]) -> y: f16[n]\n  z: f32[n] = x[n]\n  y[n] = z[n] + f16(z[n])\n",
        "op f(p: bool[n], q: bool[n]) -> y: bool[n]\n"
        "  y[n] = p[n] ^ q[n] and ~p[n] or p[n] & q[n]\n",
        "op f(a: i32[n], b: u8[n]) -> y: i32[n]\n  y[n] = (a[n] & 7 | b[n]) ^ ~a[n] << 2 >> 1\n",
        "op f(x: f32[n]) -> y: i8[n]\n  y[n] = i8(x[n] * 1e30 + 0.1 - 0x1p-149)\n",
        "op f(x: f32[n]) -> y: i32[n]\n  y[n] = bitcast(i32, x[n] - -0.0 ** (-inf))\n",
        "const C: f32[2, 3] = [[1, 2.5, -3], [1/3, inf, 2.0 ** -1]]\n"
        "op f(x: f32[3]) -> y: f32[2]\n  y[i] = sum[j](C[i, j] * x[j])\n",
    ],
)
def test_forms(text: str) -> None:
    (program,) = read(text)
    assert_reads_back(program)


class Drawn:
    """One operator as text, drawn with types that fit."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.bound: list[str] = []
        self.fresh = 0

    def text(self) -> str:
        """Three equations, the last of them the output's."""
        lines = [
            "const C: f32[3, 2] = [[1, -2], [0.5, 1e-3], [pi, 7]]",
            "op f(x: f32[n, m], h: bf16[m], t: i32[n], u: u8[m], p: bool[n], w: f64, s: f32)"
            f" -> y: {self.pick(['f16', 'f32', 'f64'])}[n, r={self.size()}]",
        ]
        names = ["n", "m"]
        self.bound = list(names)
        declared = self.pick(["", ": f16", ": f32", ": bf16"])
        lines.append(f"  a{declared}[n, m] = f32({self.real(4)}) + m")
        self.bound = ["n"]
        lines.append(f"  b[n] = {self.truth(3)}")
        self.bound = ["n"]
        lines.append(f"  y[n, r] = select(b[n], f32({self.real(4)}) + r, a[n, 0 * n])")
        return "\n".join(lines) + "\n"

    def pick(self, words: list[str]) -> str:
        return self.random.choice(words)

    def size(self) -> str:
        return self.pick(["3", "|n|", "(|n| + 1) // 2", "2 * |m|", "max(|n|, |m|) % 5 + 1"])

    def index(self, dimension: str) -> str:
        """A subscript that stays within the dimension."""
        if dimension in self.bound and self.random.random() < 0.7:
            return dimension
        return f"clamp({self.position()}, 0, |{dimension}| - 1)"

    def position(self) -> str:
        if not self.bound:
            return self.pick(["0", "1"])
        name = self.pick(self.bound)
        return self.pick([name, f"{name} + 1", f"{name} // 2", f"2*{name} - 1", f"{name} % 3"])

    def real(self, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.1:
            leaves = ["s", "0.1", "2.5", "-1e-3", "1", "-2", "pi", "w", "-0.0", "|n|", "0x1.8p-3"]
            leaves += [f"x[{self.index('n')}, {self.index('m')}]", f"h[{self.index('m')}]"]
            leaves += [f"C[({self.position()}) % 3, 1]", *self.bound]
            return self.pick(leaves)
        a, b = (self.real(depth - 1) for _ in range(2))
        match self.random.randrange(10):
            case 0 | 1 | 2:
                return f"({a} {self.pick(['+', '-', '*', '/'])} {b})"
            case 3:
                return f"{a} {self.pick(['+', '-', '*'])} {b} {self.pick(['+', '*', '-'])} {a}"
            case 4:
                return f"-({a})" if self.random.random() < 0.5 else f"({a}) ** 2"
            case 5:
                return f"{self.pick(['exp', 'tanh', 'abs', 'f16', 'sigmoid'])}({a})"
            case 6:
                return f"{self.pick(['min', 'max'])}({a}, {b})"
            case 7:
                return f"select({self.truth(depth - 1)}, {a}, {b})"
            case 8:
                return f"f32({self.whole(depth - 1)})"
            case _:
                return self.reduced(depth)

    def reduced(self, depth: int) -> str:
        """A reduction over a dimension or a range, whose index surely occurs."""
        kind = self.pick(["sum", "max", "mean", "logsumexp", "prod", "min"])
        if self.random.random() < 0.6:
            name, stated = "m", "m"
        else:
            self.fresh += 1
            name = f"k{self.fresh}"
            stated = f"{name}={self.size()}"
        before, self.bound = self.bound, [*self.bound, name]
        body = f"{self.real(depth - 1)} + {name} * 1.0"
        where = f" where {self.truth(depth - 1)}" if self.random.random() < 0.4 else ""
        self.bound = before
        return f"{kind}[{stated}]({body}{where})"

    def whole(self, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.2:
            leaves = ["3", "-1", f"t[{self.index('n')}]", f"u[{self.index('m')}]", *self.bound]
            return self.pick(leaves)
        a, b = (self.whole(depth - 1) for _ in range(2))
        if self.random.random() < 0.2:
            return f"{self.pick(['popcount', 'abs', 'i8', '~', '-'])}(t[0 * |n|] + {a})"
        operators = ["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"]
        return f"({a} {self.pick(operators)} {b})"

    def truth(self, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.2:
            return self.pick([f"p[{self.index('n')}]", "true", f"({self.position()} < |m|)"])
        a, b = (self.truth(depth - 1) for _ in range(2))
        match self.random.randrange(5):
            case 0:
                return f"({a} {self.pick(['and', 'or', '&', '|', '^'])} {b})"
            case 1:
                return f"(not {a})"
            case 2:
                operator = self.pick(["<", "<=", "==", "!=", ">"])
                return f"({self.real(depth - 1)} {operator} {self.real(depth - 1)})"
            case 3:
                return f"(0 <= {self.whole(depth - 1)} < 4)"
            case _:
                return f"inside({self.position()}, |n|)"


@pytest.mark.parametrize("part", range(4))
def test_drawn_programs(part: int) -> None:
    accepted = 0
    for number in range(COUNT // 4):
        text = Drawn(part * COUNT + number).text()
        try:
            (program,) = read(text)
        except NotationError:
            continue
        accepted += 1
        assert_reads_back(program)
    assert accepted > COUNT // 4 * 0.6
