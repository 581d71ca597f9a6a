"""Kill -9 on writers of the cache, at moments of chance: does anybody ever read what nobody wrote?

    python -m benchmarks.cache_kills [--kills 200] [--entries 5] [--seed 5]

Two processes write and read the same entries; one after another is killed and replaced. After each
kill all entries are read here too. A bad read is an entry with other contents than its key's, or
one that the cache itself finds damaged (it says so by a warning, which counts).
"""

from __future__ import annotations

import argparse
import functools
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tensorc.runtime import cache, cache_upkeep

WRITERS = 2
LONGEST = 0.02  # seconds from a writer's first entry to its end, at least


@functools.cache
def content(number: int) -> bytes:
    """What the entry of a number holds: 40,000 to 840,000 bytes that no other entry has."""
    return np.random.default_rng(number).bytes(40_000 + 200_000 * (number % 5))


def key(number: int) -> dict[str, cache.Json]:
    """The key of a number's entry."""
    return {"number": number}


def is_bad(number: int) -> bool | None:
    """Whether a read of the entry gives anything but its content; None: there is none."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = cache.load(key(number))
    if told:
        return True
    return None if found is None else found.code != content(number)


def write_forever(entries: int) -> None:
    """Write and read entries until the parent is gone; after each, print how many were read, and
    how many of them were bad."""
    parent, draw = os.getppid(), np.random.default_rng(os.getpid())
    reads = bad = 0
    while os.getppid() == parent:
        number = int(draw.integers(entries))
        cache.store(key(number), cache.Stored({"number": number}, content(number)))
        found = is_bad(int(draw.integers(entries)))
        reads, bad = reads + (found is not None), bad + bool(found)
        print(reads, bad, flush=True)


@dataclass
class Counts:
    """Over all kills: how many, reads that found an entry, and those of them that were bad."""

    kills: int = 0
    reads: int = 0
    bad: int = 0

    def add(self, line: str) -> None:
        """Count what a writer last said."""
        reads, bad = line.split()
        self.reads, self.bad = self.reads + int(reads), self.bad + int(bad)


def campaign(kills: int, entries: int, seed: int) -> Counts:
    """Kill that many writers, in the cache that TENSORC_CACHE_DIR names."""
    command = [sys.executable, "-m", "benchmarks.cache_kills", "--entries", str(entries), "--write"]

    def started() -> subprocess.Popen[str]:
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    counts, draw = Counts(), np.random.default_rng(seed)
    running = deque(started() for _ in range(WRITERS))
    while running:
        oldest = running.popleft()
        assert oldest.stdout is not None
        first = oldest.stdout.readline()
        time.sleep(float(draw.uniform(0, LONGEST)))
        oldest.kill()
        said, _ = oldest.communicate()
        lines = (first + said).splitlines(keepends=True)
        counts.add([line for line in lines if line.endswith("\n")][-1])
        counts.kills += 1
        for number in range(entries):
            found = is_bad(number)
            counts.reads, counts.bad = counts.reads + (found is not None), counts.bad + bool(found)
        if counts.kills + len(running) < kills:
            running.append(started())
    return counts


def main() -> None:
    """Print the counts; exit code 1 after a bad read, or if a damaged file was left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--entries", type=int, default=5)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        write_forever(given.entries)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TENSORC_CACHE_DIR"] = folder
        counts = campaign(given.kills, given.entries, given.seed)
        left = list(cache_upkeep.files(Path(folder)))
        damaged = [str(item.path) for item in left if cache.examine(item.path)[1]]
        damaged += [str(path) for path in Path(folder).glob("bad/*")]
        parts = list(cache_upkeep.files(Path(folder), cache_upkeep.TEMPORARY))
    print(
        f"{counts.kills} kills of {WRITERS} writers, {counts.reads} reads, {counts.bad} bad "
        f"(bar 0); {len(left)} entries left, {len(damaged)} files damaged or set aside; "
        f"{len(parts)} temporaries of killed writers, to be swept"
    )
    raise SystemExit(int(bool(counts.bad or damaged)))


if __name__ == "__main__":
    main()
