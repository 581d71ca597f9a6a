"""What is asked of the compiler beside a program: a machine and options that the text depends on.

Everything here is data. What is done with it stands in `tensorc.pipeline`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorc.ir.launch import Strides
from tensorc.ir.tensor import Program

REWRITE = True  # whether programs pass through the algebra unless a request says otherwise
CUTS = "cost"  # where kernels end unless a request says otherwise: see `passes.tiling.choose_plan`


@dataclass(frozen=True)
class Target:
    """What is compiled for: the machine file, lanes of 32 bits in one of its vectors, and the
    register tile in which rows share what they read: `vectors` side by side in `rows` rows.
    `product`: a GPU on whose tensor cores products are done ("": on none). `packed`: as in
    `lower.Widths`. `settled`: the tile is this one, whatever the sizes."""

    machine: str
    lanes: int
    vectors: int = 1
    rows: int = 1
    product: str = ""
    packed: bool = False
    settled: bool = False


@dataclass(frozen=True)
class Request:
    """Everything that the text of a kernel depends on, beside the program.

    `static`: extents fixed in the kernel. `multiples`: of others, the numbers that they are
    multiples of. `hints`: sizes at which costs are compared where extents are not fixed; such a
    kernel is for extents of at least 1. `strides`: of parameters that are not row-major.
    `policy`: "fast" or "strict". `rewrite`: let the algebra choose a cheaper equal program; only
    under "fast", and where `static` and `hints` have all extents. `deterministic`: nothing that
    changes a float result may be chosen by sizes or layouts. `checks`: compare subscripts that
    hold data. `verify`: see `runtime.verdict`; no text depends on it. `cuts`: where kernels end,
    "cost", "none" or "all"; on a CPU and under "fast" alone.
    """

    target: Target
    static: Mapping[str, int]
    strides: Mapping[str, Strides] = field(default_factory=dict[str, Strides])
    policy: str = "fast"
    multiples: Mapping[str, int] = field(default_factory=dict[str, int])
    hints: Mapping[str, int] = field(default_factory=dict[str, int])
    rewrite: bool = field(default_factory=lambda: REWRITE)
    deterministic: bool = False
    checks: bool = True
    verify: str = "cheap"
    cuts: str = field(default_factory=lambda: CUTS)

    def __post_init__(self) -> None:
        if self.deterministic and (self.static or self.multiples or self.hints):
            raise ValueError("a deterministic kernel serves all sizes; none is fixed in it")

    @property
    def words(self) -> str:
        """The machine and the numerics, for people."""
        words = [self.target.machine, self.policy, *["deterministic"] * self.deterministic]
        return ", ".join(words)

    @property
    def by_size(self) -> bool:
        """Whether passes may choose by sizes and layouts what changes the bits of a result."""
        return not self.deterministic


NEON = Target("neon", 4, 4, 6)


def cpu_target() -> Target:
    """This machine's vectors, from its CPU features."""
    from tensorc.libraries import llvm

    features = llvm().get_host_cpu_features()
    if features.get("avx512f"):
        return Target("avx512", 16, 4, 6)
    if features.get("avx2") and features.get("fma"):
        return Target("avx2", 8, 2, 6)
    if features.get("neon"):
        return NEON
    return Target("generic", 4, 2, 3)


def layouts(program: Program, request: Request) -> dict[str, Strides]:
    """The strides that a kernel is compiled for: those of the request, and those of the parts of
    complex arrays. On a CPU parts lie between each other; elsewhere they may have been copied."""
    from tensorc.ir.parts import part_names
    from tensorc.machine.machines import MACHINES

    between = MACHINES[request.target.machine].plain == "vector"
    found = dict(request.strides)
    memory = [item.tensor for item in (*program.parameters, *program.outputs)]
    names = part_names(program)
    for tensor in memory:
        if tensor.name in names:
            dense = (*(None,) * (len(tensor.shape) - 1), 1)[: len(tensor.shape)]
            known = found.pop(tensor.name, dense)
            steps = known if between else [0 if stride == 0 else None for stride in known]
            strides = tuple(None if stride is None else 2 * stride for stride in steps)
            found.update(dict.fromkeys(names[tensor.name], strides))
    return found
