"""What commands say about pipelines: of an operator, a level-2 text or a loop problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tensorc.commands.options import choose, read_programs, static
from tensorc.errors import Infeasible
from tensorc.ir.tensor import Program
from tensorc.ir.tile import TileProgram

if TYPE_CHECKING:
    from tensorc.explain import Section
    from tensorc.passes.pipelining.scheduled import Pipelined

DEFAULT = "sm_90a"
_HELP = "GPU whose numbers are used: a100, rtx4090, h100, h200, b200 or a .toml file."
with_machine = click.option("--machine", metavar="NAME", help=_HELP)
with_proof = click.option("--prove", is_flag=True, help="Search longer for a proved schedule.")


@dataclass(frozen=True)
class Found:
    """The pipelines of one file. `program`: the operator, if the file has operators; `tiles`: level
    2, unless the file is a loop problem; `why`: why kernels are plain, by name."""

    name: str
    pipelines: tuple[Pipelined, ...]
    program: Program | None = None
    tiles: TileProgram | None = None
    why: tuple[tuple[str, str], ...] = ()

    def reason(self, item: Pipelined) -> str:
        """Why a kernel has no pipeline, in one sentence."""
        return dict(self.why).get(item.name, item.reason)


def is_text(path: str) -> bool:
    """Whether a file is a level-2 text or a loop problem, by its suffix."""
    return path.endswith((".tile", ".json"))


def find(
    file: str, name: str | None, arch: str, machine: str | None, given: dict[str, int], prove: bool,
    by_hand: str | None = None,
) -> Found:  # fmt: skip
    """The pipelines of `file`; of an operator on `arch`, of texts on what they are written for.
    `by_hand`: the path of a text's schedule."""
    if is_text(file):
        return _of_text(file, name, arch, machine, given, prove, by_hand)
    return of_program(choose(read_programs(file), name, file), arch, machine, given, prove)


def of_program(
    program: Program, arch: str, machine: str | None, given: dict[str, int], prove: bool
) -> Found:
    """The pipelines of an operator."""
    from tensorc.schedules import product_for, tiled
    from tensorc.solving import pipelines_of

    product = product_for(arch, machine)
    level2 = tiled(program, arch, static(program, given))
    made = pipelines_of(level2.program, product, prove)
    why = tuple(level2.reasons.items())
    return Found(program.name, made, program, level2.program, why)


def _of_text(
    file: str, name: str | None, arch: str, machine: str | None, given: dict[str, int], prove: bool,
    by_hand: str | None,
) -> Found:  # fmt: skip
    from tensorc.schedules import pipeline_of, product_for, read_text
    from tensorc.solving import pipelines_of

    text = read_text(file)
    if name is not None or given:
        raise click.UsageError(f"--op and --size choose in a .tc file; {file} is none")
    if not isinstance(text, TileProgram):
        assert text is not None
        if machine is not None:
            raise click.UsageError(f"{file} has its machine's numbers; leave out --machine")
        return Found(text.name, (pipeline_of(text, prove, by_hand),))
    if arch not in ("native", text.machine):
        raise click.UsageError(f"{file} is for {text.machine}; leave out --arch or give that")
    made = pipelines_of(text, product_for(text.machine, machine), prove, by_hand)
    return Found(text.name, made, None, text)


def emitted(found: Found, level: str) -> str:
    """The schedules, or the level-3 kernels, one after another. Raises Infeasible if there is
    none."""
    from tensorc.ir.print_channel import print_channel
    from tensorc.ir.print_schedule import print_schedule

    texts = list[str]()
    for item in found.pipelines:
        if level == "schedule" and item.schedule:
            texts.append(print_schedule(item.schedule))
        elif level == "channel" and item.channel:
            texts.append(print_channel(item.channel))
    if not texts:
        reasons = [f"  {item.name}: {found.reason(item)}" for item in found.pipelines]
        raise Infeasible("\n".join([f"no kernel of {found.name} has a pipeline", *reasons]))
    return "\n".join(texts)


def section(found: Found) -> Section:
    """What `explain` says of the schedules."""
    from tensorc.solving import section as said

    return said((item, found.reason(item)) for item in found.pipelines)
