"""Where a prepared call may run: this CPU, the CUDA emulator, or the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from tensorc.errors import Unavailable
from tensorc.prepare import Prepared, run_prepared

Array = npt.NDArray[Any]
DEVICES = ("cpu", "emulator", "interpreter")


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

    Unavailable: another device. KernelError: the emulator's report on a kernel. OutOfRange: a
    subscript that holds data leaves its tensor.
    """
    known(device)
    if device != "emulator":
        return run_prepared(call, device, into)
    from tensorc import emulated

    found = emulated.run(call, arch)
    for name, target in (into or {}).items():
        target[...] = found[name]
    return {**found, **(into or {})}
