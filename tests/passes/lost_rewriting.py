"""A rewriting that is lost, in ways that the variable LOST_SOLVER names; imported by the worker."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from tensorc.ir.strict_json import Json


def saturate(data: Any, step: Callable[[], None]) -> Json:
    """No answer."""
    match os.environ["LOST_SOLVER"]:
        case "abort":
            os.abort()
        case "exit":
            os._exit(7)
        case "memory":
            return len(bytearray(1 << 40))
        case _:
            time.sleep(60)
    return None


JOBS = {"saturate": saturate}
