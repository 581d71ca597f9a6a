"""What a test may need of the machine: skip where it is missing, fail where it was promised.

TENSORC_REQUIRE names what must be there (`nvcc,cxx,torch`): a test that needs a missing one of them
fails instead of being skipped.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tensorc.codegen.emulator_build import find_compiler
from tensorc.errors import Unavailable


def cutlass_include() -> Path | None:
    """CUTLASS's headers: $TENSORC_CUTLASS, or those of the packages nvidia-cutlass or tilelang."""
    places = [Path(os.environ.get("TENSORC_CUTLASS", "/nowhere"))]
    for package, inside in (
        ("cutlass_library", "source/include"),
        ("tilelang", "3rdparty/cutlass/include"),
    ):
        found = importlib.util.find_spec(package)
        if found and found.submodule_search_locations:
            places.append(Path(found.submodule_search_locations[0]) / inside)
    return next((place for place in places if (place / "cute/tensor.hpp").exists()), None)


def cuobjdump() -> str | None:
    """The tool, on PATH or in the wheel's folder."""
    found = shutil.which("cuobjdump")
    package = importlib.util.find_spec("nvidia")
    for place in (package.submodule_search_locations or []) if package and not found else []:
        found = shutil.which("cuobjdump", path=str(Path(place) / "cu13" / "bin"))
        if found:
            break
    return found


def _has_compiler() -> bool:
    try:
        find_compiler()
    except Unavailable:
        return False
    return True


def _has_tool(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


_PROBES: dict[str, Callable[[], bool]] = {
    "cxx": _has_compiler,
    "cutlass": lambda: cutlass_include() is not None,
    "nvcc": _has_tool("nvcc"),
    "addr2line": _has_tool("addr2line"),
    "cuobjdump": lambda: cuobjdump() is not None,
}


def has(name: str) -> bool:
    """Whether `name` is there: cxx, a tool on PATH from the table, or a Python module."""
    probe = _PROBES.get(name)
    return probe() if probe else importlib.util.find_spec(name) is not None


def need(name: str) -> None:
    """Go on if `name` is there; else skip the test, or fail it if it was promised."""
    if has(name):
        return
    if name in os.environ.get("TENSORC_REQUIRE", "").split(","):
        pytest.fail(f"{name} is missing, and TENSORC_REQUIRE promises it")
    pytest.skip(f"needs {name}")
