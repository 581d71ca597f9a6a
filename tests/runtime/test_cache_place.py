"""Where the cache lies: places and owners that are refused, and no place at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import tensorc as tc
from tensorc.runtime import cache
from tests.runtime.kept import ENTRY, KEY, compiled, entry

pytestmark = pytest.mark.usefixtures("folder")


def test_what_others_can_write_is_not_loaded(folder: Path) -> None:
    compiled()
    folder.chmod(0o770)
    with pytest.warns(tc.CacheWarning, match="TC-W601.*written by others"):
        compiled(size=6)
    folder.chmod(0o700)
    assert entry(folder)  # nothing was stored there meanwhile
    entry(folder).chmod(0o666)
    cache._warned.clear()  # pyright: ignore[reportPrivateUsage]
    with pytest.warns(tc.CacheWarning, match="TC-W601"):
        compiled()


def test_links_are_not_followed(folder: Path, tmp_path: Path) -> None:
    compiled()
    path = entry(folder)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.warns(tc.CacheWarning, match="TC-W601.*is a link"):
        compiled()
    folder.rename(tmp_path / "real")
    folder.symlink_to(tmp_path / "real")
    cache._warned.clear()  # pyright: ignore[reportPrivateUsage]
    with pytest.warns(tc.CacheWarning, match="TC-W601.*is no directory"):
        compiled()


def test_a_foreign_owner_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.warns(tc.CacheWarning, match="TC-W601.*belongs to user"):
        compiled()


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_directories_above_the_cache_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = tmp_path / "above"
    above.mkdir()
    place = above / "deep" / "cache"
    monkeypatch.setenv("TENSORC_CACHE_DIR", str(place))
    assert cache.store(KEY, ENTRY) and cache.load(KEY) == ENTRY
    above.chmod(0o777)
    with pytest.warns(tc.CacheWarning, match=r"W601.*above can be written by anybody \(mode 777\)"):
        assert cache.load(KEY) is None
    assert not cache.store(KEY, ENTRY)
    above.chmod(0o1777)  # as /tmp: nobody renames what is not theirs
    assert cache.load(KEY) == ENTRY
    above.chmod(0o775)
    assert cache.load(KEY) == ENTRY
    link = tmp_path / "link"
    link.symlink_to(above)
    monkeypatch.setenv("TENSORC_CACHE_DIR", str(link / "deep" / "cache"))
    assert cache.load(KEY) == ENTRY
    above.chmod(0o777)  # seen through the link as well
    assert cache.load(KEY) is None
    above.chmod(0o700)


@pytest.mark.skipif(os.name != "posix", reason="owners are POSIX's")
def test_a_foreign_owner_above_the_cache_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache.store(KEY, ENTRY)
    right, foreign = os.lstat, folder.parent

    def lstat(path: Any) -> os.stat_result:
        found = right(path)
        if Path(path) != foreign:
            return found
        return os.stat_result((*found[:4], os.geteuid() + 17, *found[5:]))

    monkeypatch.setattr(os, "lstat", lstat)
    with pytest.warns(tc.CacheWarning, match="W601.*belongs to user"):
        assert cache.load(KEY) is None


def test_without_a_place_the_cache_is_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TENSORC_CACHE_DIR", "relative")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.warns(tc.CacheWarning, match="TC-W604"):
        compiled()
    monkeypatch.setenv("TENSORC_CACHE_DIR", "off")
    assert cache.directory() is None


def test_too_long_a_path_is_said_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TENSORC_CACHE_DIR", str(tmp_path / ("x" * 300)))
    with pytest.warns(tc.CacheWarning, match="TC-W602") as found:
        compiled()
        compiled(size=6)
    assert len(found) == 1
