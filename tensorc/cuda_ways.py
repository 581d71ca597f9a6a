"""Which kernels a call on a GPU gets: the ways to make them, best first, and the first one whose
tensor maps can be made of the call's arrays.

On sm_90a: warp groups with roles, whose copies are the hardware's by tensor maps; else tensor cores
fed by copies of the threads, for arrays of any strides and addresses; else plain kernels. Elsewhere
there is one way, that of the request.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tensorc.cuda_code import CudaCode, code_of
from tensorc.cuda_levels import MACHINES, PRODUCTS, request, with_roles
from tensorc.ir.tensor import Program, Tensor
from tensorc.request import Request

if TYPE_CHECKING:
    from tensorc.codegen.cuda_launch import Placed
    from tensorc.explain import Report
    from tensorc.prepare import Prepared

_LOG = logging.getLogger("tensorc")
Fresh = dict[str, tuple[tuple[int, ...], Any]]  # shape and dtype of what kernels write, by name


@dataclass(frozen=True)
class Way:
    """One way to make kernels: in words, and what the compiler is asked for."""

    words: str
    request: Request


@dataclass(frozen=True)
class Chosen:
    """The kernels of a call, with every extent, and shape and dtype of what they write."""

    code: CudaCode
    extents: Mapping[str, int]
    fresh: Fresh
    words: str


def ways(wanted: Request) -> tuple[Way, ...]:
    """The ways to make kernels, best first. `wanted`: of `cuda_levels.request`.

    Results of different ways may differ in their last bits, so that a deterministic request, whose
    results may not depend on layouts, has none with tensor maps.
    """
    plain = Way("plain kernels", wanted)
    if wanted.target.machine != "sm_90a" or wanted.policy == "strict":
        return (plain,)
    threads = replace(wanted.target, machine=MACHINES["sm_80"], product=PRODUCTS["sm_80"])
    roles = Way("warp groups with tensor maps", with_roles(wanted))
    copied = Way("tensor cores with copies by threads", replace(wanted, target=threads))
    return (roles, copied, plain) if wanted.by_size else (copied, plain)


def request_of(call: Prepared, arch: str) -> Request:
    """What is asked for a call."""
    return request(arch, call.extents, call.strides, call.policy, call.deterministic, call.checks)


def choose(call: Prepared, arch: str, operands: Mapping[str, Placed]) -> Chosen:
    """The kernels of a call whose operands, or arrays that lie like them, are `operands`."""
    from tensorc.codegen.cuda_launch import misfit, row_major

    options = ways(request_of(call, arch))
    for way in options:
        code = code_of(call.program, way.request)
        if way is not options[-1] and not code.cores:
            continue
        extents, fresh = sizes_of(call, code)
        made = {name: row_major(0, shape) for name, (shape, _) in fresh.items()}
        why = misfit(code.module.kernels, {**made, **operands}, extents)
        if not why:
            return Chosen(code, extents, fresh, way.words)
        _LOG.info("%s: no %s: %s", call.program.name, way.words, why)
    raise AssertionError("plain kernels have no tensor maps")


def first(program: Program, wanted: Request) -> Request:
    """The request of the first way that there is: that of calls whose arrays fit it."""
    return usable(program, wanted)[0]


def usable(program: Program, wanted: Request) -> tuple[Request, ...]:
    """The requests of the ways that there are, best first, down to the first one that takes arrays
    of any strides and addresses."""
    options, found = ways(wanted), list[Request]()
    for way in options:
        code = code_of(program, way.request)
        if code.cores or way is options[-1]:
            found.append(way.request)
            if not any(kernel.maps for kernel in code.module.kernels):
                break
    return tuple(found)


def explained(program: Program, wanted: Request) -> Report:
    """What passes made on the first way, and which calls take which way."""
    from tensorc.explain import Section
    from tensorc.pipeline import explained as report

    made = report(program, first(program, wanted))
    lines = _told(program, wanted)
    section = Section("ways", lines, list(lines))
    return replace(made, sections=(*made.sections, section))


def _told(program: Program, wanted: Request) -> tuple[str, ...]:
    """The ways of calls, in order, each with what it asks of arrays, as sentences."""
    options = ways(wanted)
    lines: list[str] = []
    for way in options:
        code = code_of(program, way.request)
        if way is not options[-1] and not code.cores:
            continue
        mapped = dict.fromkeys(m.tensor for kernel in code.module.kernels for m in kernel.maps)
        if not mapped:
            return (*lines, f"{way.words}: {'all others' if lines else 'all calls'}")
        asked = "rows without gaps between elements, addresses and strides of whole 16 bytes"
        lines.append(f"{way.words}: calls in which {', '.join(mapped)} have {asked}")
    return tuple(lines)


def sizes_of(call: Prepared, code: CudaCode) -> tuple[dict[str, int], Fresh]:
    """Every extent, and shape and dtype of what the kernels write."""
    from tensorc.ir.polynomial import Symbol, evaluate
    from tensorc.ir.rounding import numpy_dtype
    from tensorc.runtime.compiled import const_values

    known = {Symbol(name, "extent"): size for name, size in call.extents.items()}
    values = const_values(call.program, call.arrays)
    known.update({Symbol(name, "parameter"): value for name, value in values.items()})
    given = code.launch.extents
    added = {n: evaluate(s, known) for n, s in given if n not in call.extents}

    def shape(tensor: Tensor) -> tuple[int, ...]:
        return tuple(evaluate(size, known) for size in tensor.shape)

    written = (*code.launch.workspaces, *code.outputs)
    fresh = {t.name: (shape(t), numpy_dtype(t.dtype)) for t in written}
    return {**call.extents, **added}, fresh
