"""Finds a C++ compiler and compiles with it: the emulator's worker once, kernels when they change.

Results lie in the user's cache, named by a hash of every byte they depend on and put in place by
one rename. This module knows command lines; it does not run kernels.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from tensorc.errors import KernelError, Unavailable

HERE = Path(__file__).parent
FLAGS = ("-std=c++17", "-ffp-contract=off", "-fno-strict-aliasing", "-fwrapv")
"""Meaning of the language: no contraction to FMA, integers wrap, no aliasing by type."""

INSTALL = (
    "the emulator needs a C++ compiler and found none ($CXX, c++, clang++, g++, ziglang).\n"
    "Install one (Debian, Ubuntu: apt install g++; macOS: xcode-select --install)\n"
    "or: pip install 'tensorc[emulator]'"
)


@dataclass(frozen=True)
class Compiler:
    """A C++17 compiler: its command, and what its --version printed."""

    command: tuple[str, ...]
    version: str

    @property
    def is_clang(self) -> bool:
        return "clang" in self.version.lower() or "zig" in self.command[-1]


def _candidates() -> list[tuple[str, ...]]:
    named = tuple(os.environ.get("CXX", "").split())
    found = [(path,) for name in ("c++", "clang++", "g++") if (path := shutil.which(name))]
    zig = importlib.util.find_spec("ziglang") is not None
    return [c for c in (named, *found) if c] + (
        [(sys.executable, "-m", "ziglang", "c++")] if zig else []
    )


@functools.cache
def find_compiler() -> Compiler:
    """The first of $CXX, c++, clang++, g++ and the `emulator` extra's ziglang that answers."""
    for command in _candidates():
        try:
            answer = subprocess.run(
                [*command, "--version"], capture_output=True, text=True, timeout=60
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if answer.returncode == 0:
            return Compiler(command, answer.stdout.strip())
    raise Unavailable(INSTALL)


@functools.cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder that ends with this process."""
    return tempfile.TemporaryDirectory(prefix="tensorc-emulator-")


def program_folder() -> Path:
    """A private folder for the worker's program: in $TENSORC_CACHE_DIR or the user's cache.

    It is used even where $TENSORC_CACHE_DIR is `off`: the program belongs to the installation.
    Where it cannot be made, a folder that ends with this process.
    """
    given = os.environ.get("TENSORC_CACHE_DIR", "")
    base = (
        platformdirs.user_cache_dir("tensorc", appauthor=False) if given in ("", "off") else given
    )
    folder = Path(base).absolute() / "emulator"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return Path(_scratch().name)
    return folder if os.access(folder, os.W_OK) else Path(_scratch().name)


def cache_folder() -> Path:
    """A private folder for kernels; where $TENSORC_CACHE_DIR is `off`, until this process ends."""
    off = os.environ.get("TENSORC_CACHE_DIR") == "off"
    return Path(_scratch().name) if off else program_folder()


def device_headers() -> dict[str, str]:
    """The headers behind `#include "device.cuh"`, by name: what NVRTC must be given."""
    paths = sorted(path for path in HERE.glob("device*") if path.suffix in (".cuh", ".h"))
    return {path.name: path.read_text() for path in paths}


def _kernel_headers() -> list[str]:
    """The texts that a kernel's host build depends on."""
    mine = ("emulator_abi.h", "emulator_numbers.h", "emulator_device.h", "emulator_device_sm90.h")
    return [*device_headers().values(), *((HERE / leaf).read_text() for leaf in mine)]


@functools.cache
def _processor() -> str:
    """What -march=native depends on."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    return "".join(sorted(set(re.findall(r"(?m)^(?:model name|flags|Features)\s*:.*$", text))))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@contextlib.contextmanager
def _alone(target: Path) -> Generator[bool]:
    """Hold the lock of a target; false if it is there already, made by somebody else meanwhile."""
    with open(f"{target}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield not target.exists()


def _run(command: Sequence[str], what: str) -> None:
    answer = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if answer.returncode:
        raise KernelError(
            f"{what} does not compile for the emulator:\n{answer.stderr or answer.stdout}"
        )


def build_worker(compiler: Compiler | None = None, portable: bool = False) -> Path:
    """The worker's program; about 6 s the first time, then cached.

    portable: switch fibers with ucontext instead of the processor's own instructions.
    """
    compiler = compiler or find_compiler()
    sources = [
        path.read_text() for path in sorted(HERE.glob("emulator*")) if path.suffix in (".h", ".cpp")
    ]
    native = "-mcpu=native" if platform.machine() in ("arm64", "aarch64") else "-march=native"
    flags = [*FLAGS, native, "-w", *(["-O1", "-DEMU_PORTABLE"] if portable else ["-O3"])]
    name = "worker-" + _digest(*compiler.command, compiler.version, _processor(), *flags, *sources)
    target = program_folder() / name
    if not target.exists():
        with _alone(target) as needed, tempfile.TemporaryDirectory(dir=program_folder()) as scratch:
            if needed:
                made = Path(scratch) / "worker"
                command = [*compiler.command, *flags, "-rdynamic", "-o", str(made)]
                _run([*command, str(HERE / "emulator.cpp"), "-ldl"], "the emulator's worker")
                os.replace(made, target)
    return target


# ---- kernels ----


@dataclass(frozen=True)
class KernelText:
    """What a kernel's head says: its name, and the C++ texts of its bounds and cluster."""

    name: str
    bounds: str
    cluster: str


def _arguments(text: str, start: int) -> tuple[str, int]:
    """The text between a '(' at `start` and its ')', and the position after it."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if not depth:
            return text[start + 1 : at], at + 1
    raise KernelError("the parentheses after TC_KERNEL do not close")


def find_kernels(source: str) -> list[KernelText]:
    """The kernels of a source: every `TC_KERNEL(threads, blocks) [TC_CLUSTER(x, y, z)] name(`."""
    found: list[KernelText] = []
    for head in re.finditer(r"(?m)^\s*(?:template\s*<>\s*)?TC_KERNEL\s*(?=\()", source):
        bounds, at = _arguments(source, head.end())
        cluster = "1, 1, 1"
        if more := re.match(r"\s*TC_CLUSTER\s*(?=\()", source[at:]):
            cluster, at = _arguments(source, at + more.end())
        if name := re.match(r"\s*(\w+)\s*\(", source[at:]):
            found.append(KernelText(name.group(1), bounds, cluster))
    return found


def architecture(arch: str) -> int:
    """sm_90a -> 90."""
    match = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if not match:
        raise ValueError(f"no such architecture: {arch}; write sm_80, sm_90a, sm_100a, ...")
    return int(match.group(1))


def _translation_unit(source: str, name: str) -> str:
    exports = [
        f"TC_EMULATOR_EXPORT({k.name}, {k.bounds}, {k.cluster})" for k in find_kernels(source)
    ]
    if not exports:
        raise KernelError(f"{name} has no TC_KERNEL")
    return "\n".join([f'#line 1 "{name}"', source, '#line 1 "exports"', *exports, ""])


def build_kernel(
    source: str,
    arch: str,
    name: str = "kernel.cu",
    defines: Sequence[str] = (),
    compiler: Compiler | None = None,
) -> Path:
    """A kernel's library for the worker, from the text that nvcc would get.

    name is what reports call the source; defines are `NAME` or `NAME=VALUE`. `KernelError` with the
    compiler's text if it does not compile.
    """
    compiler = compiler or find_compiler()
    unit = _translation_unit(source, name)
    quiet = (
        ("-mllvm", "-tsan-instrument-func-entry-exit=0")
        if compiler.is_clang
        else ("--param", "tsan-instrument-func-entry-exit=0")
    )
    flags = [
        *FLAGS,
        "-O1",
        "-g1",
        "-fPIC",
        "-w",
        "-fno-exceptions",
        "-fno-rtti",
        "-fsanitize=thread",
        *quiet,
    ]
    flags += ["-DTC_EMULATOR", f"-DTC_ARCH={architecture(arch)}", *(f"-D{d}" for d in defines)]
    digest = _digest(*compiler.command, compiler.version, *flags, unit, *_kernel_headers())
    target = cache_folder() / f"kernel-{digest}.so"
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
        text, part, made = (Path(scratch) / leaf for leaf in ("unit.cpp", "unit.o", "unit.so"))
        text.write_text(unit)
        command = [*compiler.command, *flags, f"-I{HERE}", "-c", str(text), "-o", str(part)]
        _run(command, name)
        _run([*compiler.command, "-shared", "-o", str(made), str(part), "-lm"], name)
        os.replace(made, target)
    return target


def store_library(code: bytes) -> Path:
    """Where the bytes of a kernel's library lie as a file, for the worker to load."""
    target = cache_folder() / f"image-{hashlib.sha256(code).hexdigest()[:32]}.so"
    if not target.exists():
        with tempfile.NamedTemporaryFile(dir=cache_folder(), delete=False) as made:
            made.write(code)
        os.replace(made.name, target)
    return target
