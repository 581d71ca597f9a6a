"""The worker: whatever a job does, its caller gets an answer or a reason, and the next job runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tensorc import worker
from tensorc.worker import JobFailed, Worker

ROOT = Path(__file__).parent.parent
TABLE = "tests.worker_jobs"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """A worker with the jobs that behave badly."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = Worker(TABLE, memory=1 << 30)
    yield made
    made.stop()


def test_answers_come_back_and_the_child_stays(here: Worker) -> None:
    assert [here.run("double", n, 30) for n in (1, 2, 3)] == [2, 4, 6]
    assert here.run("double", "é", 30) == "éé"
    assert here.run("pid", None, 30) == here.run("pid", None, 30) != os.getpid()
    assert here.started == 1 and not here.why_in_process()


@pytest.mark.parametrize(
    ("job", "data", "seconds", "reason", "detail"),
    [
        ("sleep", 60, 0.2, "limit", "killed"),
        ("polite", None, 0.1, "limit", "over 0.1 s"),
        ("crash", None, 30, "crash", "SIGABRT"),
        ("leave", None, 30, "crash", "exit code 7"),
        ("hungry", 4 << 30, 30, "memory", "no memory"),
        ("wrong", None, 30, "error", "ValueError: no such thing"),
        ("no_json", None, 30, "error", "no JSON"),
        ("garbage", "x" * 64, 30, "garbage", "bytes"),
        ("garbage", "\0" * 7 + "\x02[]", 30, "garbage", "object"),
        ("garbage", "\0" * 7 + "\x02{}", 30, "garbage", "no question"),
    ],
)  # fmt: skip
def test_a_bad_job_is_told_and_the_next_one_runs(
    here: Worker, job: str, data: object, seconds: float, reason: str, detail: str
) -> None:
    assert here.run("double", 1, 30) == 2
    with pytest.raises(JobFailed, match=detail) as caught:
        here.run(job, data, seconds)  # pyright: ignore[reportArgumentType]
    assert caught.value.reason == reason
    assert here.run("double", 4, 30) == 8


def test_unknown_jobs(here: Worker) -> None:
    with pytest.raises(KeyError):
        here.run("nothing", None, 30)


def test_a_child_is_replaced_after_some_jobs(here: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "RECYCLED_AFTER", 2)
    pids = [here.run("pid", None, 30) for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_without_a_child_jobs_run_here(here: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert here.run("pid", None, 30) == os.getpid()
    assert "/nowhere/python" in here.why_in_process()
    with pytest.raises(JobFailed, match="over 0.05 s"):
        here.run("polite", None, 0.05)
    with pytest.raises(JobFailed, match="ValueError"):
        here.run("wrong", None, 1)


def test_threads_take_turns(here: Worker) -> None:
    found: list[object] = []

    def double(n: int) -> None:
        found.append(here.run("double", n, 60))

    threads = [threading.Thread(target=double, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, found)) == sorted(str(2 * n) for n in range(8))


PARENT = f"""
import sys, threading, time
from tensorc.worker import Worker
w = Worker({TABLE!r})
print(w.run("pid", None, 30), flush=True)
threading.Thread(target=lambda: w.run("sleep", 600, 700), daemon=True).start()
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the signal of a closed pipe is Linux's")
def test_a_busy_child_dies_with_its_parent() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    time.sleep(0.3)
    parent.kill()
    parent.wait()
    for _ in range(200):
        if not _runs(child):
            return
        time.sleep(0.05)
    raise AssertionError(f"{child} still runs")


def _runs(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def test_the_shared_worker_has_the_jobs_of_the_passes() -> None:
    assert worker.shared().run("ping", {"a": [1, None]}, 30) == {"a": [1, None]}
    assert worker.shared() is worker.shared()
    worker.shared().stop()
