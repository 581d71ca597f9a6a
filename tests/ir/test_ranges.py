"""The range prover: obligations with known verdicts, and every claim against brute force."""

from __future__ import annotations

import os
from random import Random

import numpy as np
import pytest

from tensorc.errors import NotationError
from tensorc.ir import polynomial as p
from tensorc.ir.polynomial import Symbol
from tensorc.ir.ranges import Ranges, Verdict
from tensorc.ir.requirement import requirements
from tensorc.lang import read
from tests.ir.access_cases import Case, draw, outcome

CASES = 20_000 if os.environ.get("TENSORC_PROFILE") == "campaign" else 2_000
SCALARS = {"w": p.of_atom(Symbol("w", "parameter"))}


def verdict(case: Case) -> Verdict:
    """What the prover says."""
    ranges = Ranges(case.extents, case.scope, case.guards, SCALARS)
    return ranges.judge(case.subscript, case.limit).verdict


# More alternatives than are followed: nothing is proved, and nothing refuted.
MANY = " or ".join(["n + 1 < |n|", *(f"n < -{bound}" for bound in range(1, 14))])

# (what it is about, the program, what is known of its only access that is no bare index)
OBLIGATIONS: list[tuple[str, str, str]] = [
    ("stride", "x: f32[n] -> y: f32[o=(|n| - 3) // 2 + 1] : y[o] = max[j=3](x[2*o + j])", "proved"),
    ("stride", "x: f32[n] -> y: f32[o=|n| // 2] : y[o] = x[2*o + 1]", "proved"),
    ("stride", "x: f32[n] -> y: f32[o=(|n| + 1) // 2] : y[o] = x[2*o]", "proved"),
    ("stride", "x: f32[n] -> y: f32[o=(|n| + 1) // 2] : y[o] = x[2*o + 1]", "size condition"),
    ("stride", "x: f32[n] -> y: f32[o=|n| // 2 + 1] : y[o] = x[2*o + 2]", "refuted"),
    ("dilation", "x: f32[n], k: f32[r] -> y: f32[o=|n| - 2*(|r| - 1)] : "
     "y[o] = sum[r](x[o + 2*r] * k[r])", "proved"),
    ("dilation", "x: f32[n], k: f32[r] -> y: f32[o=(|n| - 3*|r| + 2) // 2 + 1] : "
     "y[o] = sum[r](x[2*o + 3*r] * k[r])", "proved"),
    ("dilation", "x: f32[n], k: f32[r] -> y: f32[o=|n| - |r| + 1] : "
     "y[o] = sum[r](x[o + 2*r] * k[r])", "size condition"),
    ("padding", "x: f32[n], k: f32[r] -> y: f32[o=|n|] : "
     "y[o] = sum[r](x[o + r - 1] * k[r] where inside(o + r - 1, |n|))", "proved"),
    ("padding", "x: f32[n], k: f32[r] -> y: f32[o=|n|] : y[o] = sum[r](x[o + r - 1] * k[r])",
     "refuted"),
    ("padding", "x: f32[n] -> y: f32[n] : y[n] = x[clamp(n - 1, 0, |n| - 1)]", "proved"),
    ("padding", "x: f32[n] -> y: f32[o=4] : y[o] = x[clamp(o - 1, 0, |n| - 1)]", "size condition"),
    ("padding", "x: f32[n] -> y: f32[n] : y[n] = x[min(n + 1, |n| - 1)]", "proved"),
    ("padding", "x: f32[n] -> y: f32[n] : y[n] = x[abs(n - 1)]", "size condition"),
    ("merge", "x: f32[q=|h| * |d|], z: f32[h, d] -> y: f32[h, d] : y[h, d] = x[h * |d| + d]",
     "proved"),
    ("merge", "x: f32[q=|h| * |d|], z: f32[h, d] -> y: f32[h, d] : y[h, d] = x[h * |d| + d + 1]",
     "refuted"),
    ("merge", "x: f32[q=|h| * |d| * |e|], z: f32[h, d, e] -> y: f32[h, d, e] : "
     "y[h, d, e] = x[(h * |d| + d) * |e| + e]", "proved"),
    ("split", "A: f32[h, d] -> y: f32[q=|h| * |d|] : y[q] = A[q // |d|, q % |d|]", "proved"),
    ("split", "A: f32[h, d] -> y: f32[q=|h| * |d|] : y[q] = A[q % |h|, q // |h|]", "proved"),
    ("split", "A: f32[h, d, e] -> y: f32[q=|h| * |d| * |e|] : "
     "y[q] = A[q // (|d| * |e|), q // |e| % |d|, q % |e|]", "proved"),
    ("split", "A: f32[h, d] -> y: f32[q=|h| * |d|] : y[q] = A[q // |h|, 0 * q]", "size condition"),
    ("ceil-div", "x: f32[n] -> y: f32[t=(|n| + 3) // 4, j=4] : "
     "y[t, j] = select(4*t + j < |n|, x[4*t + j], 0)", "proved"),
    ("ceil-div", "x: f32[n] -> y: f32[t=(|n| + 3) // 4, j=4] : y[t, j] = x[4*t + j]",
     "size condition"),
    ("ceil-div", "x: f32[n], w: const i64 -> y: f32[t=(|n| + w - 1) // w, j=w] : "
     "y[t, j] = select(t*w + j < |n|, x[t*w + j], 0)", "proved"),
    ("ceil-div", "x: f32[n] -> y: f32[t=|n| // 4, j=4] : y[t, j] = x[4*t + j]", "proved"),
    ("nested //", "x: f32[d] -> y: f32[n=4 * |d|] : y[n] = x[n // 2 // 2]", "proved"),
    ("nested //", "x: f32[d] -> y: f32[n=2 * |d|] : y[n] = x[n // 3]", "proved"),
    ("nested //", "x: f32[n] -> y: f32[n] : y[n] = x[2 * (n // 2)]", "proved"),
    ("nested //", "x: f32[n] -> y: f32[n] : y[n] = x[2 * (n // 2) + 1]", "size condition"),
    ("nested //", "x: f32[g], z: f32[h] -> y: f32[h] : y[h] = x[h // (|h| // |g|)]",
     "size condition"),
    ("products", "x: f32[p=|i| * (|i| + 1) // 2], z: f32[i] -> y: f32[i, j=|i|] : "
     "y[i, j] = select(j <= i, x[i * (i + 1) // 2 + j], 0)", "proved"),
    ("products", "x: f32[p=|i| * (|i| - 1) // 2], z: f32[i] -> y: f32[i, j=|i|] : "
     "y[i, j] = select(j < i, x[i * (i - 1) // 2 + j], 0)", "proved"),
    ("products", "w: const i64, v: const i64, x: f32[1] -> y: f32[i=w * v] : "
     "y[i] = x[min(w, 1) - 1]", "size condition"),
    ("products", "w: const i64, x: f32[1] -> y: f32[i=w * w] : y[i] = x[min(w, 1) - 1]",
     "size condition"),
    ("products", "w: const i64, x: f32[1] -> y: f32[i=w] : y[i] = x[min(w, 1) - 1]", "proved"),
    ("by zero", "A: f32[n], x: f32[m], z: f32[1] -> y: f32[m] : "
     "y[m] = x[m] + z[m * |n| // |n| - m] * A[0 * m]", "size condition"),
    ("by zero", "x: f32[m] -> y: f32[m] : y[m] = x[m % 0]", "proved"),
    ("guards", "x: f32[i] -> y: f32[i] : y[i] = sum[j=|i|](x[i - j] where j <= i)", "proved"),
    ("guards", "x: f32[n] -> y: f32[n] : y[n] = select(n < 1 or n >= |n| - 1, 0, x[n + 1])",
     "proved"),
    ("guards", f"x: f32[n] -> y: f32[n] : y[n] = select({MANY}, x[n + 1], 0)", "size condition"),
    ("guards", "x: f32[n] -> y: f32[n] : y[n] = select(n != 0, x[n - 1], 0)", "proved"),
    ("guards", "x: f32[n] -> y: f32[n] : y[n] = select(n >= 1, x[n + 1], 0)", "size condition"),
    ("guards", "x: bool[n] -> y: bool[n] : y[n] = n + 1 < |n| and x[n + 1]", "proved"),
    ("data", "x: f32[n], t: i32[i] -> y: f32[i] : "
     "y[i] = select(0 <= t[i] and t[i] < |n|, x[t[i]], 0)", "proved"),
    ("data", "x: f32[n], t: i32[i] -> y: f32[i, n] : y[i, n] = x[t[i] % |n|]", "proved"),
    ("data", "x: f32[256], t: u8[i] -> y: f32[i] : y[i] = x[t[i]]", "proved"),
    ("data", "x: f32[j], z: f32[j] -> y: f32 : y = x[argmax[j](z[j])]", "proved"),
    ("data", "x: f32[n], t: i32[i] -> y: f32[i] : y[i] = x[t[i]]", "data"),
    ("data", "x: f32[n], t: i32[i] -> y: f32[i] : y[i] = select(t[i] < |n|, x[t[i]], 0)", "data"),
    ("data", "x: f32[j], z: f32[j] -> y: f32 : y = x[argmax[j](z[j] where z[j] > 0)]", "data"),
    ("data", "x: f32[2], t: i32[i] -> y: f32[i] : "
     "y[i] = select(t[i] >= 0, x[min(t[i] + 1, 1)], 0)", "data"),  # i32: the largest + 1 wraps
    ("data", "x: f32[2], t: i16[i] -> y: f32[i] : "
     "y[i] = select(t[i] >= 0, x[min(t[i] + 1, 1)], 0)", "proved"),
    ("data", "x: f32[15], t: u8[i] -> y: f32[i] : y[i] = x[t[i] & 15]", "data"),
]  # fmt: skip


