"""A kernel that the cache keeps, and the one file that it is kept in."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tensorc.lang import read
from tensorc.prepare import prepare
from tensorc.runtime import cache, cache_upkeep
from tensorc.runtime.compiled import Compiled

TEXT = "op scale(x: f32[n], a: f32) -> y: f32[n]\n  y[n] = a * x[n] + 1\n"
KEY = {"operator": "test", "static": {"n": 3}}
ENTRY = cache.Stored({"entries": []}, b"\x7fELF code")


def compiled(text: str = TEXT, size: int = 5) -> Compiled:
    """The kernel of a program read anew."""
    (program,) = read(text)
    arrays = {"x": np.arange(size, dtype=np.float32), "a": np.float32(2)}
    call = prepare(program, arrays)
    kernel = call.compiled()
    assert kernel.run(call.arrays, call.extents)["y"].tolist() == [2 * i + 1 for i in range(size)]
    return kernel


def entry(folder: Path) -> Path:
    """The one file of the cache."""
    (path,) = [item.path for item in cache_upkeep.files(folder)]
    return path
