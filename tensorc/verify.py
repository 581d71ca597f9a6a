"""Judge a kernel's results against the meaning: the three-part rule on a whole program.

The reference is the level-1 interpreter in float64 (f64 in long double), its twin the same
interpreter rounding where the contract does. The bound is derived from the program, or from level 2
where its running values are moved from block to block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorc.errors import BrokenInvariant, Unavailable
from tensorc.ir.accept import Outcome, Verdict
from tensorc.ir.parts import Names, joined, part_names, split
from tensorc.ir.tensor import Program
from tensorc.prepare import Prepared
from tensorc.runtime.verdict import Verified

if TYPE_CHECKING:
    from tensorc.ir.tile import TileProgram

Array = npt.NDArray[Any]


def judge(
    prepared: Prepared, outputs: Mapping[str, Array], fused: TileProgram | None = None,
    form: Program | None = None,
) -> dict[str, Verdict]:  # fmt: skip
    """A verdict for every output of a run that was prepared by `prepare.prepare`. `fused`: level 2
    of the kernels that ran, if they followed a plan.

    Rewriting moves rounding points, so the bound is the larger of those of the program as written
    and as rewritten: `form`, what the kernel was made of, or else what is made at these sizes.
    Where the meaning of the source is not finite, a rewritten form may be (`tanh` of another
    infinity), and then says what is right.
    """
    from tensorc.ir.accept import accept
    from tensorc.ir.bound_tensor import bound_tensor
    from tensorc.ir.interpret_tensor import interpret

    program, arrays, extents = prepared.program, prepared.arrays, prepared.extents
    want = interpret(program, arrays, extents, extended=True)
    twin = interpret(program, arrays, extents, rounded=True)
    limits = _limits(prepared, fused)
    form = _rewritten(prepared, form)
    if form is not None:
        sizes = _sizes(form, extents)
        parts = part_names(program)
        operands = split(arrays, parts)
        other = joined(interpret(form, operands, sizes, extended=True), parts)
        found = bound_tensor(form, operands, sizes)
        errors = _distances({name: item.error for name, item in found.items()}, parts)
        for name in want:
            limits[name] = np.maximum(limits[name], errors[name])
            want[name] = np.where(np.isfinite(want[name]), want[name], other[name])
    return {
        item.tensor.name: accept(
            outputs[item.tensor.name], want[item.tensor.name], twin[item.tensor.name],
            limits[item.tensor.name], item.tensor.dtype, strict=prepared.policy == "strict",
        )
        for item in program.outputs
    }  # fmt: skip


def _limits(prepared: Prepared, fused: TileProgram | None) -> dict[str, Array]:
    """The largest error of every element of every output."""
    from tensorc.ir.bound import bound
    from tensorc.ir.bound_tensor import bound_tensor

    program, arrays, extents = prepared.program, prepared.arrays, prepared.extents
    if fused is None:
        return {n: item.error for n, item in bound_tensor(program, arrays, extents).items()}
    names = part_names(program)
    found = bound(fused, split(arrays, names), extents)
    return _distances({name: item.error for name, item in found.items()}, names)


def _distances(errors: Mapping[str, Array], names: Names) -> dict[str, Array]:
    """The errors, those of complex numbers from those of their parts."""
    pairs = {name: parts for name, parts in names.items() if parts[0] in errors}
    return {
        **errors,
        **{name: np.hypot(errors[re], errors[im]) for name, (re, im) in pairs.items()},
    }


MOST = 1 << 27  # operations of a call that the interpreter is asked to repeat


def verify_call(call: Prepared, outputs: Mapping[str, Array]) -> None:
    """Compare the first results of a kernel with the interpreter's, and keep the verdict with it.

    Raises BrokenInvariant if they differ, with the folder where program and arrays were left, and
    Unavailable if that cannot be decided.
    """
    kernel = call.compiled()
    known = kernel.verdict
    if not (known.level == "full" and known.outcome is Outcome.PASS):
        found = _verified(call, outputs)
        if found.outcome is Outcome.FAIL:
            raise BrokenInvariant(
                f"{kernel!r} computes something else than the program: {found.reason}\n"
                f"Program and arrays lie in {_kept(call)}; this is a bug in tensorc, please report "
                "them. verify='off' calls the kernel all the same."
            )
        kernel.levels.judged(found)
        known = found
    if known.outcome is Outcome.UNDECIDED:
        raise Unavailable(
            f"{kernel!r} cannot be verified in full: {known.reason}; verify='cheap' calls it"
        )


def _verified(call: Prepared, outputs: Mapping[str, Array]) -> Verified:
    kernel = call.compiled()
    count = kernel.operations(call.extents)
    if count > MOST:
        reason = f"a call does {count:,} operations; the interpreter repeats at most {MOST:,}"
        return Verified("full", Outcome.UNDECIDED, reason)
    verdicts = judge(call, outputs, kernel.levels.fused, kernel.levels.form)
    outcome = worst(verdicts)
    named = [f"{n}: {v}" for n, v in verdicts.items() if v.outcome is outcome]
    return Verified("full", outcome, "; ".join(named))


def _kept(call: Prepared) -> Path:
    """A new folder with the program and the operands."""
    import tempfile

    from tensorc.ir.print_tensor import show_program

    folder = Path(tempfile.mkdtemp(prefix="tensorc-"))
    (folder / "program.tc").write_text(show_program(call.program), encoding="utf-8")
    for name, array in call.arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    return folder


def _rewritten(prepared: Prepared, form: Program | None) -> Program | None:
    """What the algebra makes of the program (`form`, or what it makes at these sizes), if that is
    another one."""
    from tensorc.pipeline import lowered_form
    from tensorc.request import Request, cpu_target

    program = prepared.program
    request = Request(cpu_target(), prepared.extents, policy=prepared.policy)
    plain = lowered_form(program, replace(request, rewrite=False))
    form = form or lowered_form(program, request)
    return None if form.equations == plain.equations else form


def _sizes(program: Program, extents: Mapping[str, int]) -> dict[str, int]:
    """The sizes of all indices of a rewritten program."""
    from tensorc.ir.polynomial import Symbol, evaluate

    kinds = ("extent", "parameter")
    known = {Symbol(name, kind): size for name, size in extents.items() for kind in kinds}
    return {**{name: evaluate(size, known) for name, size in program.extents}, **extents}


def worst(verdicts: Mapping[str, Verdict]) -> Outcome:
    """FAIL if any failed, else UNDECIDED if any is, else PASS."""
    found = {verdict.outcome for verdict in verdicts.values()}
    for outcome in (Outcome.FAIL, Outcome.UNDECIDED):
        if outcome in found:
            return outcome
    return Outcome.PASS
