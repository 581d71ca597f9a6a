"""Every rule that instructions impose has a program that breaks it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tensorc.ir.dtypes import F16, F32, F64
from tensorc.ir.read_tile import read
from tensorc.machine.instruction import Instruction, describe, equation
from tensorc.machine.machines import MACHINES
from tensorc.machine.product import KEYS
from tensorc.machine.verify_uses import verify

TEXTS = Path(__file__).parents[1] / "golden" / "tile"
NAMES = ("gemm_cpu", "gemm_sm80", "attention_sm90", "attention_cpu")


@pytest.mark.parametrize("name", NAMES)
def test_the_texts_keep_every_rule(name: str) -> None:
    assert verify(read((TEXTS / f"{name}.txt").read_text())) == []


BROKEN = [
    ("gemm_cpu", "for avx512", "for vax", "U1: there is no machine vax"),
    ("gemm_cpu", "by fma.6x64", "by fma.6x16",
     "gemm: U1: c': avx512 has no instruction fma.6x16"),
    ("gemm_cpu", "carry c[m, n] = 0                     f32 memory",
     "carry c[m, n] = 0                     f32 shared", "gemm: U2: c: avx512 has no space shared"),
    ("gemm_sm80", "c + sum[k](A * W)", "c + sum[k](A + W)",
     "gemm: U3: c': its equation is not that of mma.m16n8k16, "
     "d[m, n] = d + sum[k](a[m, k] * b[k, n])"),
    ("gemm_sm80", "by ldmatrix (m: m x 8, k: k x 2)", "by ldmatrix (m: k x 2, k: m x 8)",
     "gemm: U7: A: d does not lie in f16 register m16n8.A(m; k)"),
    ("gemm_sm80", "(m: m x 8, n: n x 16, k: k x 2)", "(m: m x 8, n: k x 4, k: n x 8)",
     "gemm: U4: c': a is A[m, k]; its roles have m, n"),
    ("gemm_sm80", "n: n x 16", "n: n x 8",
     "gemm: U5: c': 128 lanes along n are not 8 atoms of 8"),
    ("attention_sm90", "each m by 64\n      t", "each m by 128\n      t",
     "attention: U5: t: 128 lanes along m are not 1 atoms of 64"),
    ("attention_sm90", "P[m, n] = y                                  f16",
     "P[m, n] = y                                  f32", "attention: U6: a': a is not f32"),
    ("gemm_sm80", "As[m, k] = a[m, k]            f16 shared swizzle 64",
     "As[m, k] = a[m, k]            f16 shared swizzle 128",
     "gemm: U7: A: As: rows of 64 bytes are swizzled by 128"),
    ("gemm_cpu", " exact k", "", "gemm: U8: c': fma.6x64 stops at the end of k"),
    ("gemm_sm80", "k: k x 2)\n  z", "k: k x 2) exact k\n  z",
     "gemm: U8: c': mma.m16n8k16 takes all lanes of k"),
    ("attention_sm90", "Q[m, d] = q[b, h, m, d]                          f16 shared swizzle 128"
     "                      by tma fill 0",
     "Q[m, d] = q[b, h, m, d]  f16 shared swizzle 128  by tma fill 1",
     "attention: U9: Q: tma does not fill with this"),
    ("attention_sm90", "into ax         by wgmma", "by wgmma",
     "attention: U10: a': wgmma.m64n128k16.rs adds to ax where that lies, not elsewhere"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "fault"), BROKEN)
def test_each_rule_is_found_broken(name: str, old: str, new: str, fault: str) -> None:
    text = (TEXTS / f"{name}.txt").read_text()
    assert text.count(old) == 1
    assert fault in verify(read(text.replace(old, new)))


def test_an_instruction_describes_itself() -> None:
    hopper = MACHINES["sm_90a"].instructions["wgmma.m64n128k16.rs"]
    assert equation(hopper) == "d[m, n] = d + sum[k](a[m, k] * b[k, n])"
    assert describe(MACHINES["sm_80"].instructions["mma.m16n8k16"]).splitlines() == [
        "mma.m16n8k16: d[m, n] = d + sum[k](a[m, k] * b[k, n])",
        "  roles: m 16 any, n 8 any, k 16 pad",
        "  d: f32 in register m16n8(m; n)",
        "  a: f16 bf16 in register m16n8.A(m; k)",
        "  b: f16 bf16 in register m16n8.B(n; k)",
    ]


def test_vectors_hold_as_many_elements_as_their_bytes() -> None:
    assert [MACHINES[name].lanes(F32) for name in ("avx512", "avx2", "generic")] == [16, 8, 4]
    assert (MACHINES["avx512"].lanes(F64), MACHINES["avx2"].lanes(F16)) == (8, 16)


DECLARED = re.compile(r"TC_DEV \w+ (tc_\w+)\(([^;]*)\);")
FILLED = {
    "d": "d", "s": "s", "a": "a", "b": "bb", "n": "128", "ta": "0", "tb": "1", "bytes": "16",
    "map": "map", "barrier": "full", "accumulate": "1",
}  # fmt: skip


def calls(instruction: Instruction) -> list[str]:
    """What the text of an instruction becomes for every type and rank."""
    if "{rank}" in instruction.text:
        filled = [{"rank": rank, "coordinates": ", ".join("c" * rank)} for rank in range(1, 6)]
    else:
        filled = [{"type": str(dtype)} for dtype in instruction.operands[0].dtypes]
    return [instruction.text.format(**FILLED, **more) for more in filled]


@pytest.mark.parametrize("machine", ["sm_80", "sm_90a"])
def test_texts_call_helpers_that_exist_with_as_many_arguments(machine: str) -> None:
    header = (TEXTS.parents[2] / "codegen" / "device_helpers.h").read_text()
    counts = {name: args.count(",") + 1 for name, args in DECLARED.findall(header)}
    found = {
        call
        for item in MACHINES[machine].instructions.values()
        if item.text
        for call in calls(item)
    }
    assert len(found) > 3
    for call in found:
        match = re.fullmatch(r"(tc_\w+)(?:<[\w, ]+>)?\((.*)\);", call)
        assert match is not None, call
        assert counts.get(match[1]) == match[2].count(",") + 1, call


def test_costs_are_priced_by_numbers_that_products_have() -> None:
    for machine in MACHINES.values():
        for item in machine.instructions.values():
            keys = {item.cost.rate, item.cost.latency, item.cost.issue} - {""}
            assert keys <= set(KEYS), item.name
