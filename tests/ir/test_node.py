"""Expressions are graphs: what rewrites them takes each shared node once."""

from __future__ import annotations

import numpy as np

from tensorc.ir.dtypes import F32
from tensorc.ir.functions import FUNCTIONS
from tensorc.ir.node import Node, replaced
from tensorc.ir.polynomial import extent
from tensorc.ir.tensor import Apply, Expr, Position, Read, Tensor
from tensorc.lang import read
from tensorc.passes.algebra.renaming import renamed
from tensorc.prepare import prepare, run_prepared

DEEP = 60  # as a tree, 2**60 nodes


def doubled(start: Expr) -> Expr:
    made = start
    for _ in range(DEEP):
        made = Apply(FUNCTIONS["add"], (made, made))
    return made


def reading(index: str) -> Read:
    return Read(Tensor("x", F32, (extent("i"),)), (Position(index),))


def test_shared_nodes_are_replaced_once() -> None:
    seen: list[Node] = []

    def change(item: Node) -> Node | None:
        seen.append(item)
        return reading("j") if item is reading("i") else None

    assert replaced(doubled(reading("i")), change) is doubled(reading("j"))
    assert len(seen) == len(set(seen)) < 4 * DEEP


def test_nothing_changed_is_the_same_node() -> None:
    expr = doubled(reading("i"))
    assert replaced(expr, lambda item: None) is expr


def test_shared_nodes_are_renamed_once() -> None:
    reads: dict[Read, set[Read]] = {}
    assert renamed(doubled(reading("i")), {"i": "j"}, reads) is doubled(reading("j"))
    assert reads == {reading("i"): {reading("j")}}


def test_a_program_that_shares_deeply_compiles() -> None:
    """Every name is used twice and none is large enough to be a kernel of its own."""
    names = [f"t{n}" for n in range(40)]
    lines = [f"  {names[0]}[m, k] = x[m, k] * y[m, k]"]
    lines += [
        f"  {b}[m, k] = {a}[m, k] * {a}[m, k] + 1" for a, b in zip(names, names[1:], strict=False)
    ]
    text = "op f(x: f32[m, k], y: f32[m, k]) -> o: f32[m]\n"
    (program,) = read(text + "\n".join([*lines, f"  o[m] = sum[k](min({names[-1]}[m, k], 1))\n"]))
    x = np.zeros((2, 3), np.float32)
    got = run_prepared(prepare(program, {"x": x, "y": x}))
    np.testing.assert_array_equal(got["o"], [3, 3])
