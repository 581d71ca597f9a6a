"""Plain kernels whose threads have several lanes: right at every edge and alignment, in pieces of
16 bytes where tensors are aligned, with sums that do not depend on where they lie if asked."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import tensorc as tc
from tensorc.cuda_levels import levels, request
from tensorc.devices import run
from tensorc.ir.accept import Outcome
from tensorc.prepare import Prepared, prepare
from tensorc.verify import judge, worst
from tests.codegen.tile_kernels import compiled
from tests.requirements import cuobjdump, need

CAMPAIGN = os.environ.get("TENSORC_PROFILE") == "campaign"
Array = npt.NDArray[np.generic]

OPS = tc.loads("""
op scale(x: f16[t, i], g: f32[i]) -> y: f16[t, i]
  y[t, i] = 2 * x[t, i] + g[i]

op wide(x: f64[i]) -> y: f64[i]
  y[i] = -x[i]

op narrow(x: i8[i], p: bool[i]) -> y: i8[i]
  y[i] = select(p[i], x[i], -1)

op look(E: f16[v, d], at: i32[b]) -> y: f16[b, d]
  y[b, d] = E[at[b], d]

op shifted(x: f32[i]) -> y: f32[j=|i| - 1]
  y[j] = x[j + 1] - x[j + 0]

op back(x: f32[i]) -> y: f32[i]
  y[i] = x[|i| - 1 - i]

op sums(x: f16[t, i]) -> s: f32[t], p: bool[t], m: f32[t]
  s[t] = sum[i](f32(x[t, i]))
  p[t] = any[i](x[t, i] > 3)
  m[t] = max[i](x[t, i])

op counted(x: i32[t, i]) -> s: i64[t], lo: i32[t], a: bool[t]
  s[t] = sum[i](x[t, i])
  lo[t] = min[i](x[t, i])
  a[t] = all[i](x[t, i] < 40)

op exact(x: f64[t, i]) -> s: f64[t], p: f64[t]
  s[t] = sum[i](x[t, i])
  p[t] = prod[i](1 + x[t, i] / 1024)

op columns(x: f32[k, i]) -> s: f32[i]
  s[i] = sum[k](x[k, i])
""")


def draw(dtype: str, *shape: int) -> Array:
    random = np.random.default_rng(sum(shape) + 7)
    if dtype in ("f16", "f32", "f64"):
        made = random.standard_normal(shape)
        return made.astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[dtype])
    kind = {"i8": np.int8, "i32": np.int32, "bool": np.bool_}[dtype]
    return random.integers(0, 2 if dtype == "bool" else 50, shape).astype(kind)


def right(name: str, **arrays: Array) -> Prepared:
    """The call, which the emulator ran without a report, with results within their bounds."""
    call = prepare(getattr(OPS, name).program, arrays)
    found = run(call, "emulator", "sm_80")
    verdict = worst(judge(call, found))
    assert verdict in (Outcome.PASS, Outcome.UNDECIDED), verdict
    return call


SIZES = [1, 127, 128, 129, 1023, 1025, 2056] if CAMPAIGN else [1, 129, 1025, 2056]
TOGETHER = 300_000  # elements that give a thread all of its lanes


@pytest.mark.parametrize("size", SIZES)
def test_elements_at_edges(size: int) -> None:
    need("cxx")
    rows = max(1, min(40, TOGETHER // size)) if CAMPAIGN else 3
    right("scale", x=draw("f16", rows, size), g=draw("f32", size))
    right("wide", x=draw("f64", size))
    right("narrow", x=draw("i8", size), p=draw("bool", size))
    right("look", E=draw("f16", 5, size), at=np.array([4, 0, 4], np.int32))
    right("back", x=draw("f32", size))
    if size > 1:
        right("shifted", x=draw("f32", size))


def text_of(name: str, sizes: dict[str, int]) -> str:
    return levels(getattr(OPS, name).program, request("sm_80", sizes, {})).source


def test_every_lane_of_a_thread_is_used() -> None:
    """Sizes at which threads have 8, 4 and 2 lanes, through arrays that are aligned or not."""
    need("cxx")
    rows, size = 270, 1032
    assert "u16 x_" in text_of("scale", {"t": rows, "i": size})
    assert "[8];" in text_of("scale", {"t": rows, "i": size})
    base = draw("f16", rows, size + 8)
    for first in (0, 1, 8):  # rows of whole 16 bytes; at, and beside, such an address
        right("scale", x=base[:, first : first + size], g=draw("f32", size))
    right("scale", x=draw("f16", rows, size + 1)[:, :size], g=draw("f32", size))
    right("sums", x=base[:3, 1 : size + 1])
    right("columns", x=draw("f32", 40, 1030))


@pytest.mark.parametrize("size", [1, 130, 1025, 2048])
def test_reductions_at_edges(size: int) -> None:
    need("cxx")
    right("sums", x=draw("f16", 3, size))
    right("counted", x=draw("i32", 3, size))
    right("exact", x=draw("f64", 3, size))


def test_a_deterministic_sum_does_not_depend_on_alignment() -> None:
    need("cxx")
    base = draw("f16", 2, 3001)
    program = OPS.sums.program
    for deterministic in (True, False):
        made: list[bytes] = []
        for x in (base[:, 1:], base[:, 1:].copy(), np.asfortranarray(base[:, 1:])):
            call = prepare(program, {"x": x}, deterministic=deterministic)
            made.append(run(call, "emulator", "sm_80")["s"].tobytes())
        assert not deterministic or len(set(made)) == 1
    item = levels(program, request("sm_80", {}, {}, deterministic=True))
    assert "WIDE" not in item.source.replace("tcs_load<WIDE>", "")


def counts(cubin: Path) -> dict[str, int]:
    """How often accesses to memory stand in the code, those of 16 bytes apart."""
    tool = cuobjdump()
    assert tool is not None
    path = os.pathsep.join([str(Path(tool).parent), os.environ.get("PATH", "")])
    text = subprocess.run(
        [tool, "-sass", str(cubin)], capture_output=True, text=True, timeout=60, check=True,
        env={**os.environ, "PATH": path},
    ).stdout  # fmt: skip
    found: dict[str, int] = {}
    for name in re.findall(r"\b((?:LDG|STG)[.\w]*)", text):
        kind = name[:3] + ("128" if ".128" in name else "")
        found[kind] = found.get(kind, 0) + 1
    return found


def test_aligned_tensors_are_moved_16_bytes_at_once(tmp_path: Path) -> None:
    need("nvcc")
    need("cuobjdump")
    for name, sizes, loads in (
        ("scale", {"t": 8192, "i": 4096}, 3),
        ("look", {"v": 1000, "d": 4096, "b": 512}, 1),
    ):
        made = compiled(text_of(name, sizes), tmp_path, "sm_80")
        assert (made.spills, made.stack) == (0, 0)
        found = counts(made.cubin)
        assert found["LDG128"] == loads and found["STG128"] == 1
