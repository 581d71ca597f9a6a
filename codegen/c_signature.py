"""A compiled operator as C sees it: names, arguments, and the function that measures sizes.

Arrays are row-major and come as pointers, every free extent as an int64; what is fixed in the
kernel is no argument. The same signature serves the CPU and CUDA; what calls the kernels is
elsewhere (`c_launch_cpu`, `c_launch_cuda`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tensorc.codegen.c_sizes import multiplied, sized
from tensorc.codegen.cuda_parameters import Names
from tensorc.errors import Unavailable
from tensorc.ir import polynomial as p
from tensorc.ir.dtypes import DType
from tensorc.ir.launch import Entry, Slot
from tensorc.ir.parts import part_names, part_type
from tensorc.ir.polynomial import Polynomial, Symbol
from tensorc.ir.sizes import bind, never_empty, storage_bytes
from tensorc.ir.tensor import Declaration, Program, Tensor
from tensorc.ir.tile import TileProgram

ALIGN = 256  # bytes, of everything in a workspace

C_TYPES = {
    "bool": "uint8_t", "f32": "float", "f64": "double", "i8": "int8_t", "i16": "int16_t",
    "i32": "int32_t", "i64": "int64_t", "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t",
    "u64": "uint64_t", "complex64": "float", "complex128": "double",
}  # fmt: skip
"""Element types; other floats are given as bits, complex numbers as pairs."""

STATUSES = (
    ("OK", "done"),
    ("BAD_SIZE", "a size is negative, or does not fit the operator, or an array is too large"),
    ("NO_ARRAY", "a pointer is null though its array has elements, or the workspace is missing"),
    ("NO_MEMORY", "no memory for the workspace"),
    ("OUT_OF_RANGE", "a subscript read from data lies outside its array"),
    ("UNSUPPORTED", "this machine is not the one that the code is for"),
    ("DRIVER", "the CUDA driver reports an error"),
)


@dataclass(frozen=True)
class Signature:
    """A program and its kernels under names for C. `symbol`: the function's name, and the start of
    all others; `static`: extents fixed in the kernels."""

    symbol: str
    program: Program
    tiles: TileProgram
    entries: tuple[Entry, ...]
    static: Mapping[str, int]

    def __post_init__(self) -> None:
        if self.program.conditions and not self._decided():
            named = ", ".join(item.what for item in self.program.conditions)
            raise Unavailable(
                f"{named} is in range for some sizes only, which C does not decide; fix the sizes "
                "with --size"
            )

    def _decided(self) -> bool:
        """Whether the size conditions hold at the fixed sizes. ArgumentError: they do not."""
        if any(s.kind != "extent" or s.name not in self.static for s in self.free_symbols):
            return False
        bind(self.program, {}, self.static)
        return True

    @cached_property
    def free_symbols(self) -> tuple[Symbol, ...]:
        """What sizes are made of, in order of first appearance."""
        sizes = [size for _, size in self.program.extents]
        sizes += [size for item in self.declarations for size in item.tensor.shape]
        sizes += [divisor for divisor, _ in self.program.divisors]
        found = [s for size in sizes for s in sorted(p.symbols(size), key=str)]
        return tuple(dict.fromkeys(s for s in found if s.kind in ("extent", "parameter")))

    @property
    def declarations(self) -> tuple[Declaration, ...]:
        return (*self.program.parameters, *self.program.outputs)

    @cached_property
    def arguments(self) -> dict[str, str]:
        """The C name of every array's pointer."""
        return {item.tensor.name: self._fresh(item.tensor.name) for item in self.declarations}

    @cached_property
    def sizes(self) -> dict[str, str]:
        """The C name of every extent that is an argument, in order."""
        free = [s.name for s in self.free_symbols if s.kind == "extent"]
        return {name: self._fresh(name) for name in free if name not in self.static}

    @cached_property
    def _names(self) -> Names:
        return Names()

    def _fresh(self, name: str) -> str:
        return self._names.fresh(name)

    @cached_property
    def extents(self) -> dict[str, Polynomial]:
        """Every index's extent: the program's, then those that passes have added."""
        return {**dict(self.tiles.extents), **dict(self.program.extents)}

    @cached_property
    def buffers(self) -> tuple[Tensor, ...]:
        """What lies in the workspace: tables, then what kernels hand to each other."""
        return (*(table.tensor for table in self.tiles.tables), *self.tiles.workspaces)

    def parameters(self) -> list[str]:
        """The arguments, as C declares them."""
        outputs = {item.tensor.name for item in self.program.outputs}
        arrays = [
            f"{'' if name in outputs else 'const '}{c_type(item.tensor.dtype)} *{text}"
            for (name, text), item in zip(self.arguments.items(), self.declarations, strict=True)
        ]
        return [*arrays, *self.size_parameters()]

    def size_parameters(self) -> list[str]:
        return [f"int64_t {text}" for text in self.sizes.values()]

    def meaning(self) -> Iterator[str]:
        """What each argument is, for people."""
        for item in self.declarations:
            shape = ", ".join(map(str, item.tensor.shape))
            kind = item.tensor.dtype
            yield f"{self.arguments[item.tensor.name]}: {item.tensor.name}, {kind}[{shape}]"
        for name, text in self.sizes.items():
            yield f"{text}: |{name}|"

    def text(self, symbol: Symbol) -> str:
        """A symbol of a size, inside `measure` and after it."""
        if symbol.kind == "parameter":
            return f"(int64_t)*{self.arguments[symbol.name]}"
        return self.extent(symbol.name)

    def extent(self, name: str) -> str:
        if name in self.static:
            return f"{self.static[name]}"
        if name in self.sizes:
            return self.sizes[name]
        return f"extent[{list(self.extents).index(name)}]"

    def size(self, item: Polynomial) -> str:
        return sized(item, self.text)

    def nbytes(self, tensor: Tensor) -> str:
        """The bytes of a dense array."""
        factors = [self.size(size) for size in tensor.shape]
        return multiplied([*factors, str(storage_bytes(tensor.dtype))])

    def measure(self) -> str:
        """The C function that fills `extent` and the buffers' places in the workspace; it returns
        whether all sizes can be."""
        constants = self.scalars()
        head = ", ".join([*constants, *self.size_parameters(), "int64_t *extent", "int64_t *at"])
        lines = [f"static int measure({head}) {{", "  int bad = 0;", "  (void)extent;"]
        lines += [f"  bad |= {text} < 0;" for text in self.sizes.values()]
        lines += [f"  bad |= {self.size(divisor)} < 1;" for divisor, _ in self.program.divisors]
        reduced = never_empty(self.program)
        for number, (name, size) in enumerate(self.extents.items()):
            lines.append(f"  extent[{number}] = {self.size(size)};  /* |{_safe(name)}| */")
            least = 1 if name in reduced else 0
            lines.append(f"  bad |= extent[{number}] < {least};")
        lines += [f"  bad |= {self.nbytes(item.tensor)} < 0;" for item in self.declarations]
        lines += self._places()
        return "\n".join([*lines, "  return !bad;", "}"])

    def _places(self) -> list[str]:
        lines = [f"  at[0] = {ALIGN};  /* the first bytes are for checks */"]
        for number, tensor in enumerate(self.buffers):
            size = f"tc_add({self.nbytes(tensor)}, {ALIGN - 1}, &bad)"
            up = f"tc_mul(tc_floordiv({size}, {ALIGN}, &bad), {ALIGN}, &bad)"
            lines.append(f"  at[{number + 1}] = tc_add(at[{number}], {up}, &bad);")
        return lines

    def scalars(self) -> list[str]:
        """The pointers of integers that sizes are made of."""
        used = [s.name for s in self.free_symbols if s.kind == "parameter"]
        found = {item.tensor.name: item.tensor for item in self.program.parameters}
        return [f"const {c_type(found[n].dtype)} *{self.arguments[n]}" for n in used]

    def measured(self) -> str:
        """The call of `measure`."""
        used = [s.name for s in self.free_symbols if s.kind == "parameter"]
        given = [*(self.arguments[n] for n in used), *self.sizes.values(), "extent", "at"]
        return f"measure({', '.join(given)})"

    def slot(self, slot: Slot, pointer: Mapping[str, str], error: str) -> str:
        """The 64 bits of one slot. `pointer`: of every tensor that kernels know."""
        match slot.kind:
            case "error":
                return error
            case "begin":
                return "0"
            case "extent" | "end":  # an index has at most as many blocks as positions
                return f"(uint64_t){self.extent(slot.name)}"
            case "pointer":
                return pointer[slot.name]
            case "size":
                return f"(uint64_t){self.size(self.shapes[slot.name][slot.axis])}"
            case "stride":
                factors = [self.size(size) for size in self.shapes[slot.name][slot.axis + 1 :]]
                step = "2" if slot.name in self.parts else "1"
                return f"(uint64_t){multiplied([*factors, step])}"
            case other:
                raise Unavailable(f"a launcher in C for kernels that take a {other}")

    @cached_property
    def parts(self) -> dict[str, tuple[str, int]]:
        """Of the parts of complex arguments: the array, and the part's first byte in it."""
        names = part_names(self.program)
        return {
            part: (item.tensor.name, at * storage_bytes(part_type(item.tensor.dtype)))
            for item in self.declarations
            if item.tensor.name in names
            for at, part in enumerate(names[item.tensor.name])
        }

    @cached_property
    def shapes(self) -> dict[str, tuple[Polynomial, ...]]:
        """Of every tensor that kernels know."""
        found = {item.tensor.name: item.tensor.shape for item in self.declarations}
        found.update((tensor.name, tensor.shape) for tensor in self.buffers)
        found.update((part, found[whole]) for part, (whole, _) in self.parts.items())
        return found

    def blocks(self, entry: Entry) -> str:
        """The blocks of a kernel's whole grid."""
        factors = [
            self.extent(index) if block == 1 else
            f"tc_floordiv(tc_add({self.extent(index)}, {block - 1}, &bad), {block}, &bad)"
            for index, block in entry.grid
        ]  # fmt: skip
        return multiplied(factors)

    def header(self, target: str, before: Sequence[str], after: Sequence[str], more: str) -> str:
        """The header. `before` and `after`: arguments around the operator's own; `more`:
        declarations of functions beside it."""
        lines = [f" * {line}" for line in self.meaning()]
        args = ", ".join([*before, *self.parameters(), *after])
        own = ", ".join(self.size_parameters()) or "void"
        enum = ",\n".join(
            f"  TENSORC_{name} = {n} /* {text} */" for n, (name, text) in enumerate(STATUSES)
        )
        return HEADER.format(
            guard=f"{self.symbol.upper()}_H", name=_safe(self.program.name), target=_safe(target),
            meaning="\n".join(lines), symbol=self.symbol, arguments=args, sizes=own, enum=enum,
            more=more,
        )  # fmt: skip


