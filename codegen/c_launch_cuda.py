"""Ahead-of-time code for a GPU: one C file that holds a cubin and launches its kernels.

`cc main.c NAME.c -lcuda` is all a program needs: the few functions of the CUDA driver that it calls
are declared here. Work is queued on the caller's stream; nothing is allocated, and nothing waits
unless the operator's checks are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorc.codegen.c_launch_cpu import data_text, pointers
from tensorc.codegen.c_signature import Signature
from tensorc.codegen.c_sizes import CHECKED
from tensorc.codegen.cuda import CudaKernel
from tensorc.errors import Unavailable
from tensorc.ir import launch as limits

_PLAIN_SHARED = 48 * 1024  # bytes of dynamic shared memory that need no permission

DRIVER = """\
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
extern int cuModuleLoadData(CUmodule *module, const void *image);
extern int cuModuleUnload(CUmodule module);
extern int cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
extern int cuFuncSetAttribute(CUfunction function, int attribute, int value);
extern int cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, CUstream stream,
                          void **parameters, void **extra);
extern int cuMemsetD8Async(unsigned long long to, unsigned char value, size_t n, CUstream stream);
extern int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t n, CUstream stream);
extern int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t n, CUstream stream);
extern int cuStreamSynchronize(CUstream stream);
"""

FUNCTIONS = """\
/* Loads the code into the current context. TENSORC_UNSUPPORTED: it is for another GPU. */
typedef struct {symbol}_module {symbol}_module;
int {symbol}_load({symbol}_module **module);
void {symbol}_unload({symbol}_module *module);
/* Waits for the stream, and tells whether data that was used as a subscript left its array. */
int {symbol}_check(void *workspace, void *stream);
/* All pointers are the device's. `workspace`: that many bytes, aligned to 256; `stream`: a
 * CUstream, or null. */"""


def header(signature: Signature, target: str) -> str:
    """The `.h` file."""
    before = [f"const {signature.symbol}_module *module", "void *stream"]
    more = FUNCTIONS.format(symbol=signature.symbol)
    return signature.header(target, before, ["void *workspace"], more)


def source(
    signature: Signature, kernels: Sequence[CudaKernel], file: str, tables: Sequence[bytes],
    image: bytes,
) -> str:  # fmt: skip
    """The `.c` file. `file`: the header's name without its ending; `tables`: the bytes of constant
    tensors, in order; `image`: the cubin. Unavailable: sizes are made of values on the device."""
    if signature.scalars():
        raise Unavailable(
            f"sizes of {signature.program.name} are made of const integers, which a launcher in C "
            "cannot read from a GPU; write them as extents"
        )
    symbol, last = signature.symbol, len(signature.buffers)
    own = ", ".join(signature.size_parameters()) or "void"
    arguments = ", ".join([
        f"const {symbol}_module *module", "void *stream", *signature.parameters(),
        "void *workspace",
    ])  # fmt: skip
    return "\n".join([
        f'#include "{file}.h"', "#include <stddef.h>", "#include <stdlib.h>", "", DRIVER, CHECKED,
        data_text("image", image), *(data_text(f"table_{n}", d) for n, d in enumerate(tables)), "",
        f"struct {symbol}_module {{ CUmodule module; CUfunction kernels[{len(kernels)}]; }};", "",
        *_loading(signature, kernels), signature.measure(), "",
        f"int64_t {symbol}_workspace({own}) {{",
        f"  int64_t extent[{len(signature.extents) + 1}], at[{last + 1}];",
        f"  return {signature.measured()} ? at[{last}] : -1;", "}", "",
        *_checking(symbol), f"int {symbol}({arguments}) {{",
        *_body(signature, kernels, tables), "}", "",
    ])  # fmt: skip


def _loading(signature: Signature, kernels: Sequence[CudaKernel]) -> list[str]:
    symbol = signature.symbol
    found = '  bad = bad || cuModuleGetFunction(&made->kernels[{}], made->module, "{}");'
    functions = [found.format(n, one.entry.symbol) for n, one in enumerate(kernels)]
    functions += [
        f"  bad = bad || cuFuncSetAttribute(made->kernels[{n}], 8, {one.shared});  /* its most */"
        for n, one in enumerate(kernels)
        if one.shared > _PLAIN_SHARED
    ]
    return [
        f"int {symbol}_load({symbol}_module **module) {{",
        f"  {symbol}_module *made = malloc(sizeof *made);", "  int bad = 0;",
        "  if (!made) return TENSORC_NO_MEMORY;",
        "  if (cuModuleLoadData(&made->module, image)) return free(made), TENSORC_UNSUPPORTED;",
        *functions,
        f"  if (bad) return {symbol}_unload(made), TENSORC_DRIVER;",
        "  *module = made;", "  return TENSORC_OK;", "}", "",
        f"void {symbol}_unload({symbol}_module *module) {{",
        "  if (module) cuModuleUnload(module->module), free(module);", "}", "",
    ]  # fmt: skip


def _checking(symbol: str) -> list[str]:
    return [
        f"int {symbol}_check(void *workspace, void *stream) {{", "  int64_t failed = 0;",
        "  unsigned long long from = (unsigned long long)(uintptr_t)workspace;",
        "  if (cuMemcpyDtoHAsync_v2(&failed, from, 8, stream)) return TENSORC_DRIVER;",
        "  if (cuStreamSynchronize(stream)) return TENSORC_DRIVER;",
        "  return failed ? TENSORC_OUT_OF_RANGE : TENSORC_OK;", "}", "",
    ]  # fmt: skip


def _body(
    signature: Signature, kernels: Sequence[CudaKernel], tables: Sequence[bytes]
) -> list[str]:
    lines = [
        f"  int64_t extent[{len(signature.extents) + 1}], at[{len(signature.buffers) + 1}];",
        "  int bad = 0;",
        "  const uint64_t space = (uint64_t)(uintptr_t)workspace;",
        f"  if (!{signature.measured()}) return TENSORC_BAD_SIZE;",
        "  if (!module || !space) return TENSORC_NO_ARRAY;",
    ]
    for item in signature.declarations:
        text = signature.arguments[item.tensor.name]
        lines.append(f"  if (!{text} && {signature.nbytes(item.tensor)}) return TENSORC_NO_ARRAY;")
    lines.append("  if (cuMemsetD8Async(space, 0, 16, stream)) return TENSORC_DRIVER;")
    for number, data in enumerate(tables):
        copy = f"cuMemcpyHtoDAsync_v2(space + at[{number}], table_{number}, {len(data)}, stream)"
        lines.append(f"  if ({copy}) return TENSORC_DRIVER;")
    for number, kernel in enumerate(kernels):
        lines += _launch(signature, number, kernel)
    return [*lines, "  return bad ? TENSORC_BAD_SIZE : TENSORC_OK;"]


def _launch(signature: Signature, number: int, kernel: CudaKernel) -> list[str]:
    known = pointers(signature, "space", "space")
    slots = [signature.slot(slot, known, "space") for slot in kernel.entry.slots]
    text = ",\n      ".join(slots) or "0"
    place = ", ".join([*(f"&slots[{n}]" for n in range(len(slots))), "0"])  # a null ends it
    shape = f"(unsigned)count, 1, 1, {kernel.threads}, 1, 1, {kernel.shared}"
    begin = [n for n, slot in enumerate(kernel.entry.slots) if slot.kind == "begin"]
    return [
        "  {", f"    uint64_t slots[] = {{\n      {text}\n    }};",
        f"    void *parameters[] = {{{place}}};",
        f"    const int64_t blocks = {signature.blocks(kernel.entry)};",
        f"    const int64_t most = {limits.LARGEST_GRID};  /* of one launch */",
        "    if (bad) return TENSORC_BAD_SIZE;",
        "    for (int64_t begin = 0; begin < blocks; begin += most) {",
        "      const int64_t count = blocks - begin < most ? blocks - begin : most;",
        *[f"      slots[{n}] = (uint64_t)begin;" for n in begin],
        f"      if (cuLaunchKernel(module->kernels[{number}], {shape}, stream, parameters, 0))",
        "        return TENSORC_DRIVER;", "    }", "  }",
    ]  # fmt: skip
