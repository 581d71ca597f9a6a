"""Progress: said late, on a terminal or in a notebook alone, and taken away again."""

from __future__ import annotations

import io
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from tensorc import progress as module
from tensorc.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(seconds: float) -> None:
    with progress("compiling f"):
        time.sleep(seconds)


def test_a_terminal_shows_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DELAY", 0.02)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    run(0.3)
    assert terminal.getvalue() == "\r\x1b[2Kcompiling f\r\x1b[2K"


def test_what_is_quick_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    run(0)
    assert terminal.getvalue() == ""


def test_a_file_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DELAY", 0.01)
    for stream in (io.StringIO(), None):
        monkeypatch.setattr(sys, "stderr", stream)
        run(0.05)
        assert stream is None or stream.getvalue() == ""


def test_an_error_passes_and_the_line_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DELAY", 0.01)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with pytest.raises(KeyError), progress("compiling f"):
        time.sleep(0.2)
        raise KeyError
    assert terminal.getvalue().endswith("\r\x1b[2K")
    terminal.close()
    run(0.1)  # a terminal that went away is no error


def test_a_notebook_shows_it_in_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through IPython's public display, of which a stand-in keeps what was shown."""
    monkeypatch.setattr(module, "DELAY", 0.01)
    seen: list[Any] = []

    def display(data: Any, raw: bool, display_id: bool) -> Any:
        assert raw and display_id
        seen.append(data["text/plain"])

        def update(data: Any, raw: bool) -> None:
            assert raw
            seen.append(data["text/plain"])

        return SimpleNamespace(update=update)

    shell = SimpleNamespace(kernel=object())
    stand_in = SimpleNamespace(
        get_ipython=lambda: shell, display=SimpleNamespace(display=display)
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "IPython", stand_in)
    run(0.2)
    assert seen == ["compiling f", ""]
    vars(shell).clear()  # IPython in a terminal
    run(0.05)
    assert seen == ["compiling f", ""]


def test_compiling_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorc as tc
    from tensorc import compiler

    monkeypatch.setattr(module, "DELAY", 0.0)
    terminal, slow = Terminal(), compiler.run_passes
    monkeypatch.setattr(sys, "stderr", terminal)

    def slower(*given: Any) -> Any:
        time.sleep(0.2)
        return slow(*given)

    monkeypatch.setattr(compiler, "run_passes", slower)
    tc.loads("op fresh(x: f32[n]) -> y: f32[n]\n  y[n] = x[n]\n").fresh.compile()
    assert "compiling fresh" in terminal.getvalue()
