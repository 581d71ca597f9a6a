"""Register tiles of an operator on this CPU, by the time that their kernels take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from tensorc.compiler import compile_cpu
from tensorc.ir.tensor import Program
from tensorc.request import Request

ROUNDS = 5
SPENT = 0.01  # seconds of calls in a round
MOST = 12  # candidates that are compiled: the first by the bound


@dataclass(frozen=True)
class Measured:
    """What is compiled for, its bound (see `register_tiles`), and seconds of a call."""

    request: Request
    bound: float
    seconds: float


def measure(
    program: Program, request: Request, arrays: Mapping[str, npt.NDArray[Any]]
) -> list[Measured]:  # fmt: skip
    """The candidates for a request in which every extent is fixed, fastest first.

    All are called in turn, in rounds; a candidate's time is that of its best round.
    """
    kernels = [
        (bound, candidate, compile_cpu(program, candidate))
        for bound, candidate in candidates(program, request)
    ]
    best = [float("inf")] * len(kernels)
    for _ in range(ROUNDS):
        for place, (_, _, kernel) in enumerate(kernels):
            best[place] = min(best[place], _seconds(lambda kernel=kernel: kernel(**arrays)))
    found = [Measured(r, bound, s) for (bound, r, _), s in zip(kernels, best, strict=True)]
    return sorted(found, key=lambda item: item.seconds)


def candidates(program: Program, request: Request) -> list[tuple[float, Request]]:
    """Requests for the register tiles worth a thought, with their bounds, the least first."""
    from tensorc.machine.machines import MACHINES
    from tensorc.passes.canonicalise import canonicalise
    from tensorc.passes.tiling.lower import Widths
    from tensorc.passes.tiling.register_tiles import ranked, register_tiles

    target = request.target
    first = Widths(target.lanes, target.vectors, target.rows)
    tiles = register_tiles(MACHINES[target.machine], first)
    found = ranked(canonicalise(program), tiles, {}, request.static)[:MOST]
    return [
        (bound, replace(request, target=replace(target, vectors=t.vectors, rows=t.rows)))
        for bound, t in found
    ]


def _seconds(call: Callable[[], object]) -> float:
    """CPU time of one call."""
    call()
    count, start = 0, time.process_time()
    while (spent := time.process_time() - start) < SPENT:
        call()
        count += 1
    return spent / max(1, count)
