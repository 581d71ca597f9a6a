"""What tracing refuses: the whole message of each fault, with carets under the user's operator.

Each program is compiled as the file `model.py`, so that lines and columns are those of its text.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator

import pytest

import tensorc as tc
from tests.conftest import Golden

HEAD = """\
import math
import numpy as np
import tensorc as tc
i, j, k, n = tc.indices("i j k n")
"""

ONE = '@tc.op("x: f32[n], w: f32 -> y: f32[n]")\ndef f(x, w):\n'
TWO = '@tc.op("a: f32[i, k], b: f32[k, j] -> c: f32[i, j]")\ndef f(a, b):\n'

PROGRAMS = {
    "E110-if": ONE + "    if x[n] > w * 2:\n        return x[n]\n    return -x[n]\n",
    "E110-and": ONE + "    return tc.select(0 < x[n] and x[n] < w, x[n], 0)\n",
    "E110-not": ONE + "    return tc.select(not x[n] > 0, x[n], 0)\n",
    "E110-in": ONE + "    return tc.select(x[n] in (1, 2), x[n], 0)\n",
    "E110-chain": ONE + "    return tc.select(0 <= n < 4, x[n], 0)\n",
    "E110-max": ONE + "    return 2 * max(x[n], 0)\n",
    "E110-helper": (
        "def relu(v):\n    return v if v > 0 else 0 * v\n\n"
        "def twice(v):\n    return relu(v) + relu(v)\n\n" + ONE + "    return twice(x[n]) * w\n"
    ),
    "E111-list": ONE + "    return list(x[n])[0]\n",
    "E111-sum": ONE + "    return x[n] / sum(x[n])\n",
    "E111-len": ONE + "    return x[n] / len(x)\n",
    "E112-float": ONE + "    return float(x[n]) + 1\n",
    "E112-int": ONE + "    return x[n] * range(4)[int(w)]\n",
    "E112-range": ONE + "    return sum([x[r] for r in range(n.size)])\n",
    "E112-list": ONE + "    return [0.5, 0.25][n % 2] * x[n]\n",
    "E112-math": ONE + "    return 1 / math.sqrt(x[n] + 1)\n",
    "E112-floor": ONE + "    return math.floor(x[n])\n",
    "E112-ufunc": ONE + "    return np.exp(x[n] - 1)\n",
    "E112-numpy": ONE + "    return np.clip(x[n], 0, 1)\n",
    "E112-array": ONE + "    return np.asarray(x[n])[0]\n",
    "E112-matmul": TWO + "    return a @ b\n",
    "E113-assign": ONE + "    x[n] = w\n    return x[n]\n",
    "E113-augmented": ONE + "    x[n] += w\n    return x[n]\n",
    "E113-delete": ONE + "    del x[n]\n    return w\n",
    "E114-array": ONE + "    return x[n] * np.ones(4)\n",
    "E114-array-left": ONE + "    return np.ones(4) * x[n]\n",
    "E114-list": ONE + "    return x[n] + [1, 2]\n",
    "E114-string": ONE + '    return x[n] + "1"\n',
    "E114-none": ONE + "    return x[n] * None\n",
    "E114-slice": ONE + "    return x[1:]\n",
    "E114-ellipsis": ONE + "    return x[...] * w\n",
    "E114-other": "kept = []\n"
    + ONE
    + '    kept.append(x)\n    return x[n] * w\nf.program\n\n@tc.op("z: f32[n] -> y: f32[n]")\n'
    "def f(z):\n    return z[n] + kept[0][n]\n",
    "E114-dtype": ONE + "    return tc.let[n](x[n], dtype=np.float16)[n]\n",
    "E114-index": ONE + "    return x[n] / tc.sum[n + 1](x[n])\n",
    "E115-sum": ONE + "    return x[n] / tc.sum(x[n])\n",
    "E115-max": ONE + "    return x[n] - tc.max(x[n])\n",
    "E115-dtype": ONE + "    return x[n] / tc.sum[tc.f64](x[n])\n",
    "E115-tensor": ONE + "    return 2 * x + w\n",
    "E115-let": ONE + "    return tc.let(x[n])[n]\n",
    "E116-missing": '@tc.op("x: f32[n], v: f32[n] -> y: f32[n]")\ndef f(x):\n    return x[n]\n',
    "E116-extra": '@tc.op("x: f32[n] -> y: f32[n]")\ndef f(x, w):\n    return x[n]\n',
    "E116-order": '@tc.op("x: f32[n], w: f32 -> y: f32[n]")\ndef f(w, x):\n    return x[n]\n',
    "E116-free": TWO + "    return a[i, k] * b[k, j]\n",
    "E116-count": ONE + "    return x[n], w\n",
    "E116-nothing": ONE + "    x[n] * w\n",
    "E116-names": '@tc.op("a: f32[n, n] -> y: f32[n, n]")\ndef f(a):\n    return a[n, n] * 2\n',
    "E116-result": ONE + "    z = tc.result[n](x[n] * w)\n    return z[n] + 1\n",
    "E117-index": 'm, op = tc.indices("m op")\n',
    "E117-function": '@tc.op("x: f32[n] -> y: f32[n]")\ndef scan(x):\n    return x[n]\n',
    "E117-signature": '@tc.op("in: f32[n] -> y: f32[n]")\ndef f(x):\n    return x[n]\n',
    "E118-scan": ONE + "    return tc.scan[n](x[n])\n",
    "E118-call": ONE + "    return x[n] + w\n\n"
    '@tc.op("x: f32[n] -> y: f32[n]")\ndef f(x, inner=f):\n    return inner(x, 1)\n',
    "E118-itself": ONE + "    return f(x, w)\n",
    "E119-near": ONE + "    return tc.sofmax[n](x[n])\n",
    "E119-elsewhere": ONE + "    return tc.relu(x[n])\n",
    "E119-shape": ONE + "    return x[n] / x.shape[0]\n",
    "E119-method": ONE + "    return (x[n] * w).softmax(0)\n",
    "E106-index": 'a, b = tc.indices("a \u03b2")\n',
    "E108-name": ONE + '    return tc.let[n](x[n], name="a b")[n]\n',
    "E107-digits": ONE + f"    return x[n] * {10**41}\n",
    "E108-signature": '@tc.op("x: f32[n] => y: f32[n]")\ndef f(x):\n    return x[n]\n',
    "E108-decorator": "@tc.op\ndef f(x):\n    return x[n]\n",
    "E108-subscript": ONE + "    return (x[n] * w)[n]\n",
    "E108-index": ONE + "    return x[n] * i[n]\n",
    "E108-size": 'r = tc.index("r=3+")\n',
    "E104-condition": ONE + "    c = x[n]\n    for _ in range(300):\n        c = tc.sin(c)\n"
    "    return tc.select(c > 0, x[n], 0)\n",
    "E105-condition": ONE + "    c = x[n]\n    for _ in range(60):\n        c = c + c\n"
    "    return tc.select(c > 0, x[n], 0)\n",
    "E103-statements": ONE + "    for r in range(5001):\n"
    "        x = tc.let[n](x[n] + r)\n    return x[n]\n",
}


# What the checker finds, at the Python operator and the calls that led there.
CHECKED = {
    "E201-index": TWO + "    return tc.result[i, j](tc.sum[k](a[i, k] * b[k + 0, j] + a[k, i]))\n",
    "E202-let": ONE + "    z = tc.let[i](x[n] * i)\n    return x[n] + z[n]\n",
    "E207-helper": "def mix(a, b):\n    return 1 + a % b\n\n"
    '@tc.op("a: i64[n], b: u64[n] -> y: i64[n]")\ndef f(a, b):\n    return 2 * mix(a[n], b[n])\n',
    "E214-extent": ONE + "    return x[n] * tc.sum[i](w * i)\n",
    "E215-helper": "def shifted(v, by):\n    return v[n + by]\n\n"
    "def ends(v):\n    return shifted(v, 0) - shifted(v, 1)\n\n" + ONE + "    return ends(x) * w\n",
    "E218-left": ONE + "    return tc.sum[n](x[n])\n",
    "E222-store": '@tc.op("x: f32[n] -> y: i32[n]")\ndef f(x):\n    return 2 * x[n]\n',
    "E224-literal": '@tc.op("x: i32[n] -> y: i32[n]")\ndef f(x):\n    return x[n] + 2**40 * x[n]\n',
    "E2-all": ONE + "    return x[n + 1] + tc.sum[i](w) + (x[n] & 1)\n",
}

# Without source lines the place is shown in the `.tc` form of the expression.
SOURCELESS = {
    "sourceless-E110": ONE + "    return x[n] if x[n] > w * 2 else w\n",
    "sourceless-E113": ONE + "    x[n] = w\n    return w\n",
    "sourceless-E215": ONE + "    z = tc.let[n](-x[n] + 1)\n    return w * z[n - 1 + 2]\n",
    "sourceless-E207": '@tc.op("a: i64[n], b: u64[n] -> y: i64[n]")\ndef f(a, b):\n'
    "    return (2 * (a[n] + b[n]))\n",
}


@pytest.fixture
def _model() -> Iterator[None]:
    yield
    linecache.cache.pop("model.py", None)


def run(body: str, name: str = "model.py", keep: bool = True) -> dict[str, object]:
    """Run a module; its source can be found unless `keep` is off."""
    text = HEAD + body
    if keep:
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict[str, object] = {"__name__": "model"}
    exec(compile(text, name, "exec"), space)  # noqa: S102
    return space


def fault(body: str, name: str = "model.py", keep: bool = True) -> str:
    """The message with which defining or using the operator `f` fails."""
    with pytest.raises(tc.NotationError) as caught:
        made = run(body, name, keep).get("f")
        if isinstance(made, tc.Op):
            made.program  # noqa: B018
    return f"{caught.value}\n"


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.usefixtures("_model")
def test_fault(name: str, golden: Golden) -> None:
    text = fault(PROGRAMS[name])
    assert text.startswith(f"TC-{name[:4]} at ")
    golden(f"errors/python/{name}.txt", text)


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.usefixtures("_model")
def test_checked_fault(name: str, golden: Golden) -> None:
    text = fault(CHECKED[name])
    assert text.startswith(f"TC-{name[:2]}")
    golden(f"errors/python/{name}.txt", text)


@pytest.mark.parametrize("name", SOURCELESS)
def test_fault_without_source(name: str, golden: Golden) -> None:
    golden(f"errors/python/{name}.txt", fault(SOURCELESS[name], "<console>", keep=False))


@pytest.mark.usefixtures("_model")
def test_columns_count_characters_and_lines_may_be_many() -> None:
    text = fault(ONE + "    \u00e4\u00df = '\u4e16'; return (x[n]\n        + [1])\n")
    assert text.splitlines()[:3] == [
        "TC-E114 at model.py:7:23: list is no value in an expression",
        "        \u00e4\u00df = '\u4e16'; return (x[n]",
        " " * 27 + "^" * 4,  # one character is two columns wide
    ]


@pytest.mark.usefixtures("_model")
def test_the_traceback_shows_the_users_frames_alone() -> None:
    made = run(PROGRAMS["E110-helper"])["f"]
    assert isinstance(made, tc.Op)
    with pytest.raises(tc.NotationError) as caught:
        made.program  # noqa: B018
    names = [entry.name for entry in caught.traceback]
    assert names[1:] == ["program", "f", "twice", "relu"]
