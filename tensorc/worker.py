"""Solvers in a process of their own: a job may hang, crash or eat memory, and the caller goes on.

The parent sends (job name, data) and gets data back, both JSON in frames of an 8-byte length. The
child is started when first needed, kept warm, replaced after some jobs, killed by its id when a job
is over its time, and dies with its parent. Where it cannot start, jobs run in the caller's process
and look at the clock between their steps.

Jobs stand in a table, `JOBS` of a module: name -> function(data, step). A job calls `step()` now
and then; it raises OverLimit when the time is up.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

from tensorc.ir.strict_json import Json, canonical, read_object

Step = Callable[[], None]
Job = Callable[[Any, Step], Json]

TABLE = "tensorc.passes.jobs"
LARGEST = 64 << 20  # bytes of one frame
MEMORY = 4 << 30  # bytes of address space of the child
RECYCLED_AFTER = 200  # jobs
STARTING = 30.0  # seconds until a child has said that it is there


class JobFailed(Exception):
    """A job gave no answer. `reason`: "limit" (time), "memory", "crash", "garbage" or "error" (the
    job raised); the message says more."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


class OverLimit(Exception):
    """Raised by `step()` when a job's time is up."""


def run_here(job: Job, data: Json, seconds: float) -> Json:
    """Run a job in this process. Raises JobFailed ("limit") at the first step after the limit, or
    "error" with what the job raised."""
    end = time.monotonic() + seconds

    def step() -> None:
        if time.monotonic() > end:
            raise OverLimit

    try:
        return job(data, step)
    except OverLimit:
        raise JobFailed("limit", f"over {seconds:g} s") from None
    except MemoryError:
        raise JobFailed("memory", "no memory left") from None
    except Exception as error:
        raise JobFailed("error", f"{type(error).__name__}: {error}") from error


class Worker:
    """One child process and its jobs, one at a time. Threads wait for each other."""

    def __init__(self, table: str = TABLE, memory: int = MEMORY) -> None:
        self.table, self.memory = table, memory
        self.started = 0  # children, for tests and reports
        self._child: _Child | None = None
        self._cannot = ""
        self._lock = threading.Lock()

    def run(self, name: str, data: Json, seconds: float) -> Json:
        """The answer of a job. Raises JobFailed, KeyError for an unknown job."""
        with self._lock:
            child = self._running()
            if child is None:
                return run_here(table(self.table)[name], data, seconds)
            try:
                return child.ask(name, data, seconds)
            except BaseException as error:
                if not isinstance(error, JobFailed) or error.reason != "error":
                    self._stop()  # its state is unknown, or the caller was interrupted
                raise

    def why_in_process(self) -> str:
        """Why jobs run in this process; "" if they do not."""
        return self._cannot

    def stop(self) -> None:
        """End the child; the next job starts another."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None

    def _running(self) -> _Child | None:
        child = self._child
        if child is not None and child.parent != os.getpid():
            self._child = child = None  # we are a fork; the child is our parent's
        if child is not None and (child.jobs >= RECYCLED_AFTER or not child.alive()):
            self._stop()
            child = None
        if child is None and not self._cannot:
            try:
                self._child = child = _Child(self.table, self.memory)
                self.started += 1
            except (OSError, JobFailed) as error:
                self._cannot = str(error)
        return child


class _Child:
    """A running child, as its parent sees it."""

    def __init__(self, jobs: str, memory: int) -> None:
        self.parent, self.jobs = os.getpid(), 0
        life, self._life = os.pipe()
        here = str(Path(__file__).resolve().parents[1])
        path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-P", "-m", "tensorc.worker", jobs, str(memory), str(life)]
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                pass_fds=(life,) if os.name == "posix" else (),
            )  # fmt: skip
        except BaseException:
            os.close(self._life)
            raise
        finally:
            os.close(life)
        try:
            self._answer(time.monotonic() + STARTING)
        except BaseException:
            self.kill()
            raise

    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """End it, by its id, and wait for its end."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        os.close(self._life)

    def ask(self, name: str, data: Json, seconds: float) -> Json:
        self.jobs += 1
        frame = canonical({"id": self.jobs, "job": name, "data": data, "seconds": seconds})
        if len(frame) > LARGEST:
            raise JobFailed("error", f"a request of {len(frame)} bytes; at most {LARGEST}")
        end = time.monotonic() + seconds
        # Requests are read at once by an idle child, so this does not wait long.
        with contextlib.suppress(BrokenPipeError):
            _write(cast(BinaryIO, self.process.stdin), frame)
        found = self._answer(end + 1.0)  # a job that looks at the clock may answer by itself
        if found.get("id") != self.jobs:
            raise JobFailed("garbage", "an answer to no question")
        if found.get("reason"):
            if found["reason"] == "unknown":
                raise KeyError(name)
            raise JobFailed(str(found["reason"]), str(found.get("detail")))
        return found.get("value")

    def _answer(self, end: float) -> dict[str, Any]:
        length = int.from_bytes(self._bytes(8, end), "big")
        if length > LARGEST:
            raise JobFailed("garbage", f"an answer of {length} bytes; at most {LARGEST}")
        try:
            return read_object(self._bytes(length, end), LARGEST)
        except ValueError as error:
            raise JobFailed("garbage", f"an answer that is no JSON object: {error}") from None

    def _bytes(self, count: int, end: float) -> bytes:
        """Exactly `count` bytes, before the clock shows `end`."""
        assert self.process.stdout is not None
        handle, parts = self.process.stdout.fileno(), list[bytes]()
        with selectors.DefaultSelector() as waiting:
            waiting.register(handle, selectors.EVENT_READ)
            while count:
                if not waiting.select(max(0.0, end - time.monotonic())):
                    raise JobFailed("limit", "no answer in time; the process was killed")
                part = os.read(handle, min(count, 1 << 20))
                if not part:
                    raise JobFailed("crash", self._end())
                parts.append(part)
                count -= len(part)
        return b"".join(parts)

    def _end(self) -> str:
        """How the child ended, and the most memory that it has had."""
        process = self.process
        if process.returncode is None and hasattr(os, "wait4"):
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            unit = 1 << 10 if sys.platform == "darwin" else 1  # KiB, but bytes on macOS
            most = f", at most {usage.ru_maxrss // unit // 1024} MiB of memory"
        else:
            process.wait()
            most = ""
        code = process.returncode or 0
        return (signal.Signals(-code).name if code < 0 else f"exit code {code}") + most


