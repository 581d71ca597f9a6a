"""The kernels of one program in a process: which sizes are fixed in them, and how many there are.

The first sizes are fixed in the first kernel. An extent that comes with a second size is an
argument of the kernel from then on; kernels tell sizes that are multiples of `BLOCK` from others,
since those need no code for a last, partial block. After `MOST` kernels, one serves all sizes.
Extents that others are divided by, and those that the caller asks for, are fixed at every size.

Which kernel serves a call may change the last bits of a float result, so it depends on the calls
before; callers who mind ask for one kernel for all sizes.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from tensorc.runtime.compiled import Compiled

MOST = 8
BLOCK = 64  # lanes of the largest tile of registers, and a multiple of all smaller ones
_LOG = logging.getLogger("tensorc")
_EVERY: weakref.WeakSet[Kernels] = weakref.WeakSet()
_NONE: Mapping[str, int] = {}


@dataclass(frozen=True)
class Sizes:
    """What a kernel knows of extents: those `static` in it, of others that they are multiples of a
    number, and `hints` at which it should be fast."""

    static: Mapping[str, int] = field(default_factory=dict[str, int])
    multiples: Mapping[str, int] = field(default_factory=dict[str, int])
    hints: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def key(self) -> tuple[frozenset[tuple[str, int]], frozenset[tuple[str, int]]]:
        """What tells kernels apart; hints do not."""
        return frozenset(self.static.items()), frozenset(self.multiples.items())


class Kernels:
    """Kernels by what they know of sizes and by layout; made once each, by one thread."""

    def __init__(self, name: str, divisors: Collection[str] = ()) -> None:
        """`divisors`: extents that others are divided by."""
        self.name, self.divisors = name, frozenset(divisors)
        self.made: dict[tuple[object, object, bool], Compiled] = {}
        self._first: dict[str, int] = {}
        self._dynamic: set[str] = set()
        self._full = False
        self.lock = threading.Lock()
        _EVERY.add(self)

    def get(
        self, extents: Mapping[str, int], layout: object, compiled: Callable[[Sizes], Compiled],
        static: Collection[str] = (), hints: Mapping[str, int] = _NONE, specialize: bool = True,
    ) -> Compiled:  # fmt: skip
        """The kernel for a call. `layout` is all else that tells kernels apart; `static`: extents
        to fix at every size; `hints`: sizes to expect instead of the first ones; without
        `specialize`, one kernel serves all sizes but those of `static`."""
        asked = {name: size for name, size in extents.items() if name in static}
        with self.lock:
            empty = 0 in extents.values()
            exact = self.made.get((Sizes(extents).key, layout, empty)) if specialize else None
            if exact is not None:
                return exact
            if empty:  # costs nothing, and what is rewritten is not for it
                sizes = Sizes(asked)
            elif specialize:
                sizes = self._sizes(extents, asked, hints)
            else:
                sizes = Sizes(asked, {}, hints)
            key = sizes.key, layout, empty
            if key not in self.made:
                self.made[key] = compiled(sizes)
            return self.made[key]

    def _sizes(
        self, extents: Mapping[str, int], asked: Mapping[str, int], hints: Mapping[str, int]
    ) -> Sizes:  # fmt: skip
        """What to fix: the extents that have had one size so far, and what has to be."""
        for name, size in extents.items():
            if self._first.setdefault(name, size) != size:
                self._dynamic.add(name)
        if len(self.made) >= MOST and not self._full:
            self._full = True
            _LOG.warning("%s: %d kernels; further ones serve all sizes", self.name, MOST)
        if self._full:
            return Sizes(asked, {}, {**self._first, **hints})
        known = {
            name: size
            for name, size in extents.items()
            if name not in self._dynamic or name in self.divisors or name in asked
        }
        multiples = {
            name: BLOCK
            for name, size in extents.items()
            if name not in known and size % BLOCK == 0
        }  # fmt: skip
        expected = {name: hints.get(name, self._first[name]) for name in extents}
        return Sizes(known, multiples, expected)


def _renew_locks() -> None:
    """In a fork, the thread that held a lock is gone."""
    for kernels in list(_EVERY):
        kernels.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
