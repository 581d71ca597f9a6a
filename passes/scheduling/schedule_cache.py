"""Schedules kept by what they are schedules of: one file for a problem, an effort and an aim.

The key is a hash of the problem's canonical text and of everything else that the answer depends on.
What is read back is judged by the checker, so a file that was cut short or changed costs a solve
and nothing else. Answers that the clock stopped, and those of a lost solver, are not kept.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from tensorc.errors import ArgumentError
from tensorc.ir.print_schedule import print_schedule
from tensorc.ir.problem_json import problem_to_json
from tensorc.ir.read_schedule import read_schedule
from tensorc.ir.schedule import LoopProblem, Schedule
from tensorc.passes.scheduling.check_schedule import check_schedule
from tensorc.passes.scheduling.schedule import KILLED, PROVE, schedule
from tensorc.passes.scheduling.schedule_lost import LOST
from tensorc.passes.scheduling.schedule_polish import Aim
from tensorc.passes.scheduling.schedule_search import Effort

VERSION = 1
"""Raised whenever the same problem may get another schedule than before."""


def schedule_key(problem: LoopProblem, effort: Effort, aim: Aim) -> str:
    """The name under which the schedule is kept, in hexadecimal."""
    work = {name: value for name, value in asdict(effort).items() if name != "wall"}
    text = f"{VERSION}\n{sorted(work.items())!r}\n{aim}\n{problem_to_json(problem)}"
    return hashlib.sha256(text.encode()).hexdigest()


def cached_schedule(
    problem: LoopProblem,
    folder: Path | None,
    effort: Effort = PROVE,
    aim: Aim = "slack",
    solve: Callable[[LoopProblem, Effort, Aim], Schedule] = schedule,
) -> Schedule:
    """The schedule kept in `folder`, or the one that `solve` finds, then kept there if it may be.
    `folder` None: nothing is kept."""
    if folder is None:
        return solve(problem, effort, aim)
    path = folder / f"{schedule_key(problem, effort, aim)}.schedule"
    if (known := _kept(problem, path)) is not None:
        return known
    made = solve(problem, effort, aim)
    if not any(mark in made.certificate.note for mark in (KILLED, LOST)):
        _keep(path, print_schedule(made))
    return made


def _kept(problem: LoopProblem, path: Path) -> Schedule | None:
    try:
        made = read_schedule(path.read_text("utf-8"), path.name)
    except (OSError, UnicodeDecodeError, ArgumentError):
        return None
    return None if check_schedule(problem, made) else made


def _keep(path: Path, text: str) -> None:
    """Written beside its place and renamed, so that no reader sees a part of it."""
    try:
        path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.tmp")
        draft.write_text(text, "utf-8")
        draft.replace(path)
    except OSError:
        return  # a cache that cannot be written is no cache
