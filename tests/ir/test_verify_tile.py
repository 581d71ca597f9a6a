"""Every invariant of level 2 has a text that breaks it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tensorc.ir import verify_tile
from tensorc.ir.dtypes import F16
from tensorc.ir.read_tile import read
from tensorc.ir.tensor import Round
from tensorc.ir.tile import Loop
from tensorc.ir.verify_tile import verify

TEXTS = Path(__file__).parents[1] / "golden" / "tile"
NORM = """
program norm for avx512
index m, d, r = |m| // 4
input x: f32[m, d]
input len: i32[m]
output y: f32[m, d]
workspace t: f32[|m|]

kernel sums(x) -> t
  grid m
  loop d by 16
    carry s[d] = 0                             f32 register
    X[d] = select(d < |d|, x[m, d], 0)         f32 register  edge d    by vector
    s'[d] = s + X * X                          f32 register            by vector
  u = sum[d](s)                                f32 register            by vector
  store t[m] = u                                                       by vector

kernel scale(x, t) -> y
  grid m by 4
  loop d by 16
    T[m] = t[m]                                f32 register            by vector
    each m
      Y[m, d] = x[m, d] * rsqrt(T)             f32 memory              by vector
      Z[m, d] = Y + 1                          f32 memory    into Y    by vector
    store y[m, d] = Z                                                  by vector

"""
STEPS = """
program steps for avx512
index m, i, k
input a: f32[i, k]
output o: f32[i]

kernel steps(a) -> o
  grid i by 4
  loop k by 8
    carry c[i] = 0                     f32 memory
    A[i, k] = a[i, k]                  f32 global          by view
    c'[i] = c + sum[k](A)              f32 memory  into c  by vector exact k
  store o[i] = c                                           by vector
