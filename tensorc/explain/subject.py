"""What is explained: one program, and what every pass made of it on the way to one machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorc.ir.launch import Strides
from tensorc.ir.strict_json import Json
from tensorc.ir.tensor import Program
from tensorc.ir.tile import TileProgram
from tensorc.observe import State


@dataclass(frozen=True)
class Step:
    """One pass of the pipeline: the IR before it and after it, the same object if it had nothing
    to do. `killed`: why its solver was stopped; `undecided`: why what it made could not be compared
    with the program before; `stopped`: which limits ended its search; or "".
    """

    name: str
    purpose: str
    before: State
    after: State
    killed: str = ""
    undecided: str = ""
    stopped: str = ""


@dataclass(frozen=True)
class Subject:
    """A compile that has been done. `sizes`: the extents fixed in the kernel; `strides`: of
    parameters that are not row-major; `machine`: the machine file; `plain`: why kernels are not
    on tensor cores, by name."""

    program: Program
    steps: tuple[Step, ...]
    machine: str
    sizes: Mapping[str, int]
    strides: Mapping[str, Strides]
    policy: str
    deterministic: bool = False
    plain: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def tiles(self) -> TileProgram:
        """Level 2, which the last pass made."""
        last = self.steps[-1].after
        assert isinstance(last, TileProgram)
        return last


@dataclass(frozen=True)
class Section:
    """A part of a report: lines for people, the same facts as data."""

    title: str
    lines: tuple[str, ...]
    data: Json
