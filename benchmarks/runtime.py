"""The measures of what people touch, beside their bars: calls, first calls, einsum, cache, memory.

    python -m benchmarks.runtime [--short]

Times are of the clock, so the machine must be quiet. `--short` does a twentieth of what counts to
thousands. Every line says what was measured, the figure and the bar; the exit code is 1 where one
is missed.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tensorc as tc

ROOT = Path(__file__).parents[1]
PLAIN = """
op f(a: f32[m, n], b: f32[m, n], c: f32[n]) -> y: f32[m, n]
  y[m, n] = a[m, n] * b[m, n] + c[n]
"""


@dataclass(frozen=True)
class Line:
    """What was measured, in words with the figure; the bar; whether it is kept (None: no bar)."""

    what: str
    figure: str
    bar: str
    kept: bool | None

    def __str__(self) -> str:
        mark = {True: "kept", False: "MISSED", None: ""}[self.kept]
        return f"{self.what:46} {self.figure:40} {self.bar:14} {mark}"


# --- calls ----------------------------------------------------------------------------------------


def per_call(call: Callable[[], object]) -> list[float]:
    """Microseconds of a warm call, in rounds of 500."""
    for _ in range(3):
        call()
    return [spent / 500 * 1e6 for spent in timeit.repeat(call, number=500, repeat=41)]


def warm_calls() -> Iterator[Line]:
    """A call with three small arrays, of all libraries that are here."""
    shapes = (16, 16), (16, 16), (16,)
    arrays: list[Any] = [np.ones(shape, np.float32) for shape in shapes]
    op = tc.loads(PLAIN).f
    for name, given, empty in libraries(arrays):
        ways: dict[str, Callable[[], object]] = {
            "": functools.partial(op, *given),
            "into(out)": functools.partial(op.into(empty), *given),
            "einsum": functools.partial(tc.einsum, "ij,ij,j->ij", *given),
        }
        for way, call in ways.items():
            if name == "jax" and way == "into(out)":
                continue  # its arrays are not written into
            rounds, barred = per_call(call), name != "jax"
            spent = statistics.median(rounds)
            yield Line(
                f"warm call, 3 small arrays: {name} {way}",
                f"{spent:.2f} us [{min(rounds):.2f}, {max(rounds):.2f}]",
                "<= 5 us" if barred else "no bar", spent <= 5 if barred else None,
            )  # fmt: skip


def libraries(arrays: Sequence[Any]) -> Iterator[tuple[str, list[Any], Any]]:
    """(name, the arrays, one to write into) of each library that is installed."""
    yield "numpy", list(arrays), np.empty_like(arrays[0])
    for name in ("torch", "jax"):
        if importlib.util.find_spec(name) is None:
            continue
        library: Any = importlib.import_module(name)
        made = library.from_numpy if name == "torch" else library.numpy.asarray
        given = [made(array.copy()) for array in arrays]
        yield name, given, made(arrays[0].copy()) if name == "torch" else np.empty_like(arrays[0])


# --- first calls ----------------------------------------------------------------------------------


def new_shapes() -> Line:
    """einsum on shapes that this process has not seen, each of a program of its own."""
    texts = ("ij,jk->ik", "ij,kj->ik", "bij,bjk->bik", "ij,j->i", "ij->j", "ijk,jl->ikl", "i,i->")
    spent: list[float] = []
    tc.einsum("ab,bc->ac", np.ones((3, 4)), np.ones((4, 5)))  # LLVM is loaded once in a process
    for n, text in enumerate(texts):
        sizes = {label: 17 + 3 * n + k for k, label in enumerate("bijkl")}
        terms = text.split("->")[0].split(",")
        given = [np.ones([sizes[c] for c in term], np.float32) for term in terms]
        start = time.perf_counter()
        tc.einsum(text, *given)
        spent.append(1e3 * (time.perf_counter() - start))
    figure = f"{statistics.median(spent):.0f} ms, at most {max(spent):.0f}"
    return Line("einsum on a new shape, warm process", figure, "<= 60 ms", max(spent) <= 60)


FIRST = """
import time, sys
import numpy as np
start = time.perf_counter()
import tensorc as tc
imported = time.perf_counter()
a = np.ones((33, 65), np.float32)
tc.einsum("ij,kj->ik", a, a)
print(imported - start, time.perf_counter() - start)
"""


def python(code: str, folder: str, *arguments: str, **more: str) -> subprocess.Popen[str]:
    """Code in a process of its own, with a cache."""
    env = {**os.environ, "TENSORC_CACHE_DIR": folder, "PYTHONPATH": str(ROOT), **more}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    """What it printed. Raises where it failed."""
    out, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{process.args} ended with {process.returncode}")
    return out


def first_calls() -> Iterator[Line]:
    """In new processes, NumPy being imported: with an empty cache and with a full one."""
    found: dict[str, list[float]] = {"empty": [], "full": []}
    for _ in range(7):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("empty", "full"):
                _, total = map(float, said(python(FIRST, folder)).split())
                found[name].append(total)
    for name, bar in (("empty", 0.5), ("full", 0.3)):
        middle = statistics.median(found[name])
        figure = f"{middle:.2f} s [{min(found[name]):.2f}, {max(found[name]):.2f}]"
        what = f"import and first einsum, new process, {name} cache"
        yield Line(what, figure, f"<= {bar} s", middle <= bar)


# --- threads, processes, orders -------------------------------------------------------------------


def threads() -> Line:
    """Eight threads that call a new operator at once."""
    op = tc.loads("op f(x: f32[n]) -> y: f32[n]\n  y[n] = exp(x[n]) * 3\n").f
    x, results = np.linspace(0, 1, 1000, dtype=np.float32), dict[int, bytes]()
    ready = threading.Barrier(8)

    def call(number: int) -> None:
        ready.wait()
        results[number] = op(x).tobytes()

    workers = [threading.Thread(target=call, args=(n,)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    different = len(set(results.values()))
    kernels = len(op(x).tobytes()) and len(results)
    figure = f"{kernels} results, {different} different"
    return Line("8 threads, one kernel", figure, "1 result", (kernels, different) == (8, 1))


MANY = """
import hashlib, sys
import numpy as np, tensorc as tc
text = '''
op a(x: f32[m, n]) -> y: f32[m]
  y[m] = sum[n](softmax[n](x[m, n]) * x[m, n])
op b(x: f32[m, k], y: f32[k, n]) -> z: f32[m, n]
  z[m, n] = sum[k](x[m, k] * y[k, n])
op c(x: f64[m, n]) -> y: f64[n]
  y[n] = max[m](x[m, n] - mean[m](x[m, n]))
'''
ops = tc.loads(text)
x = np.arange(35, dtype=np.float32).reshape(5, 7) / 7
calls = {"a": lambda: ops.a(x), "b": lambda: ops.b(x, x.T), "c": lambda: ops.c(x.astype(float))}
digest = {}
for name in sys.argv[1]:
    made = hashlib.sha256(calls[name]().tobytes())
    made.update(getattr(ops, name).compile(sizes={"m": 5}).llvm.encode())
    digest[name] = made.hexdigest()
