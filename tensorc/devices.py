"""Where a prepared call may run: this CPU, the CUDA emulator, or the interpreter."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from tensorc.compiler import Prepared, run_prepared
from tensorc.errors import Unavailable

Array = npt.NDArray[Any]
DEVICES = ("cpu", "emulator", "interpreter")


def run(call: Prepared, device: str = "cpu", arch: str = "sm_90a") -> dict[str, Array]:
    """Fresh outputs by name. `arch` is what the emulator emulates.

    Unavailable: another device. KernelError: the emulator's report on a kernel. OutOfRange: a
    subscript that holds data leaves its tensor.
    """
    if device not in DEVICES:
        *most, last = DEVICES
        raise Unavailable(f"device {device!r}: this version runs on {', '.join(most)} and {last}")
    if device == "emulator":
        from tensorc import emulated

        return emulated.run(call, arch)
    return run_prepared(call, device)
