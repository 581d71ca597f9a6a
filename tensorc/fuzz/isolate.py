"""Cases in a child process with a time limit, restarted when it dies and now and then before."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from tensorc.fuzz.case import Case, to_json
from tensorc.fuzz.oracle import Finding

SECONDS = 60.0  # a case may take
_NO_CACHE = {"TENSORC_CACHE_DIR": "off"}  # every case compiles, and none is worth keeping
RECYCLED_AFTER = 500  # cases; loaded kernels stay in memory


def _import_path() -> list[str]:
    """The child imports the tensorc that this process runs, installed or not."""
    here = str(Path(__file__).resolve().parents[2])
    return [here, *filter(None, [os.environ.get("PYTHONPATH")])]


class Isolated:
    """Examines cases one at a time in a child; use as a context manager."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._count = 0

    def __enter__(self) -> Isolated:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.stop()

    def examine(self, case: Case) -> Finding:
        """The finding; a crash or a hang of the child is a failure of the case."""
        child = self._running()
        line = json.dumps(json.loads(to_json(case))).encode() + b"\n"
        try:
            assert child.stdin is not None
            child.stdin.write(line)
            child.stdin.flush()
        except BrokenPipeError:
            return self._died()
        return self._answer(child)

    def _answer(self, child: subprocess.Popen[bytes]) -> Finding:
        assert child.stdout is not None
        with selectors.DefaultSelector() as waiting:
            waiting.register(child.stdout, selectors.EVENT_READ)
            if not waiting.select(self.seconds):
                self.stop()
                return Finding("fail", "hang", f"no answer in {self.seconds:.0f} s")
        line = child.stdout.readline()
        if not line:
            return self._died()
        fields = cast(dict[str, Any], json.loads(line))
        return Finding(str(fields["outcome"]), str(fields["signature"]), str(fields["detail"]))

    def _running(self) -> subprocess.Popen[bytes]:
        self._count += 1
        if self._count % RECYCLED_AFTER == 0:
            self.stop()
        if self._child is None:
            command = [sys.executable, "-P", "-m", "tensorc.fuzz.child"]
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(_import_path()), **_NO_CACHE},
            )  # fmt: skip
        return self._child

    def _died(self) -> Finding:
        code = self._child.wait() if self._child else 0
        self.stop()
        name = signal.Signals(-code).name if code < 0 else f"exit {code}"
        return Finding("fail", f"crash {name}", "the process running the kernel died")

    def stop(self) -> None:
        """End the child, by its id."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            for pipe in (self._child.stdin, self._child.stdout):
                if pipe is not None:
                    pipe.close()
            self._child = None
