"""Extraction against brute force over all choices of small problems; what is shared counts once."""

from __future__ import annotations

import itertools
import os

from tensorc.ir.choose import Chooser, RandomChooser
from tensorc.passes.algebra.egraph import ENode
from tensorc.passes.algebra.extract import acyclic, choose, dag_cost, walked
from tensorc.passes.algebra.prices import Option

COUNT = 200 if os.environ.get("TENSORC_PROFILE") == "campaign" else 60


def problem(chooser: Chooser) -> dict[int, list[Option]]:
    """Up to 7 classes with up to 3 options; the last class needs nothing, cycles may occur."""
    count = chooser.integer(3, 7)
    made: dict[int, list[Option]] = {}
    for number in range(count):
        leaf = Option(ENode("Leaf", (f"x{number}",), ()), (), chooser.integer(1, 60))
        options = [leaf] if number == count - 1 or chooser.integer(0, 2) == 0 else []
        for _ in range(chooser.integer(1, 2) if number < count - 1 else 0):
            needs = {chooser.integer(0, count - 1) for _ in range(2)} - {number} or {count - 1}
            node = ENode("Add", (), tuple(sorted(needs)))
            options.append(Option(node, node.args, chooser.integer(0, 20)))
        made[number] = options
    return made


def cheapest(options: dict[int, list[Option]]) -> int | None:
    """The least cost over all choices; None if every one has a cycle."""
    costs: list[int] = []
    for picked in itertools.product(*options.values()):
        chosen = dict(zip(options, picked, strict=True))
        if acyclic({n: chosen[n] for n in walked(chosen, (0,))}, (0,)):
            costs.append(dag_cost(chosen, (0,)))
    return min(costs, default=None)


def test_extraction_is_optimal() -> None:
    compared = 0
    for seed in range(COUNT):
        options = problem(RandomChooser(seed))
        want = cheapest(options)
        if want is None:
            continue
        chosen, optimal, greedy = choose(options, (0,))
        assert acyclic(chosen, (0,))
        assert optimal, f"seed {seed}"
        assert dag_cost(chosen, (0,)) == want, f"seed {seed}"
        assert want <= greedy
        compared += 1
    assert compared > COUNT // 2


def test_the_fallback_is_no_worse_than_greedy() -> None:
    for seed in range(COUNT):
        options = problem(RandomChooser(seed))
        if cheapest(options) is not None:
            chosen, _, greedy = choose(options, (0,), exact=False)
            assert dag_cost(chosen, (0,)) <= greedy
