"""The scheduling pass in a process of its own, which may crash or be killed without harm here.

`schedule_apart` starts this module as a program, sends it the problem as JSON and reads
the schedule's text, which the checker judges here. If the child dies, is killed or takes too
long, the answer is a list schedule whose note has the reason (E404); it is not to be cached.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import cast, get_args

from tensorc.errors import Infeasible
from tensorc.ir import schedule as ir
from tensorc.ir.print_schedule import print_schedule
from tensorc.ir.problem_json import problem_from_json, problem_to_json
from tensorc.ir.read_schedule import read_schedule
from tensorc.ir.schedule import Certificate, LoopProblem, Schedule
from tensorc.passes.scheduling.check_schedule import check_schedule
from tensorc.passes.scheduling.list_schedule import list_schedule
from tensorc.passes.scheduling.schedule import PROVE, schedule
from tensorc.passes.scheduling.schedule_bounds import limits
from tensorc.passes.scheduling.schedule_polish import Aim
from tensorc.passes.scheduling.schedule_search import Effort

COMMAND = (sys.executable, "-P", "-m", "tensorc.passes.scheduling.schedule_apart")


def schedule_apart(
    problem: LoopProblem,
    effort: Effort = PROVE,
    aim: Aim = "slack",
    wall: float = 120.0,
    command: tuple[str, ...] = COMMAND,
) -> Schedule:
    """`schedule(problem, effort, aim)` in a child that is killed after `wall` seconds.

    Raises Infeasible as `schedule` does, also where the child is lost and no list schedule fits.
    """
    sent = {"problem": json.loads(problem_to_json(problem)), "effort": asdict(effort), "aim": aim}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(),
    ) as child:
        try:
            text, _ = child.communicate(json.dumps(sent), timeout=wall)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return _fallback(problem, f"the solver took more than {wall:g} s and was killed")
    if child.returncode:
        return _fallback(problem, _died(child.returncode))
    return _answer(problem, text)


def _environment() -> dict[str, str]:
    """The child imports the very package that asks it."""
    root = str(Path(ir.__file__).resolve().parents[2])
    found = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, *([found] if found else [])])}


def _answer(problem: LoopProblem, text: str) -> Schedule:
    """The child's answer, if it is one and the checker agrees."""
    try:
        answer = cast("dict[str, object]", json.loads(text))
        if error := cast("dict[str, object] | None", answer.get("infeasible")):
            raise Infeasible(
                str(error["message"]),
                resource=str(error["resource"]),
                need=int(str(error["need"])),
                limit=int(str(error["limit"])),
            )
        made = read_schedule(str(answer["schedule"]))
    except (ValueError, KeyError):
        return _fallback(problem, "the solver's answer cannot be read")
    if check_schedule(problem, made):
        return _fallback(problem, "the solver's answer is no legal schedule")
    return made


def _died(code: int) -> str:
    """What ended the child: a signal by name, or its exit code."""
    if code < 0:
        return f"the solver died of {signal.Signals(-code).name}"
    return f"the solver ended with exit code {code}"


def _fallback(problem: LoopProblem, reason: str) -> Schedule:
    made = list_schedule(problem)
    if made is None:
        message = f"TC-E404: {problem.name}: {reason}, and no list schedule fits {problem.machine}"
        raise Infeasible(message, resource="effort")
    limit = limits(problem)[0]
    note = f"TC-E404 {reason}: list schedule"
    proof = Certificate(limit.cycles, limit.name, "none", 1, Fraction(0), problem.figures, (), note)
    if made.ii == limit.cycles:
        proof = replace(proof, proof="closed form")
    return replace(made, certificate=proof)


def main() -> int:
    """Read one problem from standard input, write its schedule or why there is none."""
    sent = cast("dict[str, object]", json.load(sys.stdin))
    problem = problem_from_json(json.dumps(sent["problem"]))
    effort = Effort(**cast("dict[str, float]", sent["effort"]))  # type: ignore[arg-type]
    aim = str(sent["aim"])
    if aim not in get_args(Aim):
        raise ValueError(f"aim {aim!r}")
    try:
        answer: dict[str, object] = {
            "schedule": print_schedule(schedule(problem, effort, cast(Aim, aim)))
        }
    except Infeasible as error:
        told = {"resource": error.resource, "need": error.need, "limit": error.limit}
        answer = {"infeasible": {"message": str(error), **told}}
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
