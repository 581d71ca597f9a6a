"""The files of the cache: listed, swept of what killed processes left, pruned to a size.

Eviction goes by last use, which is a file's modification time: `note_use` moves it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SUFFIX, TEMPORARY = ".kernel", ".part"
LIMIT = 256 << 20  # bytes kept, unless `prune` is told otherwise
STALE = 3600.0  # seconds after which an abandoned temporary is removed
TIDY_EVERY = 3600.0  # seconds between two tidyings by programs that store kernels
NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)


def remove(path: Path) -> bool:
    """Unlink a file; whether that worked."""
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def note_use(path: Path) -> None:
    """Note the use of an entry, for `prune`; at most once an hour, failures do not matter."""
    try:
        if time.time() - os.lstat(path).st_mtime > STALE:
            os.utime(path)
    except OSError:
        pass


@dataclass(frozen=True)
class File:
    """A file of the cache: bytes, and when it was last used, in seconds since 1970."""

    path: Path
    size: int
    used: float


def files(folder: Path, suffix: str = SUFFIX) -> Iterator[File]:
    """The entries in a directory (or its temporaries), in the order of their names."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(suffix))
    except OSError:
        return
    for name in names:
        try:
            found = os.lstat(folder / name)
        except OSError:
            continue  # another process was quicker
        yield File(folder / name, found.st_size, found.st_mtime)


def sweep(folder: Path) -> int:
    """Remove what killed processes left behind; how many files that were."""
    stale = [f for f in files(folder, TEMPORARY) if time.time() - f.used > STALE]
    dead = [f for f in stale if not _alive(f.path.name) or time.time() - f.used > 24 * STALE]
    return sum(remove(item.path) for item in dead)


def _alive(name: str) -> bool:
    """Whether the writer of a temporary runs; ids come around again, so age decides in the end."""
    pid = name.partition("-")[0]
    try:
        os.kill(int(pid), 0)
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    except OSError:
        return True
    return True


def prune(folder: Path, limit: int = LIMIT) -> int:
    """Remove the entries not used for longest until at most `limit` bytes are left; how many.

    A process that has loaded an entry keeps its code in memory.
    """
    found = sorted(files(folder), key=lambda item: (item.used, item.path.name))
    total = sum(item.size for item in found)
    removed = 0
    for item in found:
        if total <= limit:
            break
        total -= item.size
        removed += remove(item.path)
    return removed


def tidy_now_and_then(folder: Path) -> None:
    """Sweep and prune, at most once an hour for all processes together."""
    stamp = folder / "tidied"
    try:
        if time.time() - os.lstat(stamp).st_mtime < TIDY_EVERY:
            return
    except FileNotFoundError:
        pass
    except OSError:
        return
    try:
        os.close(os.open(stamp, os.O_WRONLY | os.O_CREAT | NOFOLLOW, 0o600))
        os.utime(stamp)
    except OSError:
        return
    sweep(folder)
    prune(folder)
