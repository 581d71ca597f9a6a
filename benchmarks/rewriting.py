"""What the algebra finds, and at which cost: `python -m benchmarks.rewriting`.

Figures beside their bars: the rewrites to discover with their twins, the time of a warm rewrite of
each example, wrong rules and firings until they are found. Times are wall times of this machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.problems.blocks import SIZES, blocks
from benchmarks.problems.in_sequence import cost_in_sequence
from benchmarks.problems.rewrites import DISCOVERIES, Discovery
from examples.sizes import EXAMPLES
from tensorc.ir.choose import RandomChooser
from tensorc.ir.tensor import Program
from tensorc.lang import read
from tensorc.passes.algebra.check_rule import fire
from tensorc.passes.algebra.parts import rewrite_in_parts
from tensorc.passes.algebra.rules import FAST, RULES
from tensorc.passes.algebra.saturate import Rewritten, rewrite
from tensorc.passes.algebra.validate import validate
from tensorc.passes.canonicalise import canonicalise

ROWS, SECONDS = 5000, 0.5  # bars: e-graph rows; saturate and extract, warm
BLOCK, STACK = 0.5, 5.0  # bars: one block, twelve


def main() -> None:
    """Print every table."""
    print("discovered rewrites: cost of the result over the source's, bar, verdict; twin >= 0.98")
    for found in DISCOVERIES:
        print(f"  {found.name:36} {_row(found)}")
    print(f"\nexamples, warm: rows (bar {ROWS}), seconds (bar {SECONDS}), cost, validation")
    for line in _examples():
        print(f"  {line}")
    print(
        f"\ntransformer blocks, warm: seconds of rewriting (bar {BLOCK} and {STACK}), of checking"
    )
    for count in (1, 12):
        print(f"  {count:2} {_blocks(count)}")
    print("\nrules in sequence, each kept where it pays: cost over that of saturation")
    for found in DISCOVERIES:
        print(f"  {found.name:36} {_in_sequence(found):.3f}")
    fired, worst = _rules()
    shown = f"each fired {fired} times without a clash, worst {worst * 1e3:.0f} ms"
    print(f"\nrules: {len(RULES)}, {shown}")


def _row(found: Discovery) -> str:
    ratios: list[float] = []
    verdicts: list[str] = []
    for text in (found.text, *found.variants):
        program, made = _rewritten(text, found)
        ratios.append(_ratio(made))
        verdicts.append(validate(program, made.program, _sizes(program, found)).outcome.value)
    _, twin = _rewritten(found.twin, found)
    shown = " ".join(f"{ratio:.3f}" for ratio in ratios)
    return f"{shown:20} <= {found.most:<6} {' '.join(verdicts):15} twin {_ratio(twin):.3f}"


def _rewritten(text: str, found: Discovery) -> tuple[Program, Rewritten]:
    program = canonicalise(read(text, "rewrite.tc")[0])
    return program, rewrite(program, _sizes(program, found), RULES if found.every else FAST)


def _sizes(program: Program, found: Discovery) -> dict[str, int]:
    stated = {n: size.constant for n, size in program.extents if size.constant is not None}
    return {**{n: found.sizes[n] for n, _ in program.extents if n in found.sizes}, **stated}


def _ratio(made: Rewritten) -> float:
    return made.extracted.cost / made.extracted.contracted if made.extracted else 1.0


def _examples() -> Iterator[str]:
    for example in EXAMPLES:
        for source in read(Path(f"examples/{example.name}.tc").read_text(), example.name):
            program = canonicalise(source)
            rewrite(program, example.sizes)
            start = time.perf_counter()
            made = rewrite(program, example.sizes)
            seconds = time.perf_counter() - start
            if made.graph is None:
                yield f"{example.name:26} no rule can apply: {seconds * 1e3:.2f} ms"
                continue
            start = time.perf_counter()
            verdict = validate(program, made.program, example.sizes)
            checked = time.perf_counter() - start
            yield (
                f"{example.name:26} {made.graph.rows:5} {seconds:7.3f} s  {_ratio(made):.4f}  "
                f"{verdict.outcome.value} in {checked:.3f} s"
            )


def _blocks(count: int) -> str:
    program = canonicalise(read(blocks(count), "blocks.tc")[0])
    rewrite_in_parts(canonicalise(read(blocks(1), "blocks.tc")[0]), SIZES)
    start = time.perf_counter()
    made = rewrite_in_parts(program, SIZES)
    rewritten = time.perf_counter() - start
    start = time.perf_counter()
    verdicts = {validate(old, new, SIZES).outcome.value for old, new in made.parts}
    checked = time.perf_counter() - start
    parts = f"{len(made.parts)} different parts"
    return f"{rewritten:.3f} s  {checked:.3f} s  {parts}, {' '.join(sorted(verdicts))}"


def _in_sequence(found: Discovery) -> float:
    program = canonicalise(read(found.text, "rewrite.tc")[0])
    rules, sizes = RULES if found.every else FAST, _sizes(program, found)
    made = rewrite(program, sizes, rules)
    return cost_in_sequence(program, sizes, rules) / made.extracted.cost if made.extracted else 1.0


def _rules() -> tuple[int, float]:
    """Firings of each rule, and the longest check of one; a clash is an error."""
    worst, count = 0.0, 3
    for rule in RULES:
        for seed in range(count):
            start = time.perf_counter()
            found = fire(rule, rule.sample(RandomChooser(seed)), seed)
            worst = max(worst, time.perf_counter() - start)
            if found.clashes or not found.matches:
                raise AssertionError(f"{rule.name}, seed {seed}: {found}")
    return count, worst


if __name__ == "__main__":
    main()
