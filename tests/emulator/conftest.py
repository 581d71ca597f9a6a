"""Kernels of a test session are compiled into a temporary folder; only the worker stays cached."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tensorc.codegen.emulator_build import build_worker, cache_folder
from tests.requirements import has


@pytest.fixture(scope="session", autouse=True)
def kernels_in_a_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """All processes of a session share the folder, so that each kernel is compiled once."""
    if not has("cxx"):
        yield
        return
    worker = build_worker()
    before = os.environ.get("TENSORC_CACHE_DIR")
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    os.environ["TENSORC_CACHE_DIR"] = str(shared / "kernels")
    target = cache_folder() / worker.name
    if not target.exists():
        partial = target.with_suffix(f".{os.getpid()}")
        shutil.copy2(worker, partial)
        os.replace(partial, target)
    yield
    if before is None:
        del os.environ["TENSORC_CACHE_DIR"]
    else:
        os.environ["TENSORC_CACHE_DIR"] = before
