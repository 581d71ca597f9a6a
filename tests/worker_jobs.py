"""Jobs that behave badly, for the tests of the worker; imported by its child."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from tensorc.ir.strict_json import Json

Step = Callable[[], None]


def double(data: Any, step: Step) -> Json:
    print("a line that is no frame")
    return data * 2


def sleep(data: Any, step: Step) -> Json:
    time.sleep(data)
    return "awake"


def polite(data: Any, step: Step) -> Json:
    while True:
        time.sleep(0.01)
        step()


def crash(data: Any, step: Step) -> Json:
    os.abort()


def leave(data: Any, step: Step) -> Json:
    os._exit(7)


def hungry(data: Any, step: Step) -> Json:
    return len(bytearray(data))


def wrong(data: Any, step: Step) -> Json:
    raise ValueError("no such thing")


def no_json(data: Any, step: Step) -> Json:
    return {"a set": {1, 2}}  # pyright: ignore[reportReturnType]


def garbage(data: Any, step: Step) -> Json:
    """Write to every open file but the standard ones."""
    for handle in range(3, 64):
        try:
            os.write(handle, data.encode())
        except OSError:
            continue
    sys.stdout.flush()
    return None


def pid(data: Any, step: Step) -> Json:
    return os.getpid()


JOBS = {
    "double": double, "sleep": sleep, "polite": polite, "crash": crash, "leave": leave,
    "hungry": hungry, "wrong": wrong, "no_json": no_json, "garbage": garbage, "pid": pid,
}  # fmt: skip
