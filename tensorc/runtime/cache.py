"""Kernels on disk: one checksummed file a kernel, named by the digest of its key.

    magic (16 bytes) | SHA-256 of the rest (32) | length of header (8, big-endian) | header | code

The header is JSON and repeats the whole key, so that a file put in the place of another is known
for what it is. A file appears by one rename, so readers see all of it or nothing; two writers of
one key write the same bytes. Nothing here is executed or unpickled, and no failure of the disk
reaches the caller: it is said once in a process, and the kernel is compiled in memory.

The directory belongs to the user: it is made with mode 0700, and code is loaded only from a
directory and files of one's own that nobody else can write.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import stat
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tensorc.errors import CacheWarning
from tensorc.ir.strict_json import Json, canonical, read_object
from tensorc.runtime.cache_upkeep import (
    NOFOLLOW,
    SUFFIX,
    TEMPORARY,
    note_use,
    remove,
    tidy_now_and_then,
)

MAGIC = b"tensorc kernel 1"
LARGEST = 64 << 20  # bytes of one entry
MOST_BAD = 100  # damaged files kept to be looked at
_PREFIX = len(MAGIC) + 32 + 8

_warned: set[str] = set()
_numbers = itertools.count()


@dataclass(frozen=True)
class Stored:
    """What is kept of a kernel: how to call it, as JSON, and its code."""

    about: Mapping[str, Json]
    code: bytes


class _Damaged(Exception):
    """The reason why a file is no entry."""


class _Refused(Exception):
    """The reason why a directory or file is not to be trusted."""


def directory() -> Path | None:
    """Where kernels lie: TENSORC_CACHE_DIR, or the user's cache directory; None: switched off.

    `TENSORC_CACHE_DIR=off` switches the cache off. Without a home directory it is off, with W604.
    """
    given = os.environ.get("TENSORC_CACHE_DIR", "")
    if given == "off":
        return None
    if not given:
        import platformdirs

        given = platformdirs.user_cache_dir("tensorc", appauthor=False)
    path = Path(given)
    if not path.is_absolute():
        try:
            path = Path(os.getcwd()) / path
        except OSError:
            _warn("W604", path=given)
            return None
    if "~" in path.parts:  # a home directory that could not be found
        _warn("W604", path=given)
        return None
    return path


def name_of(key: Mapping[str, Json]) -> str:
    """The file name of a key."""
    return hashlib.sha256(canonical(key)).hexdigest() + SUFFIX


def load(key: Mapping[str, Json]) -> Stored | None:
    """The entry of a key, or None. A damaged one is moved to `bad/` with a warning (W603), one
    that others could have written is left alone with a warning (W601)."""
    folder = directory()
    if folder is None:
        return None
    path = folder / name_of(key)
    try:
        _trusted(folder)
        entry = parse(_bytes(path))
        if canonical(entry[0]) != canonical(key):
            raise _Damaged("it was made for another key")
    except FileNotFoundError:
        return None
    except _Refused as reason:
        _warn("W601", path=str(reason))
        return None
    except _Damaged as reason:
        _warn("W603", path=str(path), reason=str(reason))
        set_aside(path)
        return None
    except OSError as error:
        _warn("W602", path=str(path), reason=str(error))
        return None
    note_use(path)
    return entry[1]


def examine(path: Path) -> tuple[dict[str, Any], str]:
    """(the key of a file in the cache, what is wrong with it or "")."""
    try:
        key, _ = parse(_bytes(path))
        if name_of(key) != path.name:
            return key, "it has the name of another key"
    except (_Damaged, _Refused, OSError) as reason:
        return {}, str(reason)
    return key, ""


def store(key: Mapping[str, Json], entry: Stored) -> bool:
    """Keep an entry; whether it was kept. What the disk refuses is a warning (W602)."""
    folder = directory()
    if folder is None:
        return False
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        _trusted(folder)
        _write(folder, name_of(key), serialise(key, entry))
    except _Refused as reason:
        _warn("W601", path=str(reason))
        return False
    except OSError as error:
        _warn("W602", path=str(folder), reason=str(error))
        return False
    tidy_now_and_then(folder)
    return True


def serialise(key: Mapping[str, Json], entry: Stored) -> bytes:
    """The bytes of an entry's file; the same for the same kernel."""
    header = canonical({"about": entry.about, "key": key})
    rest = len(header).to_bytes(8, "big") + header + entry.code
    return MAGIC + hashlib.sha256(rest).digest() + rest


