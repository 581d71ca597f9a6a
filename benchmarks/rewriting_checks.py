"""What rewriting has to withstand, counted: `python -m benchmarks.rewriting_checks [PROGRAMS]`.

Tables in other orders, hash seeds, extraction against brute force, planted wrong rules, generated
programs. `benchmarks.rewriting` prints these lines too.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.problems.rewrites import DISCOVERIES
from tensorc.fuzz import from_rules, generate
from tensorc.ir.choose import RandomChooser
from tensorc.ir.print_tensor import show_program
from tensorc.ir.verify_tensor import verify
from tensorc.lang import read
from tensorc.passes.algebra.check_rule import fire
from tensorc.passes.algebra.extract import choose, dag_cost
from tensorc.passes.algebra.rules import FAST, RULES
from tensorc.passes.algebra.saturate import rewrite, sizes_of_program
from tensorc.passes.algebra.validate import validate
from tensorc.passes.canonicalise import canonicalise
from tensorc.passes.complex_parts import complex_parts
from tests.passes.planted_rules import planted
from tests.passes.test_extract import cheapest, problem

ORDERS, SEEDS, SMALL, FIRINGS = 4, 10, 200, 20
ROOT = Path(__file__).parents[1]


def lines(programs: int = 2000) -> Iterator[str]:
    """Every count beside its bar."""
    yield f"tables in {ORDERS} other orders: {_orders()} of {len(DISCOVERIES)} programs the same"
    yield f"{SEEDS} hash seeds, each in a cold process: {_digests()} different result (bar 1)"
    equal, worse = _against_brute_force()
    yield f"extraction on {SMALL} small e-graphs: {equal} as brute force, {worse} worse than greedy"
    yield _planted()
    yield _generated(programs)


def _orders() -> int:
    """How many discoveries give one program under every order of the rules."""
    same = 0
    for found in DISCOVERIES:
        program = canonicalise(read(found.text, "rewrite.tc")[0])
        sizes = sizes_of_program(program, found.sizes)
        table = list(RULES if found.every else FAST)
        results = {rewrite(program, sizes, table).program}
        for seed in range(ORDERS):
            order = random.Random(seed).sample(table, len(table))
            results.add(rewrite(program, sizes, order).program)
        same += len(results) == 1
    return same


_PRINT = "from benchmarks.rewriting_checks import digest; print(digest())"


def digest() -> str:
    """What becomes of all discoveries, in this process."""
    from hashlib import sha256

    made = sha256()
    for found in DISCOVERIES:
        program = canonicalise(read(found.text, "rewrite.tc")[0])
        rules = RULES if found.every else FAST
        result = rewrite(program, sizes_of_program(program, found.sizes), rules).program
        made.update(show_program(result).encode())
    return made.hexdigest()


def _digests() -> int:
    """How many different digests this process and others with `SEEDS` hash seeds have."""
    found = {digest(), digest()}  # cold and warm
    for seed in range(SEEDS):
        done = subprocess.run(
            [sys.executable, "-c", _PRINT], env={**os.environ, "PYTHONHASHSEED": str(seed)},
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        found.add(done.stdout.strip())
    return len(found)


def _against_brute_force() -> tuple[int, int]:
    """(Small problems on which extraction is optimal, those on which greedy is better)."""
    equal = worse = compared = seed = 0
    while compared < SMALL:
        options = problem(RandomChooser(seed))
        seed += 1
        want = cheapest(options)
        if want is None:
            continue
        chosen, _, greedy = choose(options, (0,))
        compared += 1
        equal += dag_cost(chosen, (0,)) == want
        worse += dag_cost(chosen, (0,)) > greedy
    return equal, worse


def _planted() -> str:
    rules, found, most = planted(), 0, 0
    for rule in rules:
        firings = 0
        for seed in range(FIRINGS):
            made = fire(rule, rule.sample(RandomChooser(seed)), seed)
            near = fire(rule, rule.near_miss(RandomChooser(seed)), seed)
            firings += bool(made.matches) + bool(near.matches)
            if made.clashes or near.clashes:
                found, most = found + 1, max(most, firings)
                break
    return (
        f"wrong rules: {found} of {len(rules)} found, after at most {most} firings (bar {FIRINGS})"
    )


def _generated(count: int) -> str:
    """Half of the programs are made of rules' left sides, half from the whole language. What a rule
    might apply to is rewritten, whether that pays or not."""
    verdicts: Counter[str] = Counter()
    changed = 0
    for seed in range(count):
        make = from_rules.generate if seed % 2 else generate.generate
        made = make(RandomChooser(seed))
        program = canonicalise(complex_parts(made.program))
        result = rewrite(program, made.sizes, worth=9.0).program  # whatever it costs
        if result is program:
            verdicts["unchanged"] += 1
            continue
        changed += 1
        faults = verify(result, accesses=False)
        outcome = "broken" if faults else validate(program, result, made.sizes).outcome.value
        verdicts[outcome] += 1
        if outcome in ("broken", "FAIL"):
            print(f"  seed {seed}: {outcome}", file=sys.stderr)
    shown = ", ".join(f"{n} {name}" for name, n in sorted(verdicts.items()))
    return f"{count} generated programs: {changed} rewritten; {shown} (bar: 0 FAIL, 0 broken)"


def main() -> None:
    """Print the lines."""
    for line in lines(int(sys.argv[1]) if len(sys.argv) > 1 else 2000):
        print(line, flush=True)


if __name__ == "__main__":
    main()
