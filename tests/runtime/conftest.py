"""A cache of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensorc.runtime import cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; nothing was warned about yet."""
    path = tmp_path / "cache"
    monkeypatch.setenv("TENSORC_CACHE_DIR", str(path))
    monkeypatch.setattr(cache, "_warned", set[str]())
    return path
