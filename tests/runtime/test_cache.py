"""The cache on disk: what is loaded, what is refused, and that no failure of the disk is seen."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tensorc as tc
from tensorc.ir.strict_json import read as read_json
from tensorc.lang import read
from tensorc.runtime import cache, cache_upkeep
from tensorc.runtime.launch_json import from_json, to_json
from tests.runtime.kept import ENTRY, KEY, TEXT, compiled, entry

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("folder")


def test_a_kernel_is_found_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compiled()
    data = entry(folder).read_bytes()

    def never(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr("tensorc.compiler.run_passes", never)
    second = compiled()
    assert second.launch == first.launch and entry(folder).read_bytes() == data
    monkeypatch.undo()
    assert second.llvm == first.llvm and second.tile == first.tile


def test_the_directory_and_its_files_are_private(folder: Path) -> None:
    compiled()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert entry(folder).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "other",
    [
        TEXT.replace("+ 1", "+ 1.0"),
        TEXT.replace("+ 1", "- -1"),
        TEXT.replace("y[n] = a", "y[n] = (1 * a)"),
    ],
)
def test_another_program_is_another_kernel(folder: Path, other: str) -> None:
    compiled()
    compiled(other)
    assert len(list(cache_upkeep.files(folder))) == 2


def test_the_key_is_of_the_program_and_not_of_its_place(folder: Path) -> None:
    compiled()
    compiled("# a comment, so that lines move\n\n" + TEXT)
    assert entry(folder)


def test_launches_survive_json() -> None:
    texts = [
        TEXT,
        "op f(x: f32[n], k: f32[r]) -> y: f32[i=(|n| - |r|) // 2 + 1]\n"
        "  t: f16[n] = x[n] ** 2\n  y[i] = sum[r](t[2 * i + r] * k[r])\n",
        "op f(x: f32[n]) -> y: f32\n  y = sum[n](softmax[n](x[n]) ** 2)\n",
    ]
    for text in texts:
        (program,) = read(text)
        launch = tc.Op("f", _Ready(program)).compile("cpu").launch  # pyright: ignore[reportArgumentType]
        assert from_json(read_json(cache.canonical(to_json(launch)))) == launch


class _Ready:
    """A program as `Op` wants it."""

    def __init__(self, program: Any) -> None:
        self.program = program

    def get(self) -> Any:
        return self.program


def empty(_: bytes) -> bytes:
    return b""


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flip(data: bytes) -> bytes:
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


def other_version(data: bytes) -> bytes:
    return data.replace(cache.MAGIC, b"tensorc kernel 0", 1)


def long_header(data: bytes) -> bytes:
    import hashlib

    rest = (1 << 60).to_bytes(8, "big") + data[56:]
    return cache.MAGIC + hashlib.sha256(rest).digest() + rest


def no_json(data: bytes) -> bytes:
    import hashlib

    rest = (3).to_bytes(8, "big") + b"{,}" + data[59:]
    return cache.MAGIC + hashlib.sha256(rest).digest() + rest


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (cut, "checksum"), (flip, "checksum"), (other_version, "version"), (empty, "fewer"),
        (long_header, "longer"), (no_json, "JSON"),
    ],
)  # fmt: skip
def test_damage_is_seen_said_once_and_set_aside(
    folder: Path, damage: Callable[[bytes], bytes], reason: str
) -> None:
    compiled()
    path = entry(folder)
    good = path.read_bytes()
    path.write_bytes(damage(good))
    with pytest.warns(tc.CacheWarning, match=f"TC-W603.*{reason}") as found:
        compiled()
        path.write_bytes(damage(good))
        compiled()
    assert len(found) == 1
    assert path.read_bytes() == good
    assert len(list((folder / "bad").iterdir())) == 2


def test_an_entry_in_the_place_of_another_is_not_run(folder: Path) -> None:
    compiled()
    first = entry(folder)
    compiled(size=7)
    (second,) = [f.path for f in cache_upkeep.files(folder) if f.path != first]
    second.write_bytes(first.read_bytes())
    with pytest.warns(tc.CacheWarning, match="made for another key"):
        compiled(size=7)


def test_damaged_files_do_not_pile_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_BAD", 3)
    for _ in range(5):
        cache.store(KEY, ENTRY)
        entry(folder).write_bytes(b"nothing")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert cache.load(KEY) is None
    assert len(list((folder / "bad").iterdir())) == 3
    assert not list(cache_upkeep.files(folder))


def test_a_clock_that_jumps_harms_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A year back, a year ahead: entries stay, and what is being written is not swept."""
    now = time.time()
    for jump in (0.0, -3e7, 3e7, 0.0):
        monkeypatch.setattr(time, "time", lambda jump=jump: now + jump)
        assert cache.store(KEY, ENTRY) and cache.load(KEY) == ENTRY
        part = folder / f"{os.getpid()}-0-{time.time_ns():x}.part"
        part.write_bytes(b"")
        cache_upkeep.sweep(folder)
        assert part.exists() or jump > 0  # a day old by this clock, whoever writes it
        part.unlink(missing_ok=True)
        cache_upkeep.prune(folder)
        assert cache.load(KEY) == ENTRY


