"""`tensorc cache`: what it prints and with which code it exits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tensorc.cli import guarded, tensorc
from tensorc.runtime import cache, cache_upkeep


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with two entries."""
    monkeypatch.setenv("TENSORC_CACHE_DIR", str(tmp_path / "cache"))
    for n in range(2):
        cache.store({"operator": f"op{n}", "static": {"n": n}}, cache.Stored({}, b"code"))
    return tmp_path / "cache"


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """(exit code, standard output) of `tensorc cache ...`."""
    code = guarded(lambda: tensorc.main(["cache", *arguments], standalone_mode=False))
    return code, capsys.readouterr().out


def test_path_and_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "path") == (0, f"{folder}\n")
    code, text = said(capsys, "list")
    assert code == 0 and "op0 {'n': 0}" in text and "kernels: 2; " in text
    code, text = said(capsys, "list", "--json")
    assert [row["fault"] for row in json.loads(text)["kernels"]] == ["", ""]


def test_verify_sets_aside_what_is_damaged(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "verify") == (0, "checked: 2; damaged: 0\n")
    first, second = cache_upkeep.files(folder)
    first.path.write_bytes(second.path.read_bytes())
    code, text = said(capsys, "verify", "--json")
    assert code == 3
    assert json.loads(text)["damaged"] == {first.path.name: "it has the name of another key"}
    assert said(capsys, "verify") == (0, "checked: 1; damaged: 0\n")


def test_prune(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "prune")[1] == "removed: 0 kernels, 0 temporaries\n"
    assert said(capsys, "prune", "--max-bytes", "0")[1] == "removed: 2 kernels, 0 temporaries\n"
    assert not list(cache_upkeep.files(folder))


def test_a_cache_that_is_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TENSORC_CACHE_DIR", "off")
    assert said(capsys, "path")[0] == 2
