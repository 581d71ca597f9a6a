"""What the algebra finds, and at which cost: `python -m benchmarks.rewriting`.

Every measure beside its bar: the rewrites to discover with their twins, the steps on a transformer
block, a stack of them, phase order, rules by themselves, TENSAT's graphs (`benchmarks.networks`,
which also times them on this CPU) and what has to be withstood (`benchmarks.rewriting_checks`; with
--short a tenth of the generated programs). Times are CPU times of this process.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import networks, rewriting_checks
from benchmarks.problems.blocks import SIZES, blocks
from benchmarks.problems.in_sequence import cost_in_sequence
from benchmarks.problems.rewrites import DISCOVERIES, Discovery
from examples.sizes import EXAMPLES
from tensorc.ir.choose import RandomChooser
from tensorc.ir.tensor import Program
from tensorc.lang import read
from tensorc.passes.algebra.check_rule import fire
from tensorc.passes.algebra.egraph import Limits, saturate
from tensorc.passes.algebra.encode import encode
from tensorc.passes.algebra.extract import extract
from tensorc.passes.algebra.joins import with_joins
from tensorc.passes.algebra.parts import rewrite_in_parts
from tensorc.passes.algebra.rule import text_of
from tensorc.passes.algebra.rules import FAST, RULES
from tensorc.passes.algebra.saturate import Rewritten, rewrite, sizes_of, sizes_of_program
from tensorc.passes.algebra.validate import validate
from tensorc.passes.canonicalise import canonicalise

ROWS, SECONDS = 5000, 0.5  # bars: e-graph rows; saturate and extract
SATURATE, EXTRACT, VALIDATE = 0.25, 0.25, 0.1  # bars of one block
STACK = 5.0  # bar: twelve blocks


def main() -> None:
    """Print every table."""
    for line in lines(200 if "--short" in sys.argv else 2000):
        print(line, flush=True)


def lines(programs: int) -> Iterator[str]:
    """Every table; `programs`: how many are generated."""
    yield "discovered rewrites: cost of the result over the source's, bar, verdict; twin >= 0.98"
    yield from (f"  {found.name:36} {_row(found)}" for found in DISCOVERIES)
    yield f"\nexamples: rows (bar {ROWS}), seconds (bar {SECONDS}), cost, validation"
    yield from (f"  {line}" for line in _examples())
    yield f"\none transformer block: {_block()}"
    yield f"twelve, in parts: {_blocks(12)}"
    yield "\nphase order: cost of the rules in sequence, each kept where it pays, over saturation's"
    yield from (f"  {found.name:36} {_in_sequence(found):.3f}" for found in DISCOVERIES)
    fired, worst = _rules()
    shown = f"each fired {fired} times without a clash, worst {worst * 1e3:.0f} ms"
    yield f"\nrules: {len(RULES)}, {shown}\n"
    yield from networks.lines([], timed=False)
    yield ""
    yield from rewriting_checks.lines(programs)


def _row(found: Discovery) -> str:
    ratios: list[float] = []
    verdicts: list[str] = []
    for text in (found.text, *found.variants):
        program, made = _rewritten(text, found)
        ratios.append(_ratio(made))
        verdicts.append(
            validate(program, made.program, sizes_of_program(program, found.sizes)).outcome.value
        )
    _, twin = _rewritten(found.twin, found)
    shown = " ".join(f"{ratio:.3f}" for ratio in ratios)
    return f"{shown:20} <= {found.most:<6} {' '.join(verdicts):15} twin {_ratio(twin):.3f}"


def _rewritten(text: str, found: Discovery) -> tuple[Program, Rewritten]:
    program = canonicalise(read(text, "rewrite.tc")[0])
    return program, rewrite(
        program, sizes_of_program(program, found.sizes), RULES if found.every else FAST
    )


def _ratio(made: Rewritten) -> float:
    return made.extracted.cost / made.extracted.contracted if made.extracted else 1.0


def _examples() -> Iterator[str]:
    for example in EXAMPLES:
        for source in read(Path(f"examples/{example.name}.tc").read_text(), example.name):
            program = canonicalise(source)
            rewrite(program, example.sizes)
            start = time.process_time()
            made = rewrite(program, example.sizes)
            seconds = time.process_time() - start
            if made.graph is None:
                yield f"{example.name:26} no rule can apply: {seconds * 1e3:.2f} ms"
                continue
            start = time.process_time()
            verdict = validate(program, made.program, example.sizes)
            checked = time.process_time() - start
            yield (
                f"{example.name:26} {made.graph.rows:5} {seconds:7.3f} s  {_ratio(made):.4f}  "
                f"{verdict.outcome.value} in {checked:.3f} s"
            )


def _block() -> str:
    """The steps on one block by themselves."""
    program = canonicalise(read(blocks(1), "blocks.tc")[0])
    made, sizes = rewrite(program, SIZES), dict(SIZES)
    encoded, table = with_joins(encode(program, sizes)), text_of(FAST)
    roots, extents = [term for _, term in encoded.roots], sizes_of(encoded, sizes)
    graph = saturate(roots, encoded.facts(), table, Limits())
    steps: tuple[tuple[str, float, Callable[[], object]], ...] = (
        ("saturate", SATURATE, lambda: saturate(roots, encoded.facts(), table, Limits())),
        ("extract", EXTRACT, lambda: extract(graph, extents)),
        ("validate", VALIDATE, lambda: validate(program, made.program, sizes)),
    )
    shown = [f"{name} {_fastest(run):.3f} s (bar {bar})" for name, bar, run in steps]
    return f"{graph.rows} rows (bar {ROWS}), " + ", ".join(shown)


def _fastest(run: Callable[[], object]) -> float:
    """The least CPU time of three runs."""
    times: list[float] = []
    for _ in range(3):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def _blocks(count: int) -> str:
    program = canonicalise(read(blocks(count), "blocks.tc")[0])
    start = time.process_time()
    made = rewrite_in_parts(program, SIZES)
    rewritten = time.process_time() - start
    start = time.process_time()
    verdicts = {validate(old, new, SIZES).outcome.value for old, new in made.parts}
    checked = time.process_time() - start
    parts = f"{len(made.parts)} different parts"
    return (
        f"{rewritten:.3f} s (bar {STACK}), checked in {checked:.3f} s, {parts}, "
        f"{' '.join(sorted(verdicts))}"
    )


def _in_sequence(found: Discovery) -> float:
    program = canonicalise(read(found.text, "rewrite.tc")[0])
    rules, sizes = RULES if found.every else FAST, sizes_of_program(program, found.sizes)
    made = rewrite(program, sizes, rules)
    return cost_in_sequence(program, sizes, rules) / made.extracted.cost if made.extracted else 1.0


def _rules() -> tuple[int, float]:
    """Firings of each rule, and the longest check of one; a clash is an error."""
    worst, count = 0.0, 3
    for rule in RULES:
        for seed in range(count):
            start = time.process_time()
            found = fire(rule, rule.sample(RandomChooser(seed)), seed)
            worst = max(worst, time.process_time() - start)
            if found.clashes or not found.matches:
                raise AssertionError(f"{rule.name}, seed {seed}: {found}")
    return count, worst


if __name__ == "__main__":
    main()
