"""The cache among processes: shared, killed while writing, used without a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tensorc.runtime import cache, cache_upkeep

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of one's own; nothing was warned about yet."""
    path = tmp_path / "cache"
    monkeypatch.setenv("TENSORC_CACHE_DIR", str(path))
    monkeypatch.setattr(cache, "_warned", set[str]())
    return path


def python(code: str, folder: Path, **more: str) -> subprocess.Popen[str]:
    """Code in another process with this cache."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TENSORC_CACHE_DIR": str(folder), **more}
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate()
    assert process.returncode == 0
    return out


USE = """
import sys, numpy as np, tensorc as tc
x = np.arange(12, dtype=np.float32).reshape(3, 4)
assert tc.einsum("ij,kj->ik", x, x).tolist() == np.einsum("ij,kj->ik", x, x).tolist()
text = "op f(x: f32[m, n]) -> y: f32[m]\\n  y[m] = sum[n](softmax[n](x[m, n]) * x[m, n])\\n"
y = tc.loads(text).f(x)
heavy = ["egglog", "ortools", "sympy", "tensorc.codegen.llvm", "tensorc.passes.tiling.lower"]
print(float(y.sum()), sorted(set(heavy) & set(sys.modules)))
"""


def test_a_cached_kernel_needs_no_compiler(folder: Path) -> None:
    """Two hash seeds: the same keys, and the same bytes under them."""
    first = finished(python(USE, folder, PYTHONHASHSEED="1"))
    assert "lower" in first
    kept = {item.path.name: item.path.read_bytes() for item in cache_upkeep.files(folder)}
    second = finished(python(USE, folder, PYTHONHASHSEED="2"))
    assert second.split()[1:] == ["[]"] and second.split()[0] == first.split()[0]
    for item in cache_upkeep.files(folder):
        item.path.unlink()
    finished(python(USE, folder, PYTHONHASHSEED="3"))
    assert kept == {i.path.name: i.path.read_bytes() for i in cache_upkeep.files(folder)}


def test_processes_share_one_cache(folder: Path) -> None:
    outputs = [finished(p) for p in [python(USE, folder) for _ in range(processes())]]
    assert len({out.split()[0] for out in outputs}) == 1
    assert not list(cache_upkeep.files(folder, ".part"))


def processes() -> int:
    return 8 if os.environ.get("TENSORC_PROFILE") == "campaign" else 3


# A writer ends with its parent: an interrupted run of the tests leaves none behind.
WRITE = """
import os, sys
from tensorc.runtime import cache
parent = os.getppid()
seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
print("ready", flush=True)
n = 0
while os.getppid() == parent:
    n += 1
    key = {"n": n % 5}
    cache.store(key, cache.Stored({"n": n % 5}, bytes([n % 5]) * 300_000))
    found = cache.load(key)
    if found is not None and found.code != bytes([n % 5]) * 300_000:
        print("BAD", flush=True)
"""


def writers(folder: Path, rounds: int) -> Iterator[subprocess.Popen[str]]:
    """Two processes at a time that write the same five entries, one after another killed."""
    running = [python(WRITE, folder) for _ in range(2)]
    for _ in range(rounds):
        oldest = running.pop(0)
        assert oldest.stdout is not None and oldest.stdout.readline() == "ready\n"
        yield oldest
        running.append(python(WRITE, folder))
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.filterwarnings("error::tensorc.CacheWarning")
def test_writers_killed_at_any_moment(folder: Path) -> None:
    rounds = 200 if os.environ.get("TENSORC_PROFILE") == "campaign" else 20
    draw = np.random.default_rng(5)
    for process in writers(folder, rounds):
        time.sleep(float(draw.uniform(0, 0.02)))
        process.kill()
        out, _ = process.communicate()
        assert "BAD" not in out
        for n in range(5):
            found = cache.load({"n": n})  # a bad read would be a warning, hence an error
            assert found is None or found.code == bytes([n]) * 300_000
    for item in cache_upkeep.files(folder):
        assert cache.examine(item.path)[1] == ""
    assert not (folder / "bad").exists()
