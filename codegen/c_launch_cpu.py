"""Ahead-of-time code for a CPU: the C file that calls the kernels of an object file.

`cc main.c NAME.c NAME.o -lm` is all a program needs. The launcher checks sizes and pointers, makes
the workspace where none is given, and runs each kernel over its whole grid.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorc.codegen.c_signature import Signature
from tensorc.codegen.c_sizes import CHECKED
from tensorc.ir.launch import Entry

_NOTE = "/* `workspace`: that many bytes, aligned to 256, or null: then it is allocated here. */"


def header(signature: Signature, target: str) -> str:
    """The `.h` file."""
    return signature.header(target, (), ["void *workspace"], _NOTE)


def source(signature: Signature, file: str, tables: Sequence[bytes], features: str) -> str:
    """The `.c` file. `file`: the header's name without its ending; `tables`: the bytes of constant
    tensors, in order; `features`: what the processor must have, as LLVM writes it."""
    symbol = signature.symbol
    arguments = ", ".join([*signature.parameters(), "void *workspace"])
    own = ", ".join(signature.size_parameters()) or "void"
    externs = "\n".join(
        f"extern void {entry.symbol}(const uint64_t *slots, int64_t begin, int64_t end);"
        for entry in signature.entries
    )
    return "\n".join([
        f'#include "{file}.h"', "#include <stdlib.h>", "#include <string.h>", "", CHECKED, externs,
        "static const uint64_t nothing[8] = {0};  /* what pointers of empty arrays point to */", "",
        *(data_text(f"table_{n}", d) for n, d in enumerate(tables)), signature.measure(), "",
        *_supported(features),
        f"int64_t {symbol}_workspace({own}) {{", *_measured_only(signature), "}", "",
        f"int {symbol}({arguments}) {{", *_body(signature, tables), "}", "",
    ])  # fmt: skip


def data_text(name: str, data: bytes) -> str:
    """Bytes as a C array, aligned for any reader."""
    rows = [",".join(map(str, data[at : at + 32])) for at in range(0, len(data), 32)]
    text = ",\n  ".join(rows) or "0"
    return f"static const uint8_t {name}[] __attribute__((aligned(64))) = {{\n  {text}\n}};"


_CHECKED_FEATURES = ("avx512f", "avx512vl", "avx512bw", "avx512dq", "avx2", "fma")


def _supported(features: str) -> list[str]:
    """Whether the processor has the wide vectors that the object file may use."""
    has = {item[1:] for item in features.split(",") if item.startswith("+")}
    wanted = [item for item in _CHECKED_FEATURES if item in has]
    tests = " && ".join(f'__builtin_cpu_supports("{item}")' for item in wanted) or "1"
    return [f"static int supported(void) {{ return {tests}; }}", ""]


def _measured_only(signature: Signature) -> list[str]:
    """The body of the function that tells the workspace's size."""
    if signature.scalars():
        return ["  return -1;  /* it depends on the values of integers that only a call knows */"]
    return [
        f"  int64_t extent[{len(signature.extents) + 1}], at[{len(signature.buffers) + 1}];",
        f"  return {signature.measured()} ? at[{len(signature.buffers)}] : -1;",
    ]


def _body(signature: Signature, tables: Sequence[bytes]) -> list[str]:
    last = len(signature.buffers)
    lines = [
        f"  int64_t extent[{len(signature.extents) + 1}], at[{last + 1}];",
        "  int bad = 0;",
        "  int64_t failed = 0;",
        "  char *space = (char *)workspace;",
        "  if (!supported()) return TENSORC_UNSUPPORTED;",
        *(
            f"  if (!{text.split('*')[-1]}) return TENSORC_NO_ARRAY;"
            for text in signature.scalars()
        ),
        f"  if (!{signature.measured()}) return TENSORC_BAD_SIZE;",
    ]
    for item in signature.declarations:
        text = signature.arguments[item.tensor.name]
        lines.append(f"  if (!{text} && {signature.nbytes(item.tensor)}) return TENSORC_NO_ARRAY;")
    lines += [
        f"  if (!space && at[{last}] > {_FIRST}",
        f"      && !(space = (char *)aligned_alloc({_FIRST}, at[{last}])))",
        "    return TENSORC_NO_MEMORY;",
    ]
    for number, data in enumerate(tables):
        lines.append(f"  memcpy(space + at[{number}], table_{number}, {len(data)});")
    lines += [line for entry in signature.entries for line in _call(signature, entry)]
    return [
        *lines, "  if (space != workspace) free(space);", "  if (bad) return TENSORC_BAD_SIZE;",
        "  if (failed < 0) return TENSORC_NO_MEMORY;",
        "  return failed ? TENSORC_OUT_OF_RANGE : TENSORC_OK;",
    ]  # fmt: skip


_FIRST = 256  # bytes of the workspace that no buffer uses


def _call(signature: Signature, entry: Entry) -> list[str]:
    known = pointers(signature, "(uint64_t)(uintptr_t)space", "(uint64_t)(uintptr_t)nothing")
    slots = [signature.slot(s, known, "(uint64_t)(uintptr_t)&failed") for s in entry.slots]
    text = ",\n      ".join(slots) or "0"
    call = f"if (!bad && blocks > 0) {entry.symbol}(slots, 0, blocks);"
    return [
        "  {", f"    const uint64_t slots[] = {{\n      {text}\n    }};",
        f"    const int64_t blocks = {signature.blocks(entry)};", f"    {call}", "  }",
    ]  # fmt: skip


def pointers(signature: Signature, space: str, nothing: str) -> dict[str, str]:
    """Where every tensor that kernels know starts; an empty argument starts at `nothing`, which can
    be read. `space`: where the workspace starts."""
    found: dict[str, str] = {}
    for item in signature.declarations:
        text = signature.arguments[item.tensor.name]
        found[item.tensor.name] = f"({text} ? (uint64_t)(uintptr_t){text} : {nothing})"
    for number, tensor in enumerate(signature.buffers):
        found[tensor.name] = f"({space} + (uint64_t)at[{number}])"
    for part, (whole, offset) in signature.parts.items():
        found[part] = f"{found[whole]} + {offset}"
    return found