print(*(digest[name] for name in "abc"))
"""


def kept_in(folder: str) -> str:
    """A digest of the cache's entries: names, which are digests of keys, and bytes."""
    found = hashlib.sha256()
    for path in sorted(Path(folder).glob("*.kernel")):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()


def processes() -> Line:
    """Eight processes at once on one empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = {said(one) for one in [python(MANY, folder, "abc") for _ in range(8)]}
        names = [path.name for path in Path(folder).iterdir()]
        left = [name for name in names if not name.endswith(".kernel") and name != "tidied"]
    figure = f"{len(outputs)} different, left behind: {', '.join(left) or 'nothing'}"
    return Line("8 processes, one cache", figure, "1 result", len(outputs) == 1 and not left)


def orders() -> Line:
    """Two orders, two hash seeds, an empty cache and a full one, alone and beside other work."""
    texts: set[str] = set()
    entries: set[str] = set()
    for order in ("abc", "cba"):
        for seed in ("1", "2"):
            with tempfile.TemporaryDirectory() as folder:
                beside = [python(MANY, "off", "abc") for _ in range(2 * (seed == "2"))]
                for _ in range(2):
                    texts.add(said(python(MANY, folder, order, PYTHONHASHSEED=seed)))
                for process in beside:
                    said(process)
                entries.add(kept_in(folder))
    figure = f"{len(texts)} text, {len(entries)} set of keys"
    right = len(texts) == len(entries) == 1
    return Line("2 orders, 2 hash seeds, cold and warm, loaded", figure, "1 and 1", right)


# --- campaigns ------------------------------------------------------------------------------------


def told(what: str, bar: str, *command: str, **more: str) -> Line:
    """Another command's last line, and whether it ended well."""
    env = {**os.environ, **more}
    done = subprocess.run(
        [sys.executable, *command], env=env, cwd=ROOT, capture_output=True, text=True
    )
    lines = (done.stdout or done.stderr).strip().splitlines()
    return Line(what, lines[-1] if lines else "", bar, done.returncode == 0)


def campaigns(short: bool) -> Iterator[Line]:
    """What counts to thousands."""
    part = 20 if short else 1
    profile = {} if short else {"TENSORC_PROFILE": "campaign"}
    yield told(
        f"einsum against NumPy, {150 if short else 3000} calls", "0 differ",
        "-m", "pytest", "-q", "tests/runtime/test_einsum.py", "-k", "generated", "-W", "ignore",
        TENSORC_CACHE_DIR="off", **profile,
    )  # fmt: skip
    kills = ["-m", "benchmarks.cache_kills", "--kills", str(200 // part)]
    yield told("kill -9 on the cache", "0 bad reads", *kills)
    for kind, count in (("nodes", 1_000_000), ("kernels", 10_000)):
        other = "kernels" if kind == "nodes" else "nodes"
        command = ["-m", "benchmarks.memory", f"--{kind}", str(count // part), f"--{other}", "0"]
        yield told(f"resident size after {count // part:,} {kind}", "<= 1.10", *command)


def main() -> None:
    """Print every line as it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true")
    given = parser.parse_args()
    os.environ["TENSORC_CACHE_DIR"] = "off"
    missed = 0

    def lines() -> Iterator[Line]:
        yield from warm_calls()
        yield new_shapes()
        yield from first_calls()
        yield from (threads(), processes(), orders())
        yield from campaigns(given.short)

    for line in lines():
        print(line, flush=True)
        missed += line.kept is False
    raise SystemExit(int(bool(missed)))


if __name__ == "__main__":
    main()
