"""Golden texts for all tests: whole outputs, compared byte for byte.

`golden(name, text)` compares `text` with `tests/golden/<module>/<name>`, where <module> is the
test's file without `test_`; a name with a slash is taken from `tests/golden`. A missing file fails.
`--update-golden` writes what was computed instead. After a whole, passing run, golden files that
no test asked for fail the run (with `--update-golden` they are removed); modules with a skipped
test are left alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent / "golden"
Golden = Callable[[str, str], None]

# Every test compiles what it tests; those of the cache have directories of their own.
os.environ["TENSORC_CACHE_DIR"] = "off"

_used: set[str] = set()  # relative to ROOT
_partial: set[str] = set()  # modules of which a test was skipped
_unused: list[str] = []
_whole = True  # nothing failed or was left out


def pytest_addoption(parser: pytest.Parser) -> None:
    """The switch that writes golden files."""
    parser.addoption("--update-golden", action="store_true", help="write golden files anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares a text with its golden file: `golden("unclosed.txt", text)`."""
    module = _module(request.path.name)
    update = bool(request.config.getoption("--update-golden"))

    def compare(name: str, text: str) -> None:
        path = ROOT / name if "/" in name else ROOT / module / name
        _used.add(path.relative_to(ROOT).as_posix())
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        elif not path.exists():
            pytest.fail(f"{path} is missing; --update-golden writes it", pytrace=False)
        assert path.read_text(encoding="utf-8") == text, f"{path} differs"

    return compare


def _module(nodeid: str) -> str:
    return Path(nodeid.partition("::")[0]).stem.removeprefix("test_")


def pytest_deselected() -> None:
    """A run with -k or -m is no whole run."""
    global _whole
    _whole = False


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note failures and skipped tests; called in the parent, for every worker's tests."""
    global _whole
    _whole = _whole and not report.failed
    if report.skipped:
        _partial.add(_module(report.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect what a worker of pytest-xdist has used."""
    output: dict[str, list[str]] = getattr(node, "workeroutput", {})
    _used.update(output.get("golden", []))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a whole, passing run that left golden files unused."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["golden"] = sorted(_used)
    elif _whole and exitstatus == 0 and _everything(session.config):
        _unused.extend(_left_over())
        if session.config.getoption("--update-golden"):
            for name in _unused:
                (ROOT / name).unlink()
        elif _unused:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _everything(config: pytest.Config) -> bool:
    """Whether the run was over the whole folder of tests."""
    roots = {(config.invocation_params.dir / arg).resolve() for arg in config.args}
    return not config.getoption("collectonly") and roots == {Path(__file__).parent.resolve()}


def _left_over() -> list[str]:
    files = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return sorted(
        path.as_posix()
        for path in files
        if path.parts[0] not in _partial and path.as_posix() not in _used
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the unused golden files."""
    for name in _unused:
        terminalreporter.write_line(f"golden file that no test uses: tests/golden/{name}")
