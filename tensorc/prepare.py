"""A call of a program: arrays checked against it, what runs it, and what remembers it.

Compiling is `compiler`'s; where else a call may run is known to `devices`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from tensorc.compiler import Request, compile_cpu, cpu_target
from tensorc.ir.launch import Strides
from tensorc.ir.tensor import Program
from tensorc.runtime.compiled import Call, Compiled, const_values
from tensorc.runtime.kernels import Kernels

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
) -> Prepared:
    """Check arrays and sizes against the program.

    `given`: arrays or scalars by parameter name. `sizes`: extents and `const` integers that no
    array fixes. `specialize`: fix the first sizes in the kernel (see `runtime.kernels`); without
    it, one kernel serves all sizes from the first call on. `deterministic`: an element of a float
    result depends on the elements it is made of and on no other extent or layout; implies
    `specialize=False`, and copies what is not row-major. `check="data-off"`: subscripts that hold
    data are in range, the caller says. Raises ArgumentError with every fault.
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
        program, arrays, extents, strides, policy, specialize, deterministic, check != "data-off"
    )


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
        return call.compiled().run(call.arrays, call.extents, into)
    found = interpreted(call.program, call.arrays, call.extents)
    for name, target in (into or {}).items():
        target[...] = found[name]
    return {**found, **(into or {})}


MOST_CALLS = 64  # kept for one operator


def remember(
    calls: dict[tuple[object, ...], Call], call: Prepared, operands: Sequence[object]
) -> None:  # fmt: skip
    """Keep the bound form of a CPU call under `bound.key(operands)`, if it depends on types,
    shapes and strides alone and the arrays were taken as they are."""
    from tensorc.runtime.bound import key

    kept = key(operands)
    same = all(a is b for a, b in zip(call.arrays.values(), operands, strict=False))
    sized = any(item.const and not item.tensor.shape for item in call.program.parameters)
    if kept is None or not same or sized or len(operands) != len(call.arrays):
        return
    if len(calls) >= MOST_CALLS:
        calls.clear()
    calls[kept] = call.compiled().bound(call.arrays, call.extents)


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
    kernels: Kernels = vars(program).setdefault("_kernels", Kernels(program.name))

    def compiled(static: Mapping[str, int]) -> Compiled:
        return compile_cpu(program, _request(call, static))

    layout = (tuple(sorted(strides.items())), call.policy, call.deterministic, call.checks)
    specialize = call.specialize and not call.deterministic
    return kernels.get(call.extents if specialize else {}, layout, compiled)


def _request(call: Prepared, static: Mapping[str, int]) -> Request:
    return Request(
        cpu_target(), static, call.strides, call.policy,
        deterministic=call.deterministic, checks=call.checks,
    )  # fmt: skip
