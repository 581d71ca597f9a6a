"""Ahead-of-time code for a GPU: one C file that holds cubins and launches their kernels.

`cc main.c NAME.c -lcuda` is all a program needs: the few functions of the CUDA driver that it calls
are declared here. Work is queued on the caller's stream; nothing is allocated, and nothing waits
unless the operator's checks are asked for.

Kernels that take tensor maps stand before others that take none: a call makes the maps, and where
the driver's rules allow none of its arrays it launches the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorc.codegen.c_launch_cpu import data_text, pointers
from tensorc.codegen.c_signature import Signature
from tensorc.codegen.c_sizes import CHECKED
from tensorc.codegen.cuda import CudaKernel
from tensorc.codegen.driver import ELEMENTS, SWIZZLE_SPANS
from tensorc.errors import Unavailable
from tensorc.ir import launch as limits
from tensorc.ir.launch import Map

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

MAPS = """\
extern int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *array,
                                  const uint64_t *shape, const uint64_t *strides,
                                  const uint32_t *box, const uint32_t *steps, int interleave,
                                  int swizzle, int promotion, int fill);

/* A tensor map of a dense array, the fastest dimension first; returns whether there is none. */
static int tc_map(uint64_t *map, int type, unsigned rank, uint64_t bytes, uint64_t array,
                  const int64_t *sizes, const uint32_t *box, int swizzle) {
  const uint32_t steps[5] = {1, 1, 1, 1, 1};
  uint64_t shape[5], strides[5], stride = bytes;
  int bad = array % 16 != 0;
  for (unsigned n = 0; n < rank; n++) {
    shape[n] = (uint64_t)sizes[n];
    bad |= sizes[n] < 1 || sizes[n] >> 32;
    if (bad) return 1;
    stride *= shape[n];
    strides[n] = stride;
    if (n + 1 < rank) bad |= stride % 16 || stride >> 40;
  }
  return bad || cuTensorMapEncodeTiled(map, type, rank, (void *)(uintptr_t)array, shape, strides,
                                       box, steps, 0, swizzle, 2, 0);
}
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


@dataclass(frozen=True)
class Way:
    """Kernels and the cubin that has them."""

    kernels: tuple[CudaKernel, ...]
    image: bytes

    @property
    def maps(self) -> list[Map]:
        """The tensor maps of all kernels, in order."""
        return [item for kernel in self.kernels for item in kernel.maps]


def header(signature: Signature, target: str) -> str:
    """The `.h` file."""
    before = [f"const {signature.symbol}_module *module", "void *stream"]
    more = FUNCTIONS.format(symbol=signature.symbol)
    return signature.header(target, before, ["void *workspace"], more)


def source(
    signature: Signature, ways: Sequence[Way], file: str, tables: Sequence[bytes]
) -> str:  # fmt: skip
    """The `.c` file. `ways`: of which the last takes no tensor maps; `file`: the header's name
    without its ending; `tables`: the bytes of constant tensors, in order. Unavailable: sizes are
    made of values on the device."""
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
        f'#include "{file}.h"', "#include <stddef.h>", "#include <stdlib.h>", "", DRIVER,
        *([MAPS] if len(ways) > 1 else []), CHECKED,
        *(data_text(f"image_{n}", way.image) for n, way in enumerate(ways)),
        *(data_text(f"table_{n}", d) for n, d in enumerate(tables)), "",
        f"struct {symbol}_module {{", f"  CUmodule modules[{len(ways)}];",
        f"  CUfunction kernels[{sum(len(way.kernels) for way in ways)}];", "};", "",
        *_loading(signature, ways), signature.measure(), "",
        f"int64_t {symbol}_workspace({own}) {{",
        f"  int64_t extent[{len(signature.extents) + 1}], at[{last + 1}];",
        f"  return {signature.measured()} ? at[{last}] : -1;", "}", "",
        *_checking(symbol), f"int {symbol}({arguments}) {{",
        *_body(signature, ways, tables), "}", "",
    ])  # fmt: skip


def _loading(signature: Signature, ways: Sequence[Way]) -> list[str]:
    symbol, count = signature.symbol, 0
    loads: list[str] = []
    for number, way in enumerate(ways):
        loads.append(f"  bad = bad || cuModuleLoadData(&made->modules[{number}], image_{number});")
        for kernel in way.kernels:
            place = f"made->kernels[{count}]"
            loads.append(
                f"  bad = bad || cuModuleGetFunction(&{place}, made->modules[{number}], "
                f'"{kernel.entry.symbol}");'
            )
            if kernel.shared > _PLAIN_SHARED:
                loads.append(
                    f"  bad = bad || cuFuncSetAttribute({place}, 8, {kernel.shared});"
                    "  /* its most */"
                )
            count += 1
    return [
        f"int {symbol}_load({symbol}_module **module) {{",
        f"  {symbol}_module *made = calloc(1, sizeof *made);", "  int bad = 0;",
        "  if (!made) return TENSORC_NO_MEMORY;",
        *loads,
        "  if (!bad) return *module = made, TENSORC_OK;",
        f"  bad = made->modules[{len(ways) - 1}] ? TENSORC_DRIVER : TENSORC_UNSUPPORTED;",
        f"  return {symbol}_unload(made), bad;", "}", "",
        f"void {symbol}_unload({symbol}_module *module) {{",
        f"  for (int n = 0; module && n < {len(ways)}; n++)",
        "    if (module->modules[n]) cuModuleUnload(module->modules[n]);",
        "  free(module);", "}", "",
    ]  # fmt: skip