def symbol_of(program: Program, code: bytes) -> str:
    """A name that no other operator, size or target has; `code`: what is compiled."""
    plain = Names().fresh(program.name).rsplit("_", 1)[0]
    return f"tc_{plain}_{hashlib.sha256(code).hexdigest()[:12]}"


def c_type(dtype: DType) -> str:
    """The C type of an element's storage."""
    return C_TYPES.get(dtype.name, f"uint{dtype.bits}_t")


def _safe(text: str) -> str:
    """User-derived text inside a C comment."""
    plain = "".join(c if c.isascii() and c.isprintable() else "?" for c in text)
    return plain.replace("*/", "* /").replace("/*", "/ *").replace("??/", "? ?/")


HEADER = """\
#ifndef {guard}
#define {guard}
/* {name}, compiled by tensorc for {target}.
 * Arrays are row-major; narrow floats are given as their bits, complex numbers as pairs.
{meaning}
 */
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#ifndef TENSORC_STATUSES
#define TENSORC_STATUSES
enum tensorc_status {{
{enum}
}};
#endif

/* Bytes of the workspace at these sizes, or -1 where they cannot be. */
int64_t {symbol}_workspace({sizes});
{more}
/* Returns a tensorc_status. */
int {symbol}({arguments});

#ifdef __cplusplus
}}
#endif
#endif
"""
