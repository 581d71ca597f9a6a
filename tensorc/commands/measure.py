"""Register tiles of an operator on this CPU, by the time that their kernels take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tensorc.compiler import compile_cpu
from tensorc.ir.sizes import bind
from tensorc.ir.tensor import Program
from tensorc.request import Request, Target
from tensorc.runtime.compiled import Compiled

if TYPE_CHECKING:
    from tensorc.passes.tiling.block_sizes import Widths

ROUNDS = 5
SPENT = 0.01  # seconds of calls in a round
MOST = 12  # candidates that are compiled: the first by prediction


@dataclass(frozen=True)
class Measured:
    """What is compiled for, the seconds that `register_tiles` predicts, and those of a call."""

    request: Request
    predicted: float
    seconds: float


def measure(
    program: Program, request: Request, arrays: Mapping[str, npt.NDArray[Any]], most: int = MOST
) -> list[Measured]:  # fmt: skip
    """The candidates for a request in which every extent is fixed, fastest first.

    All are called in turn, in rounds; a candidate's time is that of its best round.
    """
    kernels = [
        (predicted, candidate, compile_cpu(program, candidate))
        for predicted, candidate in candidates(program, request)[:most]
    ]
    extents = bind(program, {n: a.shape for n, a in arrays.items()}, request.static)
    spent = times([kernel for _, _, kernel in kernels], arrays, extents)
    found = [Measured(r, p, s) for (p, r, _), s in zip(kernels, spent, strict=True)]
    return sorted(found, key=lambda item: item.seconds)


def times(
    kernels: Sequence[Compiled], arrays: Mapping[str, npt.NDArray[Any]], extents: Mapping[str, int]
) -> list[float]:
    """Seconds of a call of each kernel on one thread, in its best round. `extents`: of every
    index of the program."""
    calls = [kernel.bound(arrays, extents, 1) for kernel in kernels]
    operands = list(arrays.values())
    best = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for place, call in enumerate(calls):
            best[place] = min(best[place], _seconds(lambda call=call: call(operands)))
    return best


def candidates(program: Program, request: Request) -> list[tuple[float, Request]]:
    """Requests for the ways to tile that are worth a thought, with the seconds predicted for their
    products, the least first."""
    from tensorc.machine.machines import MACHINES
    from tensorc.passes.canonicalise import canonicalise
    from tensorc.passes.tiling.block_sizes import Widths
    from tensorc.passes.tiling.register_tiles import ranked, register_tiles

    target = request.target
    first = Widths(target.lanes, target.vectors, target.rows)
    tiles = register_tiles(MACHINES[target.machine], first)
    found = ranked(canonicalise(program), tiles, {}, request.static)
    return [
        (item.seconds, replace(request, target=_settled(target, item.widths))) for item in found
    ]


def _settled(target: Target, tile: Widths) -> Target:
    """The machine with this tile, whatever the sizes."""
    return replace(target, vectors=tile.vectors, rows=tile.rows, packed=tile.packed, settled=True)


def _seconds(call: Callable[[], object]) -> float:
    """CPU time of one call."""
    call()
    count, start = 0, time.process_time()
    while (spent := time.process_time() - start) < SPENT:
        call()
        count += 1
    return spent / max(1, count)