@pytest.mark.parametrize(("about", "text", "expected"), OBLIGATIONS)
def test_known_obligations(about: str, text: str, expected: str) -> None:
    header, body = text.split(" : ")
    try:
        (program,) = read(f"op f({header.replace(' ->', ') ->')}\n  {body}")
    except NotationError as error:
        assert error.code == "E215"
        found = "refuted"
    else:
        open_ = "size condition" if program.conditions else "proved"
        found = "data" if program.checks else open_
    assert found == expected, about


@pytest.mark.parametrize("part", range(10))
def test_claims_hold_at_every_point_of_all_small_sizes(part: int) -> None:
    random = Random(20260 + part)
    proved = refuted = 0
    for number in range(CASES // 10):
        case = draw(random)
        found = verdict(case)
        if found is Verdict.PROVED:
            evaluated, inside, points = outcome(case)
            wrong = evaluated & ~inside
            at = int(np.argmax(wrong)) if wrong.any() else 0
            assert not wrong.any(), (
                part,
                number,
                case,
                {k: c[at] for k, c in points.columns.items()},
            )
            proved += 1
        elif found is Verdict.REFUTED:
            evaluated, inside, points = outcome(case)
            key = np.stack([points.columns[name] for name in ("n", "m", "w")])
            for size in np.unique(key[:, evaluated], axis=1).T:
                here = evaluated & (key == size[:, None]).all(axis=0)
                assert (here & ~inside).any(), (part, number, case, size)
            refuted += 1
    assert proved > CASES // 10 * 0.1 and refuted > CASES // 10 * 0.01


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x: f32[g], z: f32[h] -> y: f32[h] : y[h] = x[h // (|h| // |g|)]",
         "(|h| - 1) // (|h| // |g|) < |g|"),
        ("x: f32[n] -> y: f32[t=(|n| + 3) // 4, j=4] : y[t, j] = x[4*t + j]",
         "4*((|n| + 3) // 4) - 1 < |n|"),
        ("x: f32[n], z: f32[m] -> y: f32[m] : y[m] = x[m - |n| + 0]",
         "0 <= -|n| and |m| - |n| - 1 < |n|"),
        ("x: f32[n], z: f32[m] -> y: f32[m] : y[m] = x[m * m % 7]",
         "m*m - 7*((m*m) // 7) < |n| for all m"),
        ("x: f32[n], z: f32[m] -> y: f32[m] : y[m] = select(m > 2, x[m - 2], 0)",
         "m - 2 < |n| for all m where m > 2"),
    ],
)  # fmt: skip
def test_what_a_size_condition_needs(text: str, expected: str) -> None:
    header, body = text.split(" : ")
    (program,) = read(f"op f({header.replace(' ->', ') ->')}\n  {body}")
    assert list(requirements(program).values()) == [expected]