"""


def text(name: str) -> str:
    found = {"norm": NORM, "steps": STEPS}.get(name)
    return found if found is not None else (TEXTS / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", ["norm", "steps"])
def test_the_texts_are_right(name: str) -> None:
    assert verify(read(text(name))) == []


BROKEN = [
    ("norm", "kernel scale", "kernel sums", "T1: kernel sums is defined 2 times"),
    ("norm", "    each m\n", "    T[m] = t[m]  f32 register  by vector\n    each m\n",
     "scale: T1: tile T is defined 2 times"),
    ("norm", "    each m\n", "    len[m] = t[m]  f32 register  by vector\n    each m\n",
     "scale: T1: tile len has the name of a tensor or an index"),
    ("norm", "    each m\n", "    edge_[m] = t[m]  by vector\n    each m\n",
     "a column with the tile's type and space is missing"),
    ("norm", "    each m\n", "    lowest[m] = t[m]  f32 register  by vector\n    each m\n",
     "scale: T1: lowest is no name for a tile"),
    ("norm", "s'[d] = s + X * X", "s'[d] = s + Y * X", "no tile, index or tensor"),
    ("norm", "store t[m] = u ", "store t[m] = X ", "sums: T2: store t: tile X is not in scope"),
    ("norm", "kernel sums(x) -> t", "kernel sums() -> t",
     "sums: T3: X[d]: x is not among the tensors that the kernel reads"),
    ("norm", "kernel scale(x, t) -> y", "kernel scale(x) -> y, t",
     "scale: T3: T[m]: t is not among the tensors that the kernel reads"),
    ("norm", "kernel scale(x, t) -> y", "kernel scale(x, t) -> y, t",
     "scale: T3: t is read and stored by one kernel"),
    ("norm", "kernel sums(x) -> t", "kernel sums(x, t) -> t",
     "T3: sums reads t before any kernel stores it"),
    ("norm", "workspace t: f32[|m|]", "workspace t: f32[|m|]\nworkspace w: f32[|m|]",
     "T3: no kernel stores w"),
    ("norm", "kernel sums(x) -> t", "kernel sums(x) -> t, len",
     "T3: sums stores len, no output and no workspace"),
    ("norm", "kernel scale(x, t) -> y\n  grid m by 4\n", "kernel scale(x, t) -> y\n  grid m, q\n",
     "scale: T4: index q has no extent"),
    ("norm", "kernel scale(x, t) -> y\n  grid m by 4\n", "kernel scale(x, t) -> y\n  grid m, d\n",
     "scale: T4: loop d: index d is bound twice"),
    ("norm", "T[m] = t[m] ", "T = t[m] ",
     "scale: T5: T[]: index m with 4 lanes is no axis of the statement"),
    ("norm", "T[m] = t[m] ", "T[m=8] = t[m] ",
     "scale: T6: T[m]: axis m has 8 lanes where its index has 4"),
    ("norm", "carry s[d] = 0 ", "carry s[d=8] = 0 ",
     "sums: T6: carry s: axis d has 8 lanes where its index has 16"),
    ("attention_sm90", "whole d by 128", "whole d by 64",
     "attention: T6: whole d has 64 lanes, its extent is 128"),
    ("norm", "each m\n", "each m by 3\n", "scale: T7: each m by 3: the index has 4 lanes"),
    ("norm", "loop d by 16\n    T", "loop d by 0\n    T", "scale: T7: loop d by 0"),
    ("norm", "u = sum[d](s) ", "u = sum[d](1) ", "sums: T8: u[]: d is reduced but does not occur"),
    ("norm", "u = sum[d](s) ", "u[d=16] = sum[d](s) ",
     "sums: T8: u[d]: d is reduced and an axis of the result"),
    ("norm", "u = sum[d](s) ", "u = mean[d](s) ",
     "sums: T8: u[]: mean is no reduction of level 2"),
    ("norm", "Z[m, d] = Y + 1                          f32", "Z[m, d] = Y + 1  i32",
     "scale: T9: Z[m, d]: a value of type f32 is not stored as i32 without a cast"),
    ("norm", "u = sum[d](s) ", "u = any[d](s) ", "sums: T9: u[]: any takes no f32"),
    ("norm", "s'[d] = s + X * X", "q'[d] = s + X * X",
     "sums: T10: loop d: carry s is not continued as s'"),
    ("norm", "s'[d] = s + X * X                          f32", "s'[d] = s + X * X  f64",
     "sums: T10: loop d: s' is not like the carry s"),
    ("norm", "carry s[d] = 0  ", "carry s[d] = m  ",
     "sums: T11: carry s: it starts as an expression that is not constant"),
    ("norm", "carry s[d] = 0                             f32", "carry s[d] = lowest  bool",
     "sums: T11: carry s: lowest is no start of a tile of bool"),
    ("steps", "f32 memory  into c  by vector exact k", "f32 memory  by vector exact k",
     "steps: T12: carry c in memory is continued as c', stored elsewhere"),
    ("norm", "u = sum[d](s) ", "u = sum[d](s * d) ",
     "sums: T13: u[]: outside its loop, d counts lanes and has no position"),
    ("steps", "c'[i] = c + sum[k](A)              f32", "c'[i] = c + sum[k](A)  f64",
     "steps: T14: c'[i]: c is f32, the result f64"),
    ("steps", "carry c[i] = 0                     f32 memory",
     "carry c = 0  f32 memory", "steps: T14: c'[i]: c has other axes"),
    ("norm", "f32 memory    into Y    by", "f32 register    into Y    by",
     "scale: T15: Z[m, d]: Y is in memory, the result in register"),
    ("norm", "f32 memory    into Y    by", "f16 memory    into Y    by",
     "scale: T15: Z[m, d]: Y is not like it"),
    ("norm", "store y[m, d] = Z ", "store y[m, d] = Y ",
     "scale: T16: Z: Y is read after Z took its storage"),
    ("steps", "c + sum[k](A) ", "c + sum[k](A * c) ",
     "steps: T16: c': it reduces c while replacing it"),
    ("norm", "X[d] = select(d < |d|, x[m, d], 0) ", "X[d] = x[m, d] ",
     "sums: T17: X[d]: it guards an edge, but is no select"),
    ("norm", "select(d < |d|, x[m, d], 0)", "select(x[m, d] < 1, x[m, d], 0)",
     "sums: T17: X[d]: the condition of a guard depends on data of many lanes"),
    ("norm", "select(d < |d|, x[m, d], 0)", "select(m < |m|, x[m, d], 0)",
     "sums: T18: X[d]: it guards the edge of d, on which its condition does not depend"),
    ("attention_sm90", "min(base(m)", "min(base(n)",
     "attention: T19: loop n: n is bound by no enclosing block"),
    ("attention_sm90", "full 0..base(m) - |m|", "full 0..base(m) - |q|",
     "attention: T19: loop n: |q| is no extent"),
    ("norm", "index m, d, r = |m| // 4", "index m, d, r = |q| // 4",
     "T19: r: a size is not made of |q|"),
    ("norm", "workspace t: f32[|m|]", "workspace t: f32[base(m)]",
     "T19: t: a size is not made of base(m)"),
    ("norm", "loop d by 16\n    T[m]", "loop d by 16 in 0..min(len[m], |d|)\n    T[m]",
     "scale: T19: loop d: it depends on data along m, which has many lanes"),
    ("norm", "s + X * X", "s + X * seen(m)",
     "sums: T20: s'[d]: no loop over m is open, so none of it was seen"),
    ("norm", "Y[m, d] = x[m, d] * rsqrt(T)", "Y[d] = x[1, d]",
     "scale: T21: each m by 1: tile Y lacks the axis m"),
    ("norm", "Y[m, d] = x[m, d] * rsqrt(T)", "Y[d] = sum[m](x[m, d] * rsqrt(T))",
     "scale: T21: each m by 1: Y reduces it"),
    ("gemm_sm80", "by ldmatrix (m: m x 8, k: k x 2)", "by ldmatrix (m: m x 8, k: m x 2)",
     "gemm: T22: A[m, k]: a role or an axis stands twice"),
    ("gemm_sm80", "by ldmatrix (m: m x 8, k: k x 2)", "by ldmatrix (m: m x 1, k: k x 2)",
     "gemm: T22: A[m, k]: 1 atoms along m"),
    ("gemm_sm80", "by ldmatrix (m: m x 8, k: k x 2)", "by ldmatrix (m: m x 8, k: n x 2)",
     "gemm: T22: A[m, k]: n has a role but is no axis of the statement"),
    ("steps", "exact k", "exact i", "steps: T23: c'[i]: i is walked exactly but not reduced"),
    ("norm", "into Y    by vector", "into Y    by vector fill 0",
     "scale: T23: Z[m, d]: it has a fill, but is no copy of a tensor"),
    ("norm", "into Y    by vector", "into Z  by vector", "there is no tile Z"),
    ("attention_sm90", "K[n, d] = k[b, h, n, d]                        f16 shared swizzle 128",
     "K[n, d] = k[b, h, n, d]                        f16 shared wgmma(n; d)",
     "attention: T24: K[n, d]: a tile in shared has no layout Frame"),
    ("attention_sm90", "r'[m] = max(r, max[n](s))                    f32 register wgmma(m;)",
     "r'[m] = max(r, max[n](s))  f32 register wgmma(n;)",
     "attention: T24: r'[m]: the layout of r' does not fit its axes (m, n)"),
    ("norm", "T[m] = t[m]                                f32 register", "T[m] = t[m]  f32 attic",
     "scale: T24: T[m]: attic is no space"),
    ("norm", "store y[m, d] = Z ", "store y[0, d] = Z[m]",
     "Z is a tile; it is written without subscripts"),
    ("norm", "store t[m] = u ", "store t[0] = u ",
     "sums: T25: store t: it is stored once for nothing, not for m"),
    ("norm", "store t[m] = u ", "store t[m] = s ",
     "sums: T25: store t: its subscripts do not depend on d, so elements are stored many times"),
    ("norm", "store y[m, d] = Z ", "store y[m, 0] = 1 ",
     "scale: T25: store y: its subscripts do not depend on d, so elements are stored many times"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "fault"), BROKEN)
def test_each_invariant_is_found_broken(name: str, old: str, new: str, fault: str) -> None:
    found = text(name)
    assert found.count(old) == 1, f"{old} occurs {found.count(old)} times"
    changed = found.replace(old, new)
    if not re.match(r"(\w+: )?T\d+: ", fault):  # the reader itself says so
        with pytest.raises(ValueError, match=re.escape(fault)):
            read(changed)
        return
    assert fault in verify(read(changed))


def test_a_round_has_no_place_in_a_body() -> None:
    program = read(NORM)
    first, *rest = program.kernels
    loop = first.body[0]
    assert isinstance(loop, Loop)
    step = loop.body[-1]
    wrong = replace(step, body=Round(F16, step.body))  # type: ignore[arg-type,union-attr]
    changed = replace(loop, body=(*loop.body[:-1], wrong))
    kernel = replace(first, body=(changed, *first.body[1:]))
    faults = verify(replace(program, kernels=(kernel, *rest)))
    assert faults == ["sums: T9: s'[d]: Round has no place in a body"]


def test_every_number_of_the_docstring_is_tested() -> None:
    numbers = set(re.findall(r"^ (T\d+) ", verify_tile.__doc__ or "", re.MULTILINE))
    tested = {found for *_, fault in BROKEN for found in re.findall(r"\bT\d+(?=:)", fault)}
    assert numbers == tested
