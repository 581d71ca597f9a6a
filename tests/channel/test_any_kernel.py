"""Whatever kernel is given, the verifier, the check and the interpreter answer and do not fail."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensorc.ir.channel import (
    At,
    Call,
    Done,
    Get,
    Kernel,
    Pass,
    Perform,
    Put,
    Read,
    Result,
    Ring,
    Role,
    Statement,
    Token,
    Turn,
    Wait,
    When,
    statements,
)
from tensorc.ir.interpret_channel import check_run, interpret
from tensorc.ir.print_channel import print_channel
from tensorc.ir.verify_channel import verify_channel
from tensorc.passes.pipelining.check_protocol import check_protocol, explore_protocol
from tests.channel.profile import CAMPAIGN

# Few names, so that statements meet.
rings = st.sampled_from("AB")
turns = st.sampled_from("gh")
names = st.sampled_from(["A", "B", "x", "y"])
operations = st.sampled_from(["f", "g", "start", "copy", "signal"])
places = st.builds(At, st.sampled_from(("start", "step", "end")), st.integers(-3, 3))
ats = st.one_of(st.just(At("tile")), places)
calls = st.builds(
    Call, operations, ats, st.lists(st.builds(Read, names, ats), max_size=2).map(tuple)
)
values = st.sampled_from("xyz")
results = st.lists(st.builds(Result, values, values), max_size=2).map(tuple)
simple: st.SearchStrategy[Statement] = st.one_of(
    st.builds(Perform, calls, results, st.sampled_from(["", "u", "commit"])),
    st.builds(Put, rings, calls),
    st.builds(Get, rings, ats),
    st.builds(Done, rings, ats, st.booleans()),
    st.builds(Turn, turns),
    st.builds(Pass, turns),
    st.builds(Wait, st.sampled_from("uv"), st.integers(0, 2)),
)
small = st.integers(0, 2)


def _when(inner: st.SearchStrategy[Statement]) -> st.SearchStrategy[Statement]:
    return st.builds(When, places, st.lists(inner, min_size=1, max_size=2).map(tuple))


bodies = st.lists(st.recursive(simple, _when, max_leaves=3), max_size=4).map(tuple)
kernels = st.builds(
    Kernel, st.just("k"), st.just("m"), st.booleans(),
    st.lists(
        st.builds(
            Ring, rings, st.just("shared"), small, st.integers(0, 3), st.integers(0, 3),
            st.sampled_from(("copy", "threads", "commit")), small, small, small,
            st.sampled_from(("iteration", "tile")),
        ), max_size=2,
    ).map(tuple),
    st.lists(
        st.builds(Token, turns, st.just("u"), st.sampled_from("rsq"), small, st.integers(0, 1)),
        max_size=2,
    ).map(tuple),
    st.lists(
        st.builds(Role, st.sampled_from("rs"), small, small, small, bodies, bodies, bodies),
        max_size=2,
    ).map(tuple),
)  # fmt: skip


def _declared(kernel: Kernel) -> bool:
    """Whether names are declared once and rings have slots: what running a kernel needs."""
    kinds = [kernel.rings, kernel.tokens, kernel.roles]
    once = all(len({item.name for item in kind}) == len(kind) for kind in kinds)
    known = {item.name for kind in kinds[:2] for item in kind}
    for role in kernel.roles:
        for item in statements(role):
            match item:
                case Put(name, _) | Get(name, _) | Done(name, _, _) | Turn(name) | Pass(name):
                    once = once and name in known
                case Perform() | Wait() | When():
                    pass
    return once and all(ring.depth for ring in kernel.rings)


@settings(
    max_examples=3000 if CAMPAIGN else 150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(kernels)
def test_every_kernel_is_judged(kernel: Kernel) -> None:
    faults = verify_channel(kernel)
    verdict = check_protocol(kernel, 2000)
    assert verdict.outcome in ("PASS", "FAIL", "UNDECIDED")
    assert not faults or verdict.outcome == "FAIL"
    if _declared(kernel):
        explore_protocol(kernel, 500)
        interpret(kernel, [2], 0)
    for trips in (0, 1, 3) if verdict.outcome == "PASS" else ():
        run = check_run(kernel, [trips], trips)
        assert run.fault is None, f"{print_channel(kernel)}\n{run}"
