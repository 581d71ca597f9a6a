"""The section on fusion: which kernels there are and which reductions share a loop, and why."""

from __future__ import annotations

from tensorc.explain.subject import Section, Subject
from tensorc.ir.plan import Planned, PlannedKernel, State
from tensorc.ir.print_tensor import show
from tensorc.ir.strict_json import Json


def fusion(subject: Subject) -> Section | None:
    """The plan, how running values move where a loop carries several, and what was estimated."""
    planned = next((s.after for s in subject.steps if isinstance(s.after, Planned)), None)
    if planned is None:
        return None
    lines = tuple(str(planned).splitlines())
    kernels = () if planned.plan is None else planned.plan.kernels
    data: dict[str, Json] = {
        "planned": planned.plan is not None,
        "reasons": list(planned.reasons),
        "stored": [] if planned.plan is None else list(planned.plan.stored),
        "estimates": [] if planned.plan is None else list(planned.plan.note),
        "kernels": [_kernel(kernel) for kernel in kernels],
    }
    return Section("fusion", tuple(line.removeprefix("# ") for line in lines), data)


def _kernel(kernel: PlannedKernel) -> Json:
    passes: list[Json] = [
        {"over": list(walk.indices), "states": [_state(state) for state in walk.states]}
        for walk in kernel.passes
    ]
    return {
        "stores": [output.tensor.name for output in kernel.outputs],
        "grid": list(kernel.grid),
        "passes": passes,
    }


def _state(state: State) -> Json:
    moved = None if state.moved is None else show(state.moved)
    return {"name": state.name, "reducer": str(state.reduce.reducer), "moved": moved}
