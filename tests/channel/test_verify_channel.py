"""Every invariant of level 3 refuses what breaks it, by number, with the statements concerned."""

from __future__ import annotations

import pytest

from benchmarks.protocol_faults import load
from tensorc.ir.read_channel import read_channel
from tensorc.ir.verify_channel import verify_channel

# A role that copies in, one that multiplies with one product in flight, one that checks.
WELL = """\
kernel well for h100, persistent
  ring Q: 64 bytes x 1 per tile in shared at 0, by copy, full 1 + 64 bytes, empty 1
  ring A: 64 bytes x 2 in shared at 64, by copy, full 1 + 64 bytes, empty 1
  ring S: 32 bytes x 2 in shared at 256, by threads, full 1, empty 1
  token go: turn of work on mma, barrier 1, given 1
  role load: 1 warp, 24 registers
    prologue
      put Q = load_q()
    steady i from 0
      put A[i] = load_a()
  role work: 4 warps, 200 registers
    prologue
      c[-1] = start()
      get Q
      when [0] exists
        get A[0]
        turn go
        c[0] = mma(Q, A[0], c[-1]) in flight on mma
    steady i from 1
      get A[i]
      turn go
      c[i] = mma(Q, A[i], c[i - 1]) in flight on mma
      wait 1 on mma
      done A[i - 1]
    epilogue
      wait 0 on mma
      when [0] exists
        done A[T - 1]
      done Q
      do store(c[T - 1])
  role check: 4 warps, 40 registers
    steady i from 0
      x[i] = sum()
      put S[i] = copy(x[i])
      pass go
  role see: 4 warps, 40 registers
    steady i from 0
      get S[i]
      do look[i](S[i])
      done S[i]
"""


def test_the_text_is_well_formed() -> None:
    assert verify_channel(read_channel(WELL)) == []


@pytest.mark.parametrize("name", ["gemm", "attention", "balanced"])
def test_the_programs_are_well_formed(name: str) -> None:
    assert verify_channel(load(name)) == []


STEADY = "c[i] = mma(Q, A[i], c[i - 1]) in flight on mma"


