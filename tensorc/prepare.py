"""A call of a program: arrays checked against it, what runs it, and what remembers it.

Compiling is `compiler`'s; where else a call may run is known to `devices`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorc.compiler import compile_cpu
from tensorc.ir.launch import Strides
from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Floor, symbols
from tensorc.ir.tensor import Apply, Extent, Program, Tensor
from tensorc.request import Request, cpu_target
from tensorc.runtime.compiled import Call, Compiled, const_values
from tensorc.runtime.kernels import Kernels, Sizes

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Prepared:
    """A call whose arrays fit: what runs it, and what judges its results, take it from here."""

    program: Program
    arrays: Mapping[str, Array]
    extents: Mapping[str, int]
    strides: Mapping[str, Strides]
    policy: str
    specialize: bool = True
    deterministic: bool = False
    checks: bool = True
    static: frozenset[str] = frozenset()
    hints: Mapping[str, int] = field(default_factory=dict[str, int])
    threads: int | None = None
    verify: str = "cheap"
    cuts: str | None = None

    def compiled(self) -> Compiled:
        """The CPU kernel for these sizes and layouts, compiled once in a process."""
        return _kernel(self)


def prepare(
    program: Program,
    given: Mapping[str, object],
    sizes: Mapping[str, int] | None = None,
    policy: str = "fast",
    specialize: bool = True,
    deterministic: bool = False,
    check: str = "all",
    static: Collection[str] = (),
    hints: Mapping[str, int] | None = None,
    threads: int | None = None,
    verify: str = "cheap",
    cuts: str | None = None,
) -> Prepared:
    """Check arrays and sizes against the program.

    `given`: arrays or scalars by parameter name. `sizes`: extents and `const` integers that no
    array fixes. `specialize`: fix the first sizes in the kernel (see `runtime.kernels`); without
    it, one kernel serves all sizes from the first call on. `deterministic`: an element of a float
    result depends on the elements it is made of and on no other extent or layout; implies
    `specialize=False`, and copies what is not row-major. `check="data-off"`: subscripts that hold
    data are in range, the caller says. `static`: extents fixed in the kernel at every size.
    `hints`: sizes at which a kernel for several sizes should be fast (None: the first ones).
    `threads`: how many may share a kernel (None: see `runtime.threads`). `verify`: see
    `runtime.verdict`. `cuts`: where kernels end, "cost" (by estimate), "none" (one kernel, where
    that can be) or "all" (a kernel for each equation). Raises ArgumentError with every fault.
    """
    from tensorc.ir.sizes import bind, check_intermediates
    from tensorc.runtime.arrays import arguments, stride_class

    arrays = arguments(program, given)
    shapes = {name: array.shape for name, array in arrays.items()}
    extents = bind(program, shapes, {**const_values(program, arrays), **(sizes or {})})
    check_intermediates(program, extents)  # every named intermediate is a buffer of its own
    if deterministic:
        arrays = {name: _dense(array) for name, array in arrays.items()}
    classes = {name: stride_class(array) for name, array in arrays.items()}
    strides = {name: item for name, item in classes.items() if item is not None}
    return Prepared(
        program, arrays, extents, strides, policy, specialize, deterministic,
        check != "data-off", frozenset(static), dict(hints or {}), threads,
        verify, cuts,
    )  # fmt: skip


def _dense(array: Array) -> Array:
    """Row-major, so that one kernel serves every layout: a copy if need be, unless elements are
    repeated, of which a copy may be large."""
    return array if array.flags.c_contiguous or 0 in array.strides else array.copy(order="C")


def run_prepared(
    call: Prepared, device: str = "cpu", into: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """Run a prepared call on "cpu" or "interpreter"; `devices.run` knows the others too.

    `into`: arrays for the outputs, which fit.
    """
    if device == "cpu":
        return call.compiled().run(call.arrays, call.extents, into, call.threads)
    found = interpreted(call.program, call.arrays, call.extents)
    for name, target in (into or {}).items():
        target[...] = found[name]
    return {**found, **(into or {})}


MOST_CALLS = 64  # kept for one operator


def bound_call(call: Prepared, given: Mapping[str, object]) -> Call | None:
    """The bound form of a CPU call for others with operands of the same types, shapes and strides;
    None if it depends on more, or if an array had to be copied. `given`: as in `prepare`."""
    sized = any(item.const and not item.tensor.shape for item in call.program.parameters)
    same = all(
        array is given[name] or not isinstance(given[name], np.ndarray)
        for name, array in call.arrays.items()
    )
    if sized or not same:
        return None
    return call.compiled().bound(call.arrays, call.extents, call.threads)


def interpreted(
    program: Program, arrays: Mapping[str, Array], extents: Mapping[str, int]
) -> dict[str, Array]:
    """The level-1 interpreter's outputs, rounded once into the outputs' types."""
    from tensorc.ir.interpret_tensor import interpret
    from tensorc.ir.rounding import round_to

    exact = interpret(program, arrays, extents)
    return {
        item.tensor.name: round_to(exact[item.tensor.name], item.tensor.dtype)
        for item in program.outputs
    }


def _kernel(call: Prepared) -> Compiled:
    """The kernel for these sizes and layouts, compiled once in a process."""
    program, strides = call.program, call.strides
    kernels = vars(program).get("_kernels")
    if kernels is None:
        made = Kernels(program.name, divisors(program))
        kernels = vars(program).setdefault("_kernels", made)  # of two threads, one has its way

    def compiled(sizes: Sizes) -> Compiled:
        return compile_cpu(program, _request(call, sizes))

    hints = tuple(sorted(call.hints.items()))
    layout = (tuple(sorted(strides.items())), call.policy, call.deterministic, call.checks, hints)
    layout = (*layout, call.cuts)
    if call.deterministic:
        return kernels.get(call.extents, layout, compiled, specialize=False)
    return kernels.get(
        call.extents, layout, compiled, call.static, call.hints, call.specialize
    )  # fmt: skip


def divisors(program: Program) -> set[str]:
    """The indices by whose extents sizes, positions or subscripts are divided."""
    sizes = [size for tensor in _tensors(program) for size in tensor.shape]
    sizes += [size for _, size in program.extents]
    nodes = list(postorder([*sizes, *(item.body for item in program.equations)]))
    found: set[str] = set()
    for node in nodes:
        match node:
            case Floor(_, denominator):
                found |= {item.name for item in symbols(denominator) if item.kind == "extent"}
            case Apply(function, (_, divisor)) if function.name in ("floordiv", "mod"):
                found |= {item.index for item in postorder([divisor]) if isinstance(item, Extent)}
            case _:
                pass
    return found


def _tensors(program: Program) -> Iterator[Tensor]:
    declared = (*program.parameters, *program.outputs, *program.equations)
    yield from (item.tensor for item in declared)


def _request(call: Prepared, sizes: Sizes) -> Request:
    hints = dict[str, int]() if call.deterministic else sizes.hints
    made = Request(
        cpu_target(), sizes.static, call.strides, call.policy, multiples=sizes.multiples,
        hints=hints, deterministic=call.deterministic, checks=call.checks, verify=call.verify,
    )  # fmt: skip
    return made if call.cuts is None else replace(made, cuts=call.cuts)
