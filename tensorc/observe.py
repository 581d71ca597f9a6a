"""A program at any level: as text, its faults, and the switches that show the passes at work.

TENSORC_DUMP=dir writes the IR after each pass there, TENSORC_PRINT=pass,... prints it on stderr,
TENSORC_STOP_AFTER=pass ends the process's work there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tensorc.ir.tensor import Program

if TYPE_CHECKING:
    from tensorc.ir.tile import TileProgram

State: TypeAlias = "Program | TileProgram"


def verify(state: State) -> Sequence[str]:
    """The faults that the level's verifier finds."""
    if isinstance(state, Program):
        from tensorc.ir.verify_tensor import verify as verify_tensor

        # Conditions and checks speak of accesses as the user wrote them; passes rewrite those.
        return verify_tensor(state, accesses=False)
    from tensorc.ir.verify_tile import verify as verify_tile
    from tensorc.machine.verify_uses import verify as verify_uses

    return [*verify_tile(state), *verify_uses(state)]


def show(state: State) -> str:
    """The IR as text."""
    if isinstance(state, Program):
        from tensorc.ir.print_tensor import show_program

        return show_program(state)
    from tensorc.ir.print_tile import show as show_tile

    return show_tile(state)


def observe(number: int, name: str, state: State) -> None:
    """Print, write or stop after the pass `name`, as the environment asks."""
    wanted = os.environ.get("TENSORC_PRINT", "").split(",")
    if name in wanted or "all" in wanted:
        print(f"--- {name}\n{show(state)}", file=sys.stderr)
    if folder := os.environ.get("TENSORC_DUMP"):
        write_text(Path(folder) / f"{number:02d}-{name}.txt", show(state))
    if name == os.environ.get("TENSORC_STOP_AFTER"):
        raise SystemExit(0)


def write_text(path: Path, text: str) -> None:
    """Write a whole file or nothing: a temporary beside it, then one rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(text)
    part.replace(path)


def observed() -> bool:
    """Whether somebody wants to see the passes at work."""
    return any(os.environ.get(f"TENSORC_{name}") for name in ("DUMP", "PRINT", "STOP_AFTER"))
