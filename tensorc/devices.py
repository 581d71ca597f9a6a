"""Where a prepared call may run: this CPU, a GPU, the CUDA emulator, or the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from tensorc.errors import Unavailable
from tensorc.prepare import Prepared, run_prepared

Array = npt.NDArray[Any]
DEVICES = ("cpu", "cuda", "emulator", "interpreter")


def known(device: str) -> None:
    """Unavailable: this version does not run on that device."""
    if device not in DEVICES:
        *most, last = DEVICES
        raise Unavailable(f"device {device!r}: this version runs on {', '.join(most)} and {last}")


def run(
    call: Prepared, device: str = "cpu", arch: str = "sm_90a",
    into: Mapping[str, Array] | None = None,
) -> dict[str, Array]:  # fmt: skip
    """The outputs by name, fresh or in the arrays of `into`. `arch`: what the emulator emulates.

    Unavailable: another device, or none here. KernelError: the device's report on a kernel.
    OutOfRange: a subscript that holds data leaves its tensor.
    """
    known(device)
    if device not in ("cuda", "emulator"):
        return run_prepared(call, device, into)
    if device == "cuda":
        from tensorc import gpu

        found = gpu.run(call)
    else:
        from tensorc import emulated

        found = emulated.run(call, arch)
    for name, target in (into or {}).items():
        target[...] = found[name]
    return {**found, **(into or {})}
