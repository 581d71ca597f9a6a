"""What must hold of every case: the oracles that judge one program on one set of arrays.

text      printing what was read gives the same nodes
passes    every verifier is content
values    the results pass the three-part rule against the meaning
bounds    with walls around arrays, nothing outside of them is touched (else the process dies)
checks    a data subscript out of range is reported by both, or by neither
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorc.errors import ArgumentError, BrokenInvariant, NotationError, OutOfRange, Unavailable
from tensorc.fuzz.case import Case
from tensorc.fuzz.walls import walled
from tensorc.fuzz.ways import Way
from tensorc.ir.tensor import Program, Tensor

if TYPE_CHECKING:
    from tensorc.prepare import Prepared

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Finding:
    """The outcome of one case: "pass", "fail", "undecided" or "skip" (its sizes have no value, a
    reason is given). `signature` tells one kind of failure from another."""

    outcome: str
    signature: str = ""
    detail: str = ""


def examine(case: Case) -> Finding:
    """Run every oracle on a case, in this process."""
    from tensorc.lang import read

    try:
        (program,) = read(case.text, "case.tc")
    except NotationError as error:
        return Finding("skip", f"refused {error.code}", str(error))
    again = _round_trip(program)
    if again is not None:
        return again
    try:
        return _run(program, case)
    except BrokenInvariant as error:
        return Finding("fail", "broken invariant", str(error))
    except (ArgumentError, MemoryError) as error:
        return Finding("skip", f"arguments {getattr(error, 'code', '')}", str(error))
    except Unavailable as error:
        return Finding("skip", "unavailable", str(error))
    except Exception as error:
        return Finding("fail", f"exception {type(error).__name__}", repr(error))


def _round_trip(program: Program) -> Finding | None:
    from tensorc.ir.print_tensor import show_program
    from tensorc.lang import read

    text = show_program(program)
    (again,) = read(text, "printed.tc")
    if again.equations != program.equations or again.extents != program.extents:
        return Finding("fail", "text round trip", text)
    return None


def arrays_of(program: Program, case: Case) -> dict[str, Array]:
    """The arrays that the case's recipes make."""
    from tensorc.fuzz.data import array

    made: dict[str, Array] = {}
    for item in program.parameters:
        name, tensor = item.tensor.name, item.tensor
        recipe, layout = case.recipes.get(name, "small"), case.layouts.get(name, "dense")
        made[name] = array(recipe, layout, name, tensor.dtype, _shape(tensor, case.sizes))
    return {name: _between_walls(array, case.way) for name, array in made.items()}


def _shape(tensor: Tensor, sizes: Mapping[str, int]) -> tuple[int, ...]:
    from tensorc.ir.polynomial import Symbol, evaluate

    known = {Symbol(name, "extent"): size for name, size in sizes.items()}
    return tuple(evaluate(size, known) for size in tensor.shape)


def _between_walls(array: Array, way: Way) -> Array:
    """The array, or a copy at whose end memory ends; other layouts than dense ones stay."""
    if not way.walls or not array.flags.c_contiguous:
        return array
    return walled(array, way.walls)


def _targets(call: Prepared) -> dict[str, Array]:
    """Fresh arrays for the outputs."""
    from tensorc.ir.rounding import numpy_dtype

    found = (item.tensor for item in call.program.outputs)
    return {t.name: np.zeros(_shape(t, call.extents), numpy_dtype(t.dtype)) for t in found}


def _run(program: Program, case: Case) -> Finding:
    from tensorc.devices import run
    from tensorc.prepare import prepare

    way = case.way
    call = prepare(
        program, arrays_of(program, case), case.sizes, way.policy, way.specialize,
        way.deterministic, cuts=way.cuts,
    )  # fmt: skip
    escapes = _escapes(program, call.arrays, call.extents)
    into = {name: _between_walls(target, way) for name, target in _targets(call).items()}
    try:
        outputs = run(call, way.device, way.arch, into)
    except (OutOfRange, ArgumentError):
        return Finding("pass") if escapes else Finding("fail", "check without cause")
    if escapes:
        return Finding("fail", "missed check", "a data subscript leaves its tensor unreported")
    return _judged(call, way, outputs)


def _judged(call: Prepared, way: Way, outputs: Mapping[str, Array]) -> Finding:
    from tensorc.verify import judge, worst

    fused = call.compiled().levels.fused if way.device == "cpu" else None
    verdicts = judge(call, outputs, fused)
    outcome = worst(verdicts).value.lower()
    bad = [f"{name}: {verdict}" for name, verdict in verdicts.items() if not verdict.passed]
    return Finding(outcome, "values" if outcome == "fail" else "", "\n".join(bad))


def _escapes(program: Program, arrays: Mapping[str, Array], extents: Mapping[str, int]) -> bool:
    """Whether the meaning itself leaves a tensor."""
    from tensorc.ir.interpret_tensor import interpret

    try:
        with np.errstate(all="ignore"):
            interpret(program, arrays, extents)
    except ArgumentError:
        return True
    return False
