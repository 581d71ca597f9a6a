"""The helpers' three lists are equal; ptxas takes every helper on its architectures."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tensorc.codegen.emulator_build import HERE, find_compiler
from tests.emulator.profiles import CAMPAIGN
from tests.requirements import need

ARCHES = ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a"]
HEAD = re.compile(
    r"(?:template\s*<(?P<template>[^>]*)>\s*)?"
    r"static\s+(?:__device__\s+)?(?:__forceinline__|inline\s+__attribute__\(\(always_inline\)\))\s+"
    r"(?P<result>[\w ]+?)\s+(?P<name>tc_\w+)\s*"
)


def _expanded(arch: str, emulator: bool) -> str:
    """device.cuh after the preprocessor, for the device or for the emulator."""
    number = re.sub(r"\D", "", arch)
    macros = (
        ["-DTC_EMULATOR", f"-DTC_ARCH={number}"] if emulator else [f"-D__CUDA_ARCH__={number}0"]
    )
    command = [*find_compiler().command, "-E", "-P", "-x", "c++", "-std=c++17", *macros]
    answer = subprocess.run([*command, str(HERE / "device.cuh")], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def _parameters(text: str, at: int) -> tuple[list[str], int]:
    """Parameter types and names between the parentheses that open at `at`, and where they close."""
    parts: list[str] = []
    depth, part = 0, ""
    for end in range(at, len(text)):
        char = text[end]
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(char, 0)
        if depth == 0:
            return [p for p in [*parts, part.strip()] if p], end + 1
        if char == "," and depth == 1:
            parts.append(part.strip())
            part = ""
        elif not (char == "(" and depth == 1 and not part):
            part += char
    raise AssertionError("no end of the parameters")


def _type(parameter: str) -> str:
    """A parameter without its name and default value."""
    plain = re.sub(r"\s*=.*", "", " ".join(parameter.split()))
    if "(&" in plain:
        return re.sub(r"\(&\s*\w*\s*\)", "(&)", plain).replace(" ", "")
    match = re.fullmatch(r"(.*?[\s*])(\w+)", plain)
    bare = plain if plain in ("float", "int", "u32", "u16", "u64") or not match else match.group(1)
    return bare.replace(" ", "")


def helpers(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """(declared, defined): signature by name."""
    declared: dict[str, str] = {}
    defined: dict[str, str] = {}
    for head in HEAD.finditer(text):
        parameters, end = _parameters(text, head.end())
        template = re.sub(r"\s*=\s*\w+", "", head["template"] or "")
        types = ",".join(map(_type, parameters))
        rest = text[end : end + 200].lstrip()
        into = declared if rest.startswith(";") else defined
        signature = f"<{template}> {head['result']} ({types})"
        assert into.setdefault(head["name"], signature) == signature, f"{head['name']} twice"
    return declared, defined


@pytest.mark.parametrize("emulator", [False, True], ids=["device", "emulator"])
@pytest.mark.parametrize("arch", ARCHES)
def test_every_helper_is_defined_as_declared(arch: str, emulator: bool) -> None:
    need("cxx")
    declared, defined = helpers(_expanded(arch, emulator))
    assert len(declared) > 50
    assert declared == defined


VALUES = {
    "u32": "x",
    "u16": "(u16)x",
    "u64": "y",
    "int": "(int)x",
    "float": "f",
    "u32*": "words",
    "constu32*": "words",
    "float*": "floats",
    "void*": "floats",
    "constvoid*": "words",
    "constchar*": '"name"',
    "constCUtensorMap*": "&map",
    "tc_u32x2": "tc_u32x2{x, x}",
    "tc_u32x4": "tc_u32x4{x, x, x, x}",
}
TEMPLATES = {
    "tc_bar_sync": ["1, 128"],
    "tc_bar_arrive": ["1, 128"],
    "tc_setmaxnreg_inc": ["168"],
    "tc_setmaxnreg_dec": ["40"],
    "tc_tmem_load": ["16", "32", "64"],
}


def _instances(name: str, signature: str) -> list[str]:
    if "<>" in signature:
        return [""]
    if name.startswith("tc_wgmma_") and name != "tc_wgmma_wait":
        columns = range(8, 257, 8) if CAMPAIGN else (8, 64, 176, 256)
        integer = name.startswith(("tc_wgmma_s8", "tc_wgmma_u8"))
        majors = ["", ", 0", ", 1"] if "_rs" in name else ["", ", 0, 1", ", 1, 0", ", 1, 1"]
        extra = majors if "TB" in signature else [""]
        ns = [n for n in columns if not integer or n in (8, 16, 24) or n % 16 == 0]
        return [f"{n}{major}" for n in ns for major in extra]
    return TEMPLATES.get(name, ["1"])


def _call(name: str, signature: str, instance: str, number: int) -> str:
    types = signature[signature.index("(") + 1 : -1]
    arguments: list[str] = []
    lines: list[str] = []
    for kind in re.findall(r"(?:[^,(]|\([^)]*\))+", types):
        if match := re.fullmatch(r"(const)?(float|u32|int)\(&\)\[(.*)\]", kind):
            first = instance.split(",")[0]
            size = match[3].replace("N/2", f"{first}/2").replace("N", first)
            variable = f"r{len(lines)}"
            lines.append(f"{match[2]} {variable}[{size}] = {{}};")
            arguments.append(variable)
        else:
            arguments.append(VALUES[kind])
    call = f"{name}{f'<{instance}>' if instance else ''}({', '.join(arguments)})"
    result = signature[signature.index(">") + 1 : signature.index("(")].strip()
    lines.append(f"{call};" if result == "void" else f"floats[{number}] = (float){call};")
    lines += [f"floats[{number}] += (float)r{i}[0];" for i in range(len(lines) - 1)]
    return f"if (which == {number}) {{ {' '.join(lines)} }}"


@pytest.mark.parametrize("arch", ARCHES)
def test_ptxas_takes_every_helper(arch: str, tmp_path: Path) -> None:
    need("cxx")
    need("nvcc")
    declared, _ = helpers(_expanded(arch, emulator=False))
    calls = [
        (name, signature, instance)
        for name, signature in declared.items()
        for instance in _instances(name, signature)
    ]
    bodies = [_call(*call, number) for number, call in enumerate(calls)]
    kernel = (
        '#include "device.cuh"\n'
        "TC_KERNEL(128, 1) all(TC_GRID_CONST CUtensorMap map, float* floats, u32* words,\n"
        "                       int which, u32 x, u64 y, float f) {\n"
        "TC_DYN_SMEM(smem);\n" + "\n".join(bodies) + "\n}\n"
    )
    (tmp_path / "all.cu").write_text(kernel)
    command = [
        "nvcc",
        "-std=c++17",
        f"-arch={arch}",
        "-cubin",
        f"-I{HERE}",
        "-o",
        str(tmp_path / "all.cubin"),
    ]
    answer = subprocess.run([*command, str(tmp_path / "all.cu")], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr[-3000:]


KERNELS = {
    "gemm_sm80.cu": "sm_80",
    "attention_sm80.cu": "sm_80",
    "gemm_sm90a.cu": "sm_90a",
    "gemm_sm90a_cluster.cu": "sm_90a",
    "attention_sm90a.cu": "sm_90a",
    "gemm_sm100a.cu": "sm_100a",
}


@pytest.mark.parametrize("file", KERNELS)
def test_ptxas_leaves_the_kernels_alone(file: str, tmp_path: Path) -> None:
    """No spill, no stack frame, no wait or fence that ptxas had to inject (C75xx)."""
    need("nvcc")
    source = Path(__file__).parent / "kernels" / file
    flags = ["-std=c++17", f"-arch={KERNELS[file]}", "-cubin", "-Xptxas", "-v", f"-I{HERE}"]
    command = ["nvcc", *flags, "-o", str(tmp_path / "kernel.cubin"), str(source)]
    answer = subprocess.run(command, capture_output=True, text=True)
    log = answer.stdout + answer.stderr
    assert answer.returncode == 0, log
    assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in log
    assert "C75" not in log and "warning" not in log, log
