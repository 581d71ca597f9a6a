"""Room for recursion: expressions may nest 200 deep, and passes walk them by calls.

Not a cure for endless recursion: the limit is still one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

FRAMES = 12_000  # for 200 levels, of which each takes up to about 30 calls in a pass

_LOCK = threading.Lock()
_inside = 0
_before = 0


@contextmanager
def deep() -> Generator[None, None, None]:
    """Raise the interpreter's recursion limit while something is compiled, by any thread."""
    global _inside, _before
    with _LOCK:
        if _inside == 0:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_before, FRAMES))
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if _inside == 0:
                sys.setrecursionlimit(_before)
