"""CUDA C++ to PTX or to a cubin, by NVRTC or by nvcc; neither needs a GPU.

NVRTC compiles in this process and is called with our own options: what CuPy adds by itself flushes
denormals and drops the `a` of `sm_90a`. nvcc is the second way. What ptxas says of each kernel
(registers, spills, stack, synchronisation that it added) is read from its log.

Nothing here knows what a source computes, or keeps what it compiled: the cache does.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources as package_files
from pathlib import Path
from typing import Any

from tensorc.errors import BrokenInvariant, Unavailable
from tensorc.libraries import library

LIMIT = 300  # seconds for one call of nvcc, which is killed then
_OPTIONS = ("-std=c++17", "--fmad=true")
_INSTALL = "pip install 'tensorc[cuda]' for NVRTC, or install the CUDA toolkit for nvcc"
# Compute capability to the architecture whose code runs there.
CAPABILITIES = {
    (8, 0): "sm_80", (8, 6): "sm_86", (8, 7): "sm_80", (8, 9): "sm_89", (9, 0): "sm_90a",
    (12, 0): "sm_120",
}  # fmt: skip


@dataclass(frozen=True)
class Resources:
    """What ptxas says of one kernel: registers a thread, and bytes of stack and spills."""

    kernel: str
    registers: int
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    shared: int = 0
    barriers: int = 0


@dataclass(frozen=True)
class Image:
    """A compiled source. `data`: a cubin, or PTX text; `tool`: what compiled it, with its version;
    `log`: what it said."""

    data: bytes
    tool: str
    log: str

    @property
    def resources(self) -> dict[str, Resources]:
        """By kernel; empty for PTX, which has no registers yet."""
        return read_resources(self.log)

    @property
    def repairs(self) -> list[str]:
        """Lines of the log in which ptxas says that it added or moved synchronisation (C75xx)."""
        return [line for line in self.log.splitlines() if re.search(r"\bC75\d\d\b", line)]


def build(source: str, arch: str, kind: str = "cubin", tool: str | None = None) -> Image:
    """Compile a source that includes our device headers.

    `arch`: such as "sm_90a". `kind`: "cubin" or "ptx". `tool`: "nvrtc" or "nvcc"; by default the
    first of them that is here. Unavailable: neither is. BrokenInvariant: the source does not
    compile, with the compiler's words.
    """
    if kind not in ("cubin", "ptx"):
        raise ValueError(f"kind={kind!r}: there are cubin and ptx")
    match tool or _first_tool():
        case "nvrtc":
            return _by_nvrtc(source, arch, kind)
        case "nvcc":
            return _by_nvcc(source, arch, kind)
        case other:
            raise ValueError(f"tool={other!r}: there are nvrtc and nvcc")


def version() -> str:
    """The tool that `build` takes here and its version, for keys of caches. Raises Unavailable."""
    return _nvrtc_version() if _first_tool() == "nvrtc" else _nvcc_version()


@functools.cache
def _first_tool() -> str:
    try:
        _nvrtc_version()
        return "nvrtc"
    except Unavailable:
        if shutil.which("nvcc"):
            return "nvcc"
    raise Unavailable(f"no compiler for CUDA here: {_INSTALL}")


def _nvrtc() -> Any:
    return library("cupy.cuda", "'tensorc[cuda]'").nvrtc


@functools.cache
def _nvrtc_version() -> str:
    nvrtc = _nvrtc()
    try:
        return "nvrtc {}.{}".format(*nvrtc.getVersion())
    except Exception as error:  # CuPy finds the library at the first call, and not everywhere
        raise Unavailable(f"NVRTC cannot be loaded ({error}); {_INSTALL}") from error


@functools.cache
def headers() -> Mapping[str, str]:
    """Our device headers by the names under which sources include them."""
    folder = package_files.files("tensorc.codegen")
    found = (item for item in folder.iterdir() if item.name.endswith((".cuh", "_helpers.h")))
    return {item.name: item.read_text("utf-8") for item in found}


def _by_nvrtc(source: str, arch: str, kind: str) -> Image:
    nvrtc, tool = _nvrtc(), _nvrtc_version()
    texts = headers()
    program = nvrtc.createProgram(
        source, "kernel.cu", [text.encode() for text in texts.values()],
        [name.encode() for name in texts],
    )  # fmt: skip
    try:
        nvrtc.compileProgram(program, [*_OPTIONS, f"-arch={arch}", "--ptxas-options=-v"])
        log = nvrtc.getProgramLog(program)
        # CuPy strips the last byte of an image, as if it were the end of a C string.
        data = nvrtc.getCUBIN(program) + b"\0" if kind == "cubin" else nvrtc.getPTX(program)
    except nvrtc.NVRTCError as error:
        raise _refused(tool, arch, nvrtc.getProgramLog(program), source) from error
    finally:
        nvrtc.destroyProgram(program)
    return Image(data if isinstance(data, bytes) else data.encode(), tool, log)


@functools.cache
def _nvcc_version() -> str:
    words = _run(["nvcc", "--version"], Path.cwd()).stdout
    found = re.search(r"V(\d+\.\d+\.\d+)", words)
    return f"nvcc {found[1] if found else 'of unknown version'}"


def _by_nvcc(source: str, arch: str, kind: str) -> Image:
    if not shutil.which("nvcc"):
        raise Unavailable(f"nvcc is not on PATH: {_INSTALL}")
    with tempfile.TemporaryDirectory(prefix="tensorc-") as name:
        folder = Path(name)
        for header, text in {**headers(), "kernel.cu": source}.items():
            (folder / header).write_text(text, "utf-8")
        command = ["nvcc", *_OPTIONS, f"-arch={arch}", f"-{kind}", "-Xptxas", "-v"]
        done = _run([*command, "-o", "kernel.out", "kernel.cu"], folder)
        log = done.stdout + done.stderr
        if done.returncode:
            raise _refused(_nvcc_version(), arch, log, source)
        return Image((folder / "kernel.out").read_bytes(), _nvcc_version(), log)


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=LIMIT,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{command[0]} did not end within {LIMIT} s and was stopped") from error


def _refused(tool: str, arch: str, log: str, source: str) -> BrokenInvariant:
    return BrokenInvariant(
        f"{tool} does not compile our source for {arch}:\n{log}\n{source}\n"
        "This is a bug in tensorc; please report the program and this text."
    )


_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")


def read_resources(log: str) -> dict[str, Resources]:
    """The kernels that a log of `ptxas -v` speaks of, by their names as compiled."""
    found: dict[str, Resources] = {}
    kernel, frame = "", (0, 0, 0)
    for line in log.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            kernel, frame = match[1], (0, 0, 0)
        elif match := _STACK.search(line):
            frame = (int(match[1]), int(match[2]), int(match[3]))
        if match := _USED.search(line):
            shared, barriers = _number(line, r"(\d+) bytes smem"), _number(line, r"(\d+) barriers")
            found[kernel] = Resources(kernel, int(match[1]), *frame, shared, barriers)
    return found


def _number(line: str, pattern: str) -> int:
    found = re.search(pattern, line)
    return int(found[1]) if found else 0