class Failing:
    """`os` whose k-th call of those that touch the disk fails."""

    names = ("open", "read", "write", "close", "replace", "lstat", "fstat", "utime", "unlink",
             "makedirs", "listdir")  # fmt: skip

    def __init__(self, k: int, number: int) -> None:
        self.k, self.number, self.count = k, number, 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in self.names:
            return real

        def call(*args: Any, **options: Any) -> Any:
            self.count += 1
            if self.count == self.k:
                if name == "close":
                    real(*args, **options)
                raise OSError(self.number, os.strerror(self.number))
            return real(*args, **options)

        return call


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS])
def test_every_failing_call_leaves_a_right_cache(
    folder: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The k-th system call fails, for every k of a store and two loads, the second of a damaged
    file; nothing is raised, nothing half-written is left, and a clean run is right afterwards."""
    for k in range(1, 200):
        for item in folder.glob("**/*"):
            if item.is_file():
                item.unlink()
        failing = Failing(k, number)
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            patch.setattr(cache, "os", failing)
            patch.setattr(cache_upkeep, "os", failing)
            cache.store(KEY, ENTRY)
            assert cache.load(KEY) in (ENTRY, None)
            for path in folder.glob("*.kernel"):
                path.write_bytes(b"damaged")
            assert cache.load(KEY) is None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cache.load(KEY)
        assert cache.store(KEY, ENTRY) and cache.load(KEY) == ENTRY
        assert not [f for f in cache_upkeep.files(folder, ".part") if failing.k < failing.count]
        if failing.count < k:
            assert k > 15
            return
    raise AssertionError("the calls do not end")


def test_an_interrupted_write_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(cache.os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cache.store(KEY, ENTRY)
    assert list(folder.iterdir()) == []


def test_what_was_used_last_stays(folder: Path) -> None:
    for n in range(4):
        cache.store({"n": n}, ENTRY)
        os.utime(folder / cache.name_of({"n": n}), (n * 1e6, n * 1e6))
    assert cache.load({"n": 0}) == ENTRY  # used now
    size = entry_size(folder)
    assert cache_upkeep.prune(folder, 2 * size) == 2
    left = {item.path.name for item in cache_upkeep.files(folder)}
    assert left == {cache.name_of({"n": 0}), cache.name_of({"n": 3})}
    assert cache_upkeep.prune(folder, 0) == 2


def entry_size(folder: Path) -> int:
    return max(item.size for item in cache_upkeep.files(folder))


def test_what_killed_writers_left_is_swept(folder: Path) -> None:
    cache.store(KEY, ENTRY)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    old = time.time() - 2 * cache_upkeep.STALE
    names = {f"{dead.pid}-0-1.part": old, f"{os.getpid()}-0-1.part": old, f"{dead.pid}-0-2.part": 0}
    for name, used in names.items():
        (folder / name).write_bytes(b"half")
        if used:
            os.utime(folder / name, (used, used))
    assert cache_upkeep.sweep(folder) == 1
    assert {item.path.name for item in cache_upkeep.files(folder, ".part")} == set(names) - {
        f"{dead.pid}-0-1.part"
    }


def test_observers_see_the_passes_at_work(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled()
    monkeypatch.setenv("TENSORC_DUMP", str(tmp_path / "dump"))
    compiled()
    assert list((tmp_path / "dump").iterdir())
