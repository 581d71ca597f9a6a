"""Long programs in parts: equal layers are rewritten once, and the whole stays what it was."""

from __future__ import annotations

from benchmarks.problems.blocks import SIZES, blocks
from tensorc.ir.verify_tensor import verify
from tensorc.passes.algebra.parts import LONG, in_parts, rewrite_in_parts
from tensorc.passes.algebra.validate import validate
from tests.passes.test_saturate import assert_equal, program_of

SMALL = dict(t=3, c=4, h=2, d=2, f=3)


def test_layers_are_cut_where_one_tensor_crosses_and_rewritten_once() -> None:
    program = program_of(blocks(5))
    parts = in_parts(program)
    assert [len(part.program.equations) for part in parts] == [14] * 5
    assert len({part.program for part in parts}) == 2  # the last one ends in the output
    made = rewrite_in_parts(program, SIZES)
    assert len(made.parts) == 2
    assert not verify(made.program, accesses=False)
    assert all(validate(old, new, SIZES).passed for old, new in made.parts)
    assert_equal(program, made.program, SMALL)


def test_checks_stay_with_their_part() -> None:
    lines = [f"  t{n}[i] = tanh(t{n - 1}[i]) + {n}" for n in range(1, LONG + 5)]
    text = (
        "op f(a: f32[i], e: f32[v, k], w: f32[k], at: i32[i]) -> y: f32[i]\n"
        "  t0[i] = a[i] * 2\n"
        + "\n".join(lines)
        + f"\n  y[i] = sum[k](e[at[i], k] * w[k]) + t{LONG + 4}[i]\n"
    )
    program = program_of(text)
    sizes = dict(i=65536, v=8, k=64)
    made = rewrite_in_parts(program, sizes)
    assert len(made.parts) == 1
    assert not verify(made.program, accesses=False)
    assert len(made.program.checks) == len(program.checks) == 1
    assert_equal(program, made.program, dict(i=5, v=3, k=4), at=3)


def test_a_short_program_is_its_own_part() -> None:
    program = program_of(blocks(1))
    assert in_parts(program) == []
    made = rewrite_in_parts(program, SIZES)
    assert made.parts == ((program, made.program),)
    assert_equal(program, made.program, SMALL)
