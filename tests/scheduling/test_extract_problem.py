"""Loop problems from level-2 texts against those written by hand: equal up to names, or the
difference is said here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from benchmarks.problems.attention import attention_hopper
from benchmarks.problems.gemm import gemm
from tensorc.ir.read_tile import read
from tensorc.ir.schedule import LoopProblem, Operation, placement_of
from tensorc.ir.tile import Each, Loop
from tensorc.ir.verify_schedule import verify_problem
from tensorc.ir.verify_tile import verify
from tensorc.machine.machines import MACHINES
from tensorc.machine.product import load_product
from tensorc.passes.scheduling.around_loop import reused
from tensorc.passes.scheduling.extract_problem import extract
from tensorc.passes.scheduling.groups import Unpipelined
from tensorc.passes.scheduling.place_warps import DEEPEST, place_warps
from tensorc.passes.scheduling.schedule import JIT, schedule
from tests.passes.test_tile_chain import CHAINS
from tests.passes.test_tile_product import tiled
from tests.scheduling.texts import loop, program

H100, A100 = load_product("h100"), load_product("a100")
TEXTS = ("gemm", "staged", "attention_sm90", "gemm_sm80")


@pytest.mark.parametrize("name", TEXTS)
def test_problems_and_divided_kernels_are_well_formed(name: str) -> None:
    text = loop(name)
    assert verify_problem(text.problem) == []
    divided = dataclasses.replace(program(name), kernels=(text.kernel,))
    assert verify(divided) == []


def plain(item: Operation, names: Mapping[str, str] | None = None) -> tuple[object, ...]:
    """An operation without its names and without units that do not bound it."""
    longest = max((use.cycles for use in item.uses), default=0)
    uses = {use.unit: use.cycles for use in item.uses if 2 * use.cycles > longest}
    return item.part, uses, item.busy, item.latency, item.warps, item.variable, item.threads


def test_gemm_is_the_problem_written_by_hand() -> None:
    """The text has rows by 128 and columns by 256; its rows are divided between warp groups."""
    found, wanted = loop("gemm").problem, gemm(H100)
    assert [plain(o) for o in found.operations] == [plain(o) for o in wanted.operations]
    assert set(found.dependences) == set(wanted.dependences)
    assert (found.rings, found.values, found.roles) == (wanted.rings, wanted.values, wanted.roles)
    assert (found.units, found.registers) == (wanted.units, wanted.registers)
    assert found.memories == wanted.memories
    assert {f.key for f in wanted.figures} == {f.key for f in found.figures}


def test_staging_takes_memory_from_the_rings() -> None:
    plain_, staged = loop("gemm").problem.memories[0], loop("staged").problem.memories[0]
    assert staged.taken - plain_.taken == 128 * 256 * 2


def test_attention_is_the_problem_written_by_hand() -> None:
    """Differences, all of them: the text scales scores in a statement of its own, so that they are
    another register tile (`s`) beside the products' sums; it computes maxima, scales and their
    rescaling as tiles of their own instead of one of both sizes; and it says that one role makes
    all that is stored in the end."""
    found, wanted = loop("attention_sm90").problem, attention_hopper(H100)
    names = {"ax": "x"}
    mine = {_renamed(o.name, names): o for o in found.operations}
    theirs = {o.name: o for o in wanted.operations}
    assert mine.keys() == theirs.keys()
    for name, item in mine.items():
        other = theirs[name]
        assert abs(item.latency - other.latency) <= 1  # `lx` is one more cycle of `l`
        assert dataclasses.replace(other, busy=0, latency=0).part == item.part
        most = {u.unit: u.cycles for u in other.uses}
        assert all(u.cycles - most[u.unit] in (0, 1) for u in item.uses if u.unit in most)
    assert _edges(found, names) - _edges(wanted, {}) == {
        *((f"r.{p}", f"l.{p}", 0) for p in (0, 1)),  # l is rescaled by x, made beside r
        *((source, target, 8) for source, target in _together(found)),
    }
    assert _edges(wanted, {}) - _edges(found, names) == {
        (f"t.{p}", f"y.{p}", 0) for p in (0, 1)
    }  # the text's y reads s, which r makes of t
    assert (found.roles, found.units, found.registers) == (
        wanted.roles, wanted.units, wanted.registers,
    )  # fmt: skip
    assert [(r.name, r.bytes, r.fill) for r in found.rings] == [
        (r.name, r.bytes, r.fill) for r in wanted.rings
    ]
    assert found.memories == wanted.memories
    sums = [sum(v.registers for v in p.values) for p in (found, wanted)]
    assert sums[0] == sums[1] + 2 * 64


def _together(problem: LoopProblem) -> list[tuple[str, str]]:
    return [(e.source, e.target) for e in problem.dependences if e.distance == 8]


def _renamed(name: str, names: Mapping[str, str]) -> str:
    stem, dot, part = name.partition(".")
    return names.get(stem, stem) + dot + part


def _edges(problem: LoopProblem, names: Mapping[str, str]) -> set[tuple[str, str, int]]:
    return {
        (_renamed(e.source, names), _renamed(e.target, names), e.distance)
        for e in problem.dependences
    }


def test_attention_has_the_schedule_of_the_problem_written_by_hand() -> None:
    made = schedule(loop("attention_sm90").problem, JIT)
    assert made.ii == 2048 == made.certificate.bound
    assert [plan.role for plan in made.roles] == ["load", "consumer0", "consumer1"]


def test_products_of_warps_are_one_role_that_loads_their_operands() -> None:
    """sm_80: copies are started by the threads that multiply, so there is one role, as wide as the
    block; a product loads its fragments, and its warps are busy with it."""
    found = loop("gemm_sm80").problem
    assert [o.name for o in found.operations] == ["As", "Ws", "c"]
    assert [(r.name, r.warps) for r in found.roles] == [("block", 4)]
    wanted = gemm(A100, 128, 128, 32)
    macs = sum(u.cycles for o in wanted.operations for u in o.uses if u.unit == "mma")
    (product,) = (o for o in found.operations if o.name == "c")
    cycles = {use.unit: use.cycles for use in product.uses}
    assert cycles == {"mma": macs, "shared": 2 * 8192 // 128}
    assert product.busy == macs and product.threads
    assert {v.name: v.registers for v in found.values} == {"c": 128}
    assert {r.name: (r.bytes, r.deepest) for r in found.rings} == dict.fromkeys(
        ("As", "Ws"), (8192, DEEPEST)
    )
    for name in ("As", "Ws"):
        (mine,) = (o for o in found.operations if o.name == name)
        (theirs,) = (o for o in wanted.operations if o.name == name[0].replace("W", "B"))
        assert plain(mine) == plain(theirs)


def test_attention_of_warps_has_a_proved_schedule() -> None:
    """Eight warps as one role, in the order of the text; only copies run ahead."""
    kernel = tiled(CHAINS["causal"], "sm_80", {"d": 128, "e": 128}).program.kernels[0]
    text = extract(kernel, MACHINES["sm_80"], A100)
    placed = place_warps(kernel, A100)
    assert placed is not None
    assert [(r.name, r.warps) for r in text.problem.roles] == [("block", placed.warps)]
    made = schedule(text.problem, JIT)
    assert made.ii == made.certificate.bound and made.certificate.proof == "closed form"
    assert made.ii == sum(o.busy for o in text.problem.operations)
    assert {plan.depth for plan in made.rings} == {placed.depth}
    place = placement_of(made)
    computed = [o.name for o in text.problem.operations if not o.variable]
    assert {place[name].stage for name in computed} == {place[computed[0]].stage}
    starts = [place[name].cycle for name in computed]
    assert starts == sorted(starts)
    assert place["Ks"].stage < place[computed[0]].stage  # read by the first operation


def test_rows_are_divided_only_where_that_changes_nothing() -> None:
    loops = [item for item in loop("gemm").kernel.body if isinstance(item, Loop)]
    assert [type(item).__name__ for item in loops[0].body] == ["Let", "Let", "Each"]
    assert isinstance(loop("gemm").kernel.body[1], Each)
    assert loop("gemm_sm80").kernel is program("gemm_sm80").kernels[0]


@pytest.mark.parametrize(
    ("chain", "reason"),
    [
        ("MaxSim", "the loop of j lies in another one"),
        ("RMS norm and product", "has 2 loops one after another, not one"),
    ],
)
def test_what_is_no_loop_problem_is_refused_with_the_reason(chain: str, reason: str) -> None:
    made = tiled(CHAINS[chain], "sm_90a").program
    with pytest.raises(Unpipelined, match=reason):
        extract(made.kernels[0], MACHINES["sm_90a"], H100)


def test_a_result_takes_the_place_of_an_operand_only_where_each_part_does() -> None:
    """`O` lies where `Q` did, as both are divided along m; undivided, or divided otherwise, another
    warp group might still read what one writes."""
    text = loop("attention_sm90")
    ((item, place),) = reused(text.before, text.loop, text.after)
    assert (item.tile.name, place.name) == ("O", "Q")
    (each,) = text.after
    assert isinstance(each, Each)
    assert reused(text.before, text.loop, each.body) == ()
    assert reused(text.before, text.loop, (Each("e", 64, each.body),)) == ()


def test_old_values_of_a_carry_may_not_leave_their_round() -> None:
    """The product of the last iteration is read by a copy's neighbour that is no part of it."""
    text = """\
program p for sm_90a
index m, k, n
input a: f16[m, k]
input w: f16[n, k]
output o: f32[m, n]

kernel p(a, w) -> o
  grid m by 64, n by 64
  loop k by 64
    carry c[m, n] = 0             f32 register wgmma(m; n)
    carry d[m, n] = 0             f32 register wgmma(m; n)
    A[m, k] = a[m, k]             f16 shared swizzle 128            by tma fill 0
    B[n, k] = w[n, k]             f16 shared swizzle 128            by tma fill 0
    d'[m, n] = exp(c) + exp(d)    f32 register wgmma(m; n)          by simt
    c'[m, n] = c + sum[k](A * B)  f32 register wgmma(m; n)  into c  by wgmma.m64n64k16 (m: m, \
n: n, k: k x 4)
  store o[m, n] = c + d                                             by simt
"""
    found = read(text)
    assert verify(found) == []
    with pytest.raises(Unpipelined, match="d reads c, whose registers are updated by c"):
        extract(found.kernels[0], MACHINES["sm_90a"], H100)
