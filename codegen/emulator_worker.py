"""The emulator's worker process: started when needed, asked by lines, killed when it hangs.

A kernel that crashes or never ends takes the worker with it and nothing else. Device memory is a
file that both processes map, so it outlives a worker, and copying to it is a copy in this process.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import selectors
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any, cast

from tensorc.errors import KernelError

HEAP_BYTES = 16 << 30
HEAP_ADDRESS = 0x100000000000
"""Where the worker maps device memory: pointers that a kernel sees start here."""

GAP = 64 << 10
"""Unused bytes between two buffers."""


def _open_heap(nbytes: int) -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("tensorc-device-memory")
    else:
        fd, path = tempfile.mkstemp(prefix="tensorc-device-memory")
        os.unlink(path)
    os.ftruncate(fd, nbytes)
    return fd


class DeviceMemory:
    """Device memory of one emulator: buffers by address, 256-byte aligned, `GAP` bytes apart."""

    def __init__(self, nbytes: int = HEAP_BYTES) -> None:
        self.nbytes = nbytes
        self.fd = _open_heap(nbytes)
        self.bytes = mmap.mmap(self.fd, nbytes)
        self.buffers: dict[int, int] = {}
        self.initialised: set[int] = set()
        self._free: list[tuple[int, int]] = [(GAP, nbytes - GAP)]

    def alloc(self, nbytes: int) -> int:
        """The address of `nbytes` new bytes; `MemoryError` when none are left."""
        need = -(-max(nbytes, 1) // 256) * 256 + GAP
        for i, (offset, size) in enumerate(self._free):
            if size >= need:
                self._free[i] = (offset + need, size - need)
                self.buffers[HEAP_ADDRESS + offset] = nbytes
                return HEAP_ADDRESS + offset
        raise MemoryError(f"{nbytes} bytes of device memory, of {self.nbytes} in the emulator")

    def free(self, address: int) -> None:
        """Give a buffer back; its bytes go back to the system."""
        nbytes = self.buffers.pop(address)
        self.initialised.discard(address)
        offset, size = address - HEAP_ADDRESS, -(-max(nbytes, 1) // 256) * 256 + GAP
        whole = size // mmap.PAGESIZE * mmap.PAGESIZE
        if hasattr(mmap, "MADV_REMOVE") and offset % mmap.PAGESIZE == 0 and whole:
            with contextlib.suppress(OSError):
                self.bytes.madvise(mmap.MADV_REMOVE, offset, whole)
        self._free = _joined([*self._free, (offset, size)])

    def buffer_of(self, address: int, nbytes: int) -> int:
        """The buffer that holds [address, address + nbytes); `ValueError` if none does."""
        for first, size in self.buffers.items():
            if first <= address and address + nbytes <= first + size:
                return first
        raise ValueError(f"no buffer holds {nbytes} bytes at device address {address:#x}")

    def close(self) -> None:
        self.bytes.close()
        os.close(self.fd)


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Free spans in order of address, neighbours made one."""
    out: list[tuple[int, int]] = []
    for offset, size in sorted(spans):
        if out and sum(out[-1]) == offset:
            out[-1] = (out[-1][0], out[-1][1] + size)
        else:
            out.append((offset, size))
    return out


def _readable(fd: int, seconds: float) -> bool:
    """Whether there is something to read within `seconds`."""
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        return bool(selector.select(seconds))


class Worker:
    """One worker process, started at the first request and again after a crash.

    memory_limit: bytes of address space that it may use beyond what it reserves for device memory
    and stacks.
    """

    def __init__(self, program: Path, memory: DeviceMemory, memory_limit: int = 8 << 30) -> None:
        self._program, self._memory, self._limit = program, memory, memory_limit
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""
        self._lock = threading.Lock()

    def _start(self) -> subprocess.Popen[bytes]:
        reserved = self._memory.nbytes + (2 << 30)
        command = [
            str(self._program),
            str(self._memory.fd),
            str(self._memory.nbytes),
            str(HEAP_ADDRESS),
            str(reserved + self._limit),
        ]
        self._pending = b""
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[self._memory.fd],
            close_fds=True,
        )

    def ask(self, line: str, seconds: float) -> dict[str, Any]:
        """Send one request and wait for its answer; `KernelError` on a crash or after `seconds`.

        Threads may call it; their launches run one after another.
        """
        with self._lock:
            return self._ask(line, seconds)

    def _ask(self, line: str, seconds: float) -> dict[str, Any]:
        if self._process is None or self._process.poll() is not None:
            self._process = self._start()
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
            answer = self._read_line(process.stdout.fileno(), seconds)
        except BrokenPipeError:
            answer = b""
        except BaseException:
            self.close()
            raise
        if not answer:
            code = process.wait()
            self.close()
            raise KernelError(
                f"R702: the emulator's worker ended with code {code} without an answer"
            )
        return cast("dict[str, Any]", json.loads(answer))

    def _read_line(self, fd: int, seconds: float) -> bytes:
        """One line, or nothing if the worker has ended."""
        while b"\n" not in self._pending:
            if not _readable(fd, seconds):
                raise KernelError(
                    f"R701: no answer from the kernel within {seconds:g} s in the emulator; "
                    "a loop without any tc_* call cannot be scheduled away"
                )
            part = os.read(fd, 1 << 16)
            if not part:
                return b""
            self._pending += part
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
