"""The machines by name: what `TileProgram.machine` and `--machine` call them."""

from __future__ import annotations

from collections.abc import Mapping

from tensorc.machine import ampere, cpu, hopper
from tensorc.machine.instruction import Machine

_CPUS = (cpu.AVX512, cpu.AVX2, cpu.NEON, cpu.GENERIC)
_ALL = (*_CPUS, ampere.MACHINE, ampere.ADA, hopper.MACHINE)
MACHINES: Mapping[str, Machine] = {machine.name: machine for machine in _ALL}
