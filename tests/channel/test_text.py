"""Level 3 as text: what is printed reads back to the same kernel, what is not is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.protocol_faults import PLANTS, load, planted
from tensorc.errors import NotationError
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
)
from tensorc.ir.print_channel import print_channel
from tensorc.ir.read_channel import DEEPEST, LIMIT, read_channel
from tests.channel.profile import CAMPAIGN

PROGRAMS = ("gemm", "attention", "balanced")

names = st.from_regex(r"[A-Za-z_~'.@0-9]{1,8}", fullmatch=True).filter(
    lambda name: name not in ("into", "in", "on", "exists", "do", "put", "get")
)
numbers = st.integers(0, 10**6)
ats = st.one_of(
    st.just(At("tile")),
    st.builds(At, st.sampled_from(("start", "step", "end")), st.integers(-9, 9)),
)
calls = st.builds(Call, names, ats, st.lists(st.builds(Read, names, ats), max_size=3).map(tuple))
results = st.lists(st.builds(Result, names, names), max_size=2).map(tuple)
simple: st.SearchStrategy[Statement] = st.one_of(
    st.builds(Perform, calls, results, st.one_of(st.just(""), names)),
    st.builds(Put, names, calls),
    st.builds(Get, names, ats),
    st.builds(Done, names, ats, st.booleans()),
    st.builds(Turn, names),
    st.builds(Pass, names),
    st.builds(Wait, names, numbers),
)


def _when(inner: st.SearchStrategy[Statement]) -> st.SearchStrategy[Statement]:
    anchored = ats.filter(lambda at: at.anchor != "tile")
    return st.builds(When, anchored, st.lists(inner, min_size=1, max_size=2).map(tuple))


statements = st.recursive(simple, _when, max_leaves=4)
bodies = st.lists(statements, max_size=4).map(tuple)
rings = st.builds(
    Ring, names, names, numbers, numbers, numbers, st.sampled_from(("copy", "threads", "commit")),
    numbers, numbers, numbers, st.sampled_from(("iteration", "tile")),
)  # fmt: skip
tokens = st.builds(Token, names, names, names, numbers, numbers)
roles = st.builds(Role, names, numbers, numbers, numbers, bodies, bodies, bodies)
kernels = st.builds(
    Kernel, names, names, st.booleans(), st.lists(rings, max_size=2).map(tuple),
    st.lists(tokens, max_size=2).map(tuple), st.lists(roles, max_size=2).map(tuple),
)  # fmt: skip


@settings(max_examples=2000 if CAMPAIGN else 150, deadline=None, derandomize=True)
@given(kernels)
def test_any_kernel_reads_back(kernel: Kernel) -> None:
    """Well formed or not: text and nodes say the same."""
    assert read_channel(print_channel(kernel)) is kernel


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_read_back(name: str) -> None:
    kernel = load(name)
    assert read_channel(print_channel(kernel)) is kernel


def test_planted_programs_read_back() -> None:
    for plant in PLANTS:
        kernel = planted(plant)
        assert read_channel(print_channel(kernel)) is kernel, plant.name


TINY = """\
kernel tiny for h100
  ring A: 64 bytes x 2 in shared at 0, by copy, full 1 + 64 bytes, empty 1
  role load: 1 warp, 24 registers
    steady i from 0
      put A[i] = a()
  role work: 4 warps, 200 registers
    steady i from 0
      get A[i]
      do use[i](A[i])
      done A[i]
"""


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("put A[i] = a()", "putt A[i]", "5:7", "found 'putt A[i]'"),
        ("A[i])", "A[j])", "9:7", "[2], [i - 1] or [T - 1] where it says '[j]'"),
        ("A[i])", "A i)", "9:7", "NAME[ITERATION] where it says 'A i'"),
        ("steady i from 0", "steady from 0", "4:5", "steady i from N"),
        ("bytes x 2", "bytes by 2", "2:3", "ring NAME: BYTES bytes x DEPTH"),
        ("by copy", "by magic", "2:3", "by FILL"),
        ("kernel tiny", "kernel", "1:1", "kernel NAME for MACHINE"),
        ("role load: 1 warp", "role load", "3:3", "role NAME: N warps, N registers"),
        ("      get A[i]", "     get A[i]", "8:6", "5 columns in"),
        ("done A[i]", "x[i], y[i - 1] = f()", "10:7", "all results of one iteration"),
        ("64 bytes x 2", "9999999999999999 bytes x 2", "2:3", "ring NAME"),
    ],
)
def test_errors_name_the_place(old: str, new: str, place: str, words: str) -> None:
    with pytest.raises(NotationError) as caught:
        read_channel(TINY.replace(old, new, 1), "tiny.txt")
    assert caught.value.code == "E108"
    assert caught.value.place == f"tiny.txt:{place}"
    assert words in str(caught.value)


def test_the_empty_text_is_refused() -> None:
    with pytest.raises(NotationError, match="found the end of the text"):
        read_channel("# nothing\n")


def test_long_and_deep_texts_are_refused() -> None:
    with pytest.raises(NotationError, match="1,048,577 characters, the limit is 1,048,576"):
        read_channel("#" * (LIMIT + 1))
    lines = ["kernel k for m", "  role r: 1 warp, 24 registers", "    steady i from 0"]
    lines += [" " * (6 + 2 * k) + "when [i] exists" for k in range(DEEPEST + 2)]
    with pytest.raises(NotationError, match=f"at most {DEEPEST} nested"):
        read_channel("\n".join(lines))
