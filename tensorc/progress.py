"""Say that something takes a while: on a terminal, or in a notebook, and nowhere else.

What is quick says nothing. The line is gone when the work is done.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Generator
from typing import Any

DELAY = 1.0  # seconds before anything is said

Show = Callable[[str], None]


@contextlib.contextmanager
def progress(what: str) -> Generator[None, None, None]:
    """While the body runs longer than `DELAY`, `what` is to be seen; "" ends it."""
    show = _place()
    if show is None:
        yield
        return
    shown = threading.Lock()  # whoever holds it writes; held for good when the body has ended
    said: list[str] = []

    def say() -> None:
        if shown.acquire(blocking=False):
            show(what)
            said.append(what)
            shown.release()

    timer = threading.Timer(DELAY, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        shown.acquire()
        if said:
            show("")


def _place() -> Show | None:
    """Where a line can be written and taken away again."""
    notebook = _notebook()
    if notebook is not None:
        return notebook
    if sys.stderr is not None and sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison]
        return _terminal
    return None


def _terminal(text: str) -> None:
    """One line, over what was there before; the cursor stays at its start."""
    with contextlib.suppress(OSError, ValueError):  # it was closed
        sys.stderr.write(f"\r\x1b[2K{text}")
        sys.stderr.flush()


def _notebook() -> Show | None:
    """A display of the cell that runs, where IPython runs with a kernel."""
    ipython: Any = sys.modules.get("IPython")
    if ipython is None or not hasattr(ipython.get_ipython(), "kernel"):
        return None
    handles: list[Any] = []

    def show(text: str) -> None:
        data = {"text/plain": text}
        if handles:
            handles[0].update(data, raw=True)
        else:
            handles.append(ipython.display.display(data, raw=True, display_id=True))

    return show
