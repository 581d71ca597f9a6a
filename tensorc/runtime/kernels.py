"""The kernels of one program in a process: which sizes are fixed in them, and how many there are.

The first sizes are fixed in the first kernel. An extent that comes with a second size is an
argument of the kernel from then on. After `MOST` kernels, all extents are. Which kernel serves a
call may change the last bits of a float result, so it depends on the calls before; callers who mind
ask for one kernel for all sizes.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Mapping

from tensorc.runtime.compiled import Compiled

MOST = 8
_LOG = logging.getLogger("tensorc")
_EVERY: weakref.WeakSet[Kernels] = weakref.WeakSet()


class Kernels:
    """Kernels by the extents fixed in them and by layout; made once each, by one thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.made: dict[tuple[frozenset[tuple[str, int]], object], Compiled] = {}
        self._first: dict[str, int] = {}
        self._dynamic: set[str] = set()
        self._full = False
        self.lock = threading.Lock()
        _EVERY.add(self)

    def get(
        self, extents: Mapping[str, int], layout: object,
        compiled: Callable[[Mapping[str, int]], Compiled],
    ) -> Compiled:  # fmt: skip
        """The kernel for a call; `extents` are those that may be fixed, `layout` is all else that
        tells kernels apart."""
        with self.lock:
            exact = self.made.get((frozenset(extents.items()), layout))
            if exact is not None:
                return exact
            static = self._static(extents)
            key = (frozenset(static.items()), layout)
            if key not in self.made:
                self.made[key] = compiled(static)
            return self.made[key]

    def _static(self, extents: Mapping[str, int]) -> dict[str, int]:
        """The extents to fix: those that have had one size so far."""
        for name, size in extents.items():
            if self._first.setdefault(name, size) != size:
                self._dynamic.add(name)
        if len(self.made) >= MOST and not self._full:
            self._full = True
            _LOG.warning("%s: %d kernels; further ones serve all sizes", self.name, MOST)
        if self._full:
            return {}
        return {name: size for name, size in extents.items() if name not in self._dynamic}


def _renew_locks() -> None:
    """In a fork, the thread that held a lock is gone."""
    for kernels in list(_EVERY):
        kernels.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
