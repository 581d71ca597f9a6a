"""Machine numbers for the emulator's virtual time, and what that time leaves out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from typing import SupportsFloat

KEYS = {
    "copy_latency": "cost.copy_latency",
    "copy_bytes": "rate.copy",
    "mma_f16": "rate.mma_f16",
    "mma_f8": "rate.mma_f8",
    "mma_tf32": "rate.mma_tf32",
    "mma_i8": "rate.mma_i8",
    "copy_issue": "cost.copy_issue",
    "mma_issue": "cost.mma_issue",
    "mma_drain": "cost.mma_drain",
    "mbarrier": "cost.mbarrier",
    "named_barrier": "cost.named_barrier",
    "exp": "rate.exp",
}
"""The machine file's key behind each number."""

LEFT_OUT = (
    "a helper call costs 4 cycles, a plain access to shared or global memory 2; instruction issue, "
    "plain arithmetic, bank conflicts, caches and contention between multiprocessors cost nothing; "
    "each block has a multiprocessor of its own"
)


@dataclass(frozen=True)
class Rates:
    """One multiprocessor's numbers: cycles; bytes, multiply-adds or results a cycle.

    The defaults are an H100's as its machine file has them: rates published, latencies assumed.
    """

    copy_latency: float = 900
    copy_bytes: float = 64
    mma_f16: float = 2048
    mma_f8: float = 4096
    mma_tf32: float = 1024
    mma_i8: float = 4096
    copy_issue: float = 40
    mma_issue: float = 40
    mma_drain: float = 60
    mbarrier: float = 90
    named_barrier: float = 30
    exp: float = 16

    @classmethod
    def of(cls, number: Callable[[str], SupportsFloat]) -> Rates:
        """From a machine file: `number` gives the value of a key, as `Product.__getitem__` does."""
        return cls(**{name: float(number(key)) for name, key in KEYS.items()})

    def request(self) -> str:
        return ",".join(f"{value:g}" for value in astuple(self))

    def assumptions(self) -> str:
        """What a virtual time rests on, for printing beside it."""
        numbers = ", ".join(f"{f.name} {getattr(self, f.name):g}" for f in fields(self))
        return (
            f"virtual time, an aid for ordering schedules and no prediction: {numbers}; {LEFT_OUT}"
        )