@pytest.mark.parametrize(
    ("rule", "old", "new", "words"),
    [
        ("C1", "ring S", "ring A", ["ring or value A is declared 2 times"]),
        ("C1", "role see", "role check", ["role check is declared 2 times"]),
        ("C1", "x[i] = sum()", "A[i] = sum()", ["ring or value A is declared 2 times"]),
        ("C1", "      do store(c[T - 1])", "      c[T] into d = copy(c[T - 1])",
         ["value c lies in the registers of c and d"]),
        ("C2", "get S[i]", "get R[i]", ["`get R[i]`: R is not declared"]),
        ("C2", "turn go\n        c", "turn gone\n        c", ["`turn gone`: gone is not declared"]),
        ("C2", "look[i](S[i])", "look[i](y[i])", ["y is no ring and no value of this role"]),
        ("C2", "turn of work", "turn of nobody", ["there is no role nobody"]),
        ("C2", "  role load", "  token no: turn of work on mma, barrier 2\n  role load",
         ["no is declared and never used"]),
        ("C3", "64 bytes x 2 in", "64 bytes x 0 in", ["ring A: 64 bytes x 0"]),
        ("C3", "64 bytes x 2 in", "64 bytes x 65 in", ["ring A: 64 bytes x 65", "1 to 64"]),
        ("C3", "steady i from 1", "steady i from 1000000", ["steady from 1000000", "0 to 16"]),
        ("C3", "wait 1 on mma", "wait 99 on mma", ["`wait 99 on mma`", "at most 16"]),
        ("C3", "done A[i - 1]", "done A[i - 999]", ["`done A[i - 999]`", "at most 16"]),
        ("C3", "barrier 1", "barrier 16", ["a named barrier is 1 to 15"]),
        ("C3", "given 1", "given 2", ["holds one turn"]),
        ("C3", "at 256", "at 128", ["`put A` and `put S` write the same bytes", "A ends at 192"]),
        ("C4", "64 bytes, empty 1\n  ring S", "64 bytes, empty 2\n  ring S",
         ["`put A` waits for 2 arrivals, `done A` makes 1 (work)"]),
        ("C4", "by copy, full 1 + 64 bytes, empty 1\n  ring S",
         "by copy, full 1 + 60 bytes, empty 1\n  ring S",
         ["`get A` waits for 60 bytes, `put A` by copy brings 64"]),
        ("C4", "by threads, full 1,", "by threads, full 128,",
         ["`get S` waits for 128 arrivals, `put S` makes 1"]),
        ("C4", "      put Q = load_q()", "      do nothing()",
         ["`get Q` waits for what no `put Q` fills"]),
        ("C4", "      x[i] = sum()", "      x[i] = sum()\n      put A[i] = load_a()",
         ["load does `put A[i] = load_a()` and check does `put A[i] = load_a()`"]),
        ("C5", "get A[0]", "get A[T]", ["work, prologue: `get A[T]`"]),
        ("C5", "get Q", "get Q[0]", ["Q is put once per tile"]),
        ("C5", "get A[i]", "get A", ["A is put once per iteration"]),
        ("C5", "      put A[i] = load_a()", "      put A[i] = load_a()\n      put Q = load_q()",
         ["`put Q = load_q()` repeats in every step"]),
        ("C6", "      put A[i] = load_a()", "      put A[i + 1] = load_a()",
         ["`put A[i + 1] = load_a()` is for A[1], A[0] is next, see `get A`"]),
        ("C6", "done A[T - 1]", "done A[T]", ["`done A[T]` is for A[1], A[0] is next"]),
        ("C6", "      done Q\n", "", ["`get Q` is not followed by enough `done Q`"]),
        ("C6", "steady i from 0\n      put A", "steady i from 1\n      put A",
         ["`put A[i] = load_a()` is for A[1], A[0] is next"]),
        ("C7", "mma(Q, A[i], c[i - 1])", "mma(Q, A[i + 1], c[i - 1])",
         ["reads A[2], which is not held: `get A` has not come"]),
        ("C7", "      done Q\n      do store(c[T - 1])", "      done Q\n      do store(Q)",
         ["`do store(Q)` reads Q[0], which is not held: `done Q` came before"]),
        ("C8", "wait 1 on mma", "wait 2 on mma",
         ["`done A[i - 1]` gives back what `c[0] = mma", "in flight still reads"]),
        ("C9", "      wait 0 on mma\n      when [0] exists\n        done A[T - 1]\n      done Q\n"
         "      do store(c[T - 1])\n",
         "      do store(c[T - 1])\n      wait 0 on mma\n      when [0] exists\n"
         "        done A[T - 1]\n      done Q\n",
         ["`do store(c[T - 1])` reads c while `c[0] = mma", "in flight writes it"]),
        ("C9", "c[T - 1])", "c[T - 2])", ["T = 0", "reads c[-2]", "left c[-1]"]),
        ("C9", "c[-1] = start()", "do nothing()", ["which nothing has written"]),
        ("C9", STEADY, f"x1[i] = sum()\n      {STEADY}\n      c[i] = copy(x1[i])",
         ["`c[i] = copy(x1[i])` writes what `c[0] = mma", "in flight writes"]),
        ("C10", "      do look[i](S[i])\n", "      do look[i](S[i])\n      do look[i](S[i])\n",
         ["operation look of iteration 0 runs 2 times"]),
        ("C10", "do look[i](S[i])", "do sum[i](S[i])", ["operation sum is in roles check and see"]),
        ("C11", "      done Q\n      do store(c[T - 1])",
         "      done Q\n      do store(c[T - 1]) in flight on tma",
         ["`do store(c[T - 1]) in flight on tma` is still in flight"]),
        ("C12", "x[i] = sum()", "x[i] = sum() in flight on alu",
         ["check: what it holds or has in flight still changes"]),
        ("C13", "      pass go\n", "      pass go\n      pass go\n",
         ["`turn go` happens 1 times and `pass go` 2 times"]),
        ("C13", "      pass go\n", "      turn go\n", ["only work takes it"]),
        ("C13", "wait 1 on mma", "pass go\n      wait 1 on mma", ["its taker cannot pass it"]),
    ],
)  # fmt: skip
def test_what_breaks_an_invariant_is_refused(
    rule: str, old: str, new: str, words: list[str]
) -> None:
    assert old in WELL
    faults = verify_channel(read_channel(WELL.replace(old, new)))
    found = [fault for fault in faults if fault.startswith(f"{rule}:")]
    assert found, faults
    assert any(all(word in fault for word in words) for fault in found), found


def test_a_commit_may_read_what_its_own_queue_has_put_while_it_is_there() -> None:
    text = """\
kernel queue for b200
  ring S: 64 bytes x 2 in tensor at 0, by commit, full 1, empty 1
  role issue: 1 warp, 24 registers
    steady i from 0
      put S[i] = one()
      do two[i](S[i]) in flight on commit
  role see: 4 warps, 40 registers
    steady i from 0
      get S[i]
      do look[i](S[i])
      done S[i]
"""
    assert verify_channel(read_channel(text)) == []
    late = verify_channel(read_channel(text.replace("two[i](S[i])", "two[i](S[i - 2])")))
    assert any(f.startswith("C7") and "reads S[-2]" in f for f in late)
    threads = verify_channel(read_channel(text.replace(" in flight on commit", "")))
    assert any(f.startswith("C7") for f in threads)


def test_what_no_wait_retires_is_given_back_on_completion_and_reads_no_registers() -> None:
    text = """\
kernel commit for b200
  ring A: 64 bytes x 2 in shared at 0, by copy, full 1 + 64 bytes, empty 1
  role load: 1 warp, 24 registers
    steady i from 0
      put A[i] = load()
  role issue: 1 warp, 24 registers
    steady i from 0
      get A[i]
      do mma[i](A[i]) in flight on commit
      done A[i] on completion
"""
    assert verify_channel(read_channel(text)) == []
    early = verify_channel(read_channel(text.replace(" on completion", "")))
    assert any(f.startswith("C8") and "defer it to completion" in f for f in early)
    reads = text.replace("get A[i]", "get A[i]\n      x[i] = f()").replace("(A[i])", "(A[i], x[i])")
    assert any("is not waited for and reads x" in f for f in verify_channel(read_channel(reads)))