def parse(data: bytes) -> tuple[dict[str, Any], Stored]:
    """(key, entry) of an entry's bytes. Raises _Damaged with what is wrong."""
    if len(data) < _PREFIX:
        raise _Damaged(f"it has {len(data)} bytes, fewer than any entry")
    if not data.startswith(MAGIC):
        raise _Damaged("it does not begin as an entry of this version")
    rest = data[len(MAGIC) + 32 :]
    if hashlib.sha256(rest).digest() != data[len(MAGIC) : len(MAGIC) + 32]:
        raise _Damaged("its checksum does not match")
    end = 8 + int.from_bytes(rest[:8], "big")
    if end > len(rest):
        raise _Damaged("its header is longer than the file")
    try:
        header = read_object(rest[8:end])
    except ValueError as error:
        raise _Damaged(f"its header is no JSON: {error}") from None
    key, about = header.get("key"), header.get("about")
    if not isinstance(key, dict) or not isinstance(about, dict):
        raise _Damaged("its header has no key")
    return cast("dict[str, Any]", key), Stored(cast("dict[str, Json]", about), rest[end:])


def _trusted(folder: Path) -> None:
    """Refuse a directory that is a link, somebody else's, or writable by others; or that somebody
    else could put another one in the place of."""
    _ours(os.lstat(folder), folder, stat.S_ISDIR, "directory")
    if os.name == "posix":
        for parent in (*folder.parents, *Path(os.path.realpath(folder)).parents):
            _guarded(os.lstat(parent), parent)


def _guarded(found: os.stat_result, path: Path) -> None:
    """Refuse a directory above the cache, or a link on the way, that belongs to neither the user
    nor the system, or in which anybody may rename what is not theirs."""
    known = (0, os.geteuid(), os.lstat("/").st_uid)  # in a container the system may be anybody
    if found.st_uid not in known:
        raise _Refused(
            f"{path} belongs to user {found.st_uid}, not to {os.geteuid()} or the system"
        )
    mode = 0 if stat.S_ISLNK(found.st_mode) else found.st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise _Refused(f"{path} can be written by anybody (mode {stat.S_IMODE(mode):o})")


def _ours(found: os.stat_result, path: Path, right: Callable[[int], bool], kind: str) -> None:
    if not right(found.st_mode):
        raise _Refused(f"{path} is no {kind}")
    if os.name != "posix":
        return
    if found.st_uid != os.geteuid():
        raise _Refused(f"{path} belongs to user {found.st_uid}, not to {os.geteuid()}")
    if found.st_mode & 0o022:
        raise _Refused(f"{path} can be written by others (mode {stat.S_IMODE(found.st_mode):o})")


def _bytes(path: Path) -> bytes:
    """The whole of one of our own files; links are not followed."""
    try:
        handle = os.open(path, os.O_RDONLY | NOFOLLOW | getattr(os, "O_BINARY", 0))
    except OSError as error:
        if path.is_symlink():
            raise _Refused(f"{path} is a link") from None
        raise error
    try:
        found = os.fstat(handle)
        _ours(found, path, stat.S_ISREG, "file")
        if found.st_size > LARGEST:
            raise _Damaged(f"it has {found.st_size} bytes, more than any entry")
        parts: list[bytes] = []
        while part := os.read(handle, 1 << 20):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(handle)


def _write(folder: Path, name: str, data: bytes) -> None:
    """A temporary beside the file, then one rename; nothing is left of a failure."""
    part = folder / f"{os.getpid()}-{next(_numbers)}-{time.time_ns():x}{TEMPORARY}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | getattr(os, "O_BINARY", 0)
    handle = os.open(part, flags, 0o600)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
        finally:
            os.close(handle)
        os.replace(part, folder / name)
    except BaseException:
        remove(part)
        raise


def set_aside(path: Path) -> None:
    """Move a damaged file into `bad/` beside it, or away where that is full or cannot be."""
    bad = path.parent / "bad"
    try:
        os.makedirs(bad, mode=0o700, exist_ok=True)
        _trusted(bad)
        if len(os.listdir(bad)) < MOST_BAD:
            os.replace(path, bad / f"{path.name}.{time.time_ns():x}")
            return
    except (OSError, _Refused):
        pass
    remove(path)


def _warn(code: str, **fields: str) -> None:
    """Once in a process for each code."""
    if code in _warned:
        return
    _warned.add(code)
    from tensorc.ir.diagnostics import filled

    warnings.warn(str(filled(code, None, fields)), CacheWarning, stacklevel=2)