def table(name: str) -> Mapping[str, Job]:
    """The jobs of a module."""
    return cast("Mapping[str, Job]", importlib.import_module(name).JOBS)


_SHARED: dict[str, Worker] = {}
_SHARING = threading.Lock()


def shared() -> Worker:
    """The process's one worker, ended with the process."""
    with _SHARING:
        if "worker" not in _SHARED:
            _SHARED["worker"] = Worker()
            atexit.register(_SHARED["worker"].stop)
        return _SHARED["worker"]


def run(name: str, data: Json, seconds: float) -> Json:
    """The answer of a job of the passes, from the process's one worker. Raises JobFailed."""
    return shared().run(name, data, seconds)


def _write(pipe: BinaryIO, frame: bytes) -> None:
    pipe.write(len(frame).to_bytes(8, "big") + frame)
    pipe.flush()


def main(arguments: list[str]) -> None:
    """The child: answer jobs until the parent closes the pipe."""
    jobs, memory, life = arguments
    _die_with(int(life))
    _limit(int(memory))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C ends
    # What a job prints must not stand between two frames.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    questions = sys.stdin.buffer
    _write(answers, canonical({"ready": True}))
    while len(head := questions.read(8)) == 8:
        request = read_object(questions.read(int.from_bytes(head, "big")), LARGEST)
        _write(answers, _done(table(jobs), request))


def _done(jobs: Mapping[str, Job], request: dict[str, Any]) -> bytes:
    answer: dict[str, Json] = {"id": request["id"]}
    if request["job"] not in jobs:
        return canonical({**answer, "reason": "unknown"})
    try:
        value = run_here(jobs[request["job"]], request["data"], request["seconds"])
        return canonical({**answer, "value": value})
    except JobFailed as failed:
        return canonical({**answer, "reason": failed.reason, "detail": failed.detail})
    except (TypeError, ValueError) as error:
        return canonical({**answer, "reason": "error", "detail": f"no JSON: {error}"})


def _die_with(life: int) -> None:
    """End when the parent does, also in the middle of a solver: the pipe `life` is never written,
    and its closing is a signal whose default is death. Elsewhere the end of stdin must do."""
    try:
        import fcntl

        fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
        waiting = selectors.DefaultSelector()
        waiting.register(life, selectors.EVENT_READ)
        if waiting.select(0):  # it was closed before we listened
            os._exit(1)
    except (ImportError, AttributeError, OSError):
        return


def _limit(memory: int) -> None:
    try:
        import resource
    except ImportError:  # not on this system; the time limit stays
        return
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    bound = memory if most == resource.RLIM_INFINITY else min(memory, most)
    resource.setrlimit(resource.RLIMIT_AS, (bound, most))


if __name__ == "__main__":
    main(sys.argv[1:])