def _checking(symbol: str) -> list[str]:
    return [
        f"int {symbol}_check(void *workspace, void *stream) {{", "  int64_t failed = 0;",
        "  unsigned long long from = (unsigned long long)(uintptr_t)workspace;",
        "  if (cuMemcpyDtoHAsync_v2(&failed, from, 8, stream)) return TENSORC_DRIVER;",
        "  if (cuStreamSynchronize(stream)) return TENSORC_DRIVER;",
        "  return failed ? TENSORC_OUT_OF_RANGE : TENSORC_OK;", "}", "",
    ]  # fmt: skip


def _body(signature: Signature, ways: Sequence[Way], tables: Sequence[bytes]) -> list[str]:
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
    *mapped, last = ways
    number = 0
    for way in mapped:
        lines += [*_maps(signature, way), "  if (!unfit) {"]
        place = 0
        for kernel in way.kernels:
            lines += ["  " + line for line in _launch(signature, number, kernel, place)]
            number, place = number + 1, place + len(kernel.maps)
        lines += ["    return bad ? TENSORC_BAD_SIZE : TENSORC_OK;", "  }"]
    for kernel in last.kernels:
        lines += _launch(signature, number, kernel, 0)
        number += 1
    return [*lines, "  return bad ? TENSORC_BAD_SIZE : TENSORC_OK;"]


def _maps(signature: Signature, way: Way) -> list[str]:
    """The tensor maps of a way, and whether one cannot be made or a grid is too large."""
    known = pointers(signature, "space", "space")
    lines = [f"  _Alignas(64) uint64_t maps[{len(way.maps)}][16];", "  int unfit = 0;"]
    for kernel in way.kernels:
        if kernel.most:
            lines.append(f"  unfit |= {signature.blocks(kernel.entry)} > {limits.LARGEST_GRID};")
    for number, item in enumerate(way.maps):
        code, size = ELEMENTS[item.element]
        shape = [signature.size(one) for one in reversed(signature.shapes[item.tensor])]
        sizes = f"(const int64_t[]){{{', '.join(shape)}}}"
        box = f"(const uint32_t[]){{{', '.join(map(str, reversed(item.box)))}}}"
        lines.append(
            f"  unfit = unfit || tc_map(maps[{number}], {code}, {len(shape)}, {size}, "
            f"{known[item.tensor]},\n                           {sizes}, {box}, "
            f"{SWIZZLE_SPANS.index(item.swizzle)});"
        )
    return lines


def _launch(signature: Signature, number: int, kernel: CudaKernel, first: int) -> list[str]:
    """`number`: of the kernel among all; `first`: of its maps among those of its way."""
    known = pointers(signature, "space", "space")
    slots = [signature.slot(slot, known, "space") for slot in kernel.entry.slots]
    text = ",\n      ".join(slots) or "0"
    maps = [f"maps[{first + n}]" for n in range(len(kernel.maps))]
    place = ", ".join([*maps, *(f"&slots[{n}]" for n in range(len(slots))), "0"])  # 0 ends it
    shape = f"(unsigned)count, 1, 1, {kernel.threads}, 1, 1, {kernel.shared}"
    begin = [n for n, slot in enumerate(kernel.entry.slots) if slot.kind == "begin"]
    total = signature.blocks(kernel.entry)
    most = [f"    if (blocks > {kernel.most}) blocks = {kernel.most};"] if kernel.most else []
    return [
        "  {", f"    uint64_t slots[] = {{\n      {text}\n    }};",
        f"    void *parameters[] = {{{place}}};",
        f"    {'' if most else 'const '}int64_t blocks = {total};",
        f"    const int64_t most = {limits.LARGEST_GRID};  /* of one launch */",
        "    if (bad) return TENSORC_BAD_SIZE;", *most,
        "    for (int64_t begin = 0; begin < blocks; begin += most) {",
        "      const int64_t count = blocks - begin < most ? blocks - begin : most;",
        *[f"      slots[{n}] = (uint64_t)begin;" for n in begin],
        f"      if (cuLaunchKernel(module->kernels[{number}], {shape}, stream, parameters, 0))",
        "        return TENSORC_DRIVER;", "    }", "  }",
    ]  # fmt: skip
