"""Threads that share the pieces of one call: whoever is free takes the next one.

The caller works too and waits only for pieces that others have begun, never for a thread to become
free: calls from many threads at once, and calls in a fork, whose helpers are gone, run all the
same. An interrupted caller takes what is left without doing it and waits for the rest.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

RANGES = 4  # pieces for each thread, so that uneven ones even out
ENOUGH = 50_000.0  # nanoseconds of estimated work for each thread; waking one costs some 10,000


def available() -> int:
    """How many threads a call may use: TENSORC_THREADS, else OMP_NUM_THREADS, else the processors
    that this process may run on. ValueError: TENSORC_THREADS is no number of at least 1."""
    given = os.environ.get("TENSORC_THREADS", "")
    if given:
        if not given.isascii() or not given.isdigit() or not int(given):
            raise ValueError(f"TENSORC_THREADS={given!r} is not a number of at least 1")
        return int(given)
    others = os.environ.get("OMP_NUM_THREADS", "")
    if others.isascii() and others.isdigit() and int(others):
        return int(others)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def worth(nanoseconds: float, blocks: int, most: int) -> int:
    """How many of at most `most` threads share work of about that much time in so many blocks."""
    return max(1, min(most, blocks, int(nanoseconds / ENOUGH)))


def share(do: Callable[[int], None], pieces: int, threads: int) -> None:
    """Call `do` with every number below `pieces`, on `threads` threads. What it raises first is
    raised here, after all pieces that had begun have ended."""
    work = _Work(do, pieces)
    _help(work, threads - 1)
    try:
        work.run()
    finally:
        work.finish()
    if work.failed is not None:
        raise work.failed


class _Work:
    """The pieces of one call."""

    def __init__(self, do: Callable[[int], None], pieces: int) -> None:
        self.do, self.pieces = do, pieces
        self.failed: BaseException | None = None
        self._taken = self._done = 0
        self._lock = threading.Lock()
        self._all_done = threading.Event()

    def run(self) -> None:
        """Do pieces until none is left to take."""
        while (place := self._take()) is not None:
            try:
                self.do(place)
            finally:
                self._note(1)

    def help(self) -> None:
        """The same in a helper, which has nobody to raise to."""
        try:
            self.run()
        except BaseException as error:
            self.failed = self.failed or error

    def finish(self) -> None:
        """Take what is left so that nobody else does, and wait for what others have begun."""
        with self._lock:
            left, self._taken = self.pieces - self._taken, self.pieces
        self._note(left)
        self._all_done.wait()

    def _take(self) -> int | None:
        with self._lock:
            if self._taken == self.pieces:
                return None
            self._taken += 1
            return self._taken - 1

    def _note(self, done: int) -> None:
        with self._lock:
            self._done += done
            finished = self._done == self.pieces
        if finished:
            self._all_done.set()


class _Team:
    """The process's helpers: threads that wait for work, started when first wanted."""

    def __init__(self) -> None:
        self.waiting: SimpleQueue[_Work] = SimpleQueue()
        self.size = 0
        self.lock = threading.Lock()

    def grow(self, size: int) -> None:
        """Have at least `size` helpers, or as many as the system gives."""
        with self.lock:
            while self.size < size:
                helper = threading.Thread(target=self._help, name="tensorc", daemon=True)
                try:
                    helper.start()
                except RuntimeError:  # no more threads, or the interpreter ends
                    return
                self.size += 1

    def _help(self) -> None:
        while True:
            work = self.waiting.get()
            work.help()
            del work  # its arrays may go


_teams: list[_Team] = [_Team()]


def _help(work: _Work, wanted: int) -> None:
    team = _teams[0]
    if team.size < wanted:
        team.grow(wanted)
    for _ in range(min(wanted, team.size)):
        team.waiting.put(work)


def _alone() -> None:
    """In a fork, the helpers are gone."""
    _teams[0] = _Team()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alone)
