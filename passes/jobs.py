"""The passes that run in the worker, by name: JSON in, JSON out.

A job calls `step()` between its steps; it raises when the time is up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensorc.ir.strict_json import Json


def _ping(data: Any, step: Callable[[], None]) -> Json:
    """The data itself: whether the worker is there."""
    step()
    return data


JOBS: Mapping[str, Callable[[Any, Callable[[], None]], Json]] = {"ping": _ping}
