"""What an optimum rests on, and which exchanges leave a problem as it is."""

from __future__ import annotations

from fractions import Fraction

from benchmarks.problems.attention import attention_hopper
from benchmarks.problems.attention_blackwell import attention_blackwell
from benchmarks.problems.gemm import gemm
from tensorc.machine.product import load_product
from tensorc.passes.scheduling.schedule import schedule
from tensorc.passes.scheduling.schedule_bounds import limits, waits
from tensorc.passes.scheduling.schedule_search import Effort, tiles_stay
from tensorc.passes.scheduling.schedule_symmetry import symmetries
from tensorc.passes.scheduling.sensitivity import with_sensitivity

H100, B200 = load_product("h100"), load_product("b200")
QUICK = Effort(3.0, 1.0, 0.1, 3)


def test_halving_the_assumed_copy_rate_makes_copies_the_limit() -> None:
    made = with_sensitivity(schedule(gemm(H100)), gemm, H100, QUICK)
    table = {(s.key, s.factor): s for s in made.certificate.sensitivity}
    assumed = {f.key for f in made.certificate.figures if f.source == "assumed" and f.value}
    assert {key for key, _ in table} == assumed
    assert table["rate.copy", Fraction(1, 2)].ii == 48 * 1024 // 32
    assert table["rate.copy", Fraction(3, 2)].ii == 1024
    assert table["cost.mbarrier", Fraction(3, 2)].roles == ("load", "consumer0", "consumer1")


def test_like_parts_and_chunks_are_found() -> None:
    assert symmetries(gemm(H100)).opposite == "c.1"
    assert symmetries(attention_hopper(H100)).opposite == "t.1"
    cuts = symmetries(attention_blackwell(B200, 4))
    chunks = [(f"y.{p}.{c}", f"y.{p}.{c + 1}") for p in range(2) for c in range(3)]
    assert cuts.opposite == "t.1" and list(cuts.ordered) == chunks


def test_unlike_parts_are_not_exchanged() -> None:
    problem = gemm(H100)
    from dataclasses import replace

    first, second = problem.operations[2:]
    longer = replace(second, latency=second.latency + 1)
    changed = replace(problem, operations=(*problem.operations[:2], first, longer))
    assert symmetries(changed).opposite == "" and symmetries(changed).ordered == ()


def test_the_recurrence_of_attention_on_blackwell() -> None:
    """Scores, load, maximum, power, conversion, product, and back to the scores' slot."""
    problem = attention_blackwell(B200, 1)
    limit = limits(problem)[0]
    chain = (512 + 303) + 358 + 256 + 1024 + (128 + 48) + 512
    assert (limit.cycles, limit.name) == (chain, "recurrence t.1 s.1 r.1 y.1 P.1 a.1")
    assert len(waits(problem)) > len(problem.dependences)


def test_tiles_stay_in_their_role_and_rows_may_leave() -> None:
    narrow = tiles_stay(attention_hopper(H100))
    moved = {edge.carries for edge in narrow.dependences if edge.transfer}
    assert "r.0" in moved and not {"t.0", "y.0", "P.0"} & moved
