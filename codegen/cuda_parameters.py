"""What a CUDA kernel is given at the call, and sizes and bounds as C++ made of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import cast

from tensorc.codegen.cuda_functions import stored_type, widened
from tensorc.ir import launch as limits
from tensorc.ir.launch import Slot, Strides
from tensorc.ir.polynomial import Bound, Floor, Opaque, Polynomial, Symbol, known_extents
from tensorc.ir.tensor import Expr, Tensor
from tensorc.ir.tile import Block, Kernel, TileProgram

# What a name of the user's may not be in C++: keywords, and what the emitted text calls its own.
_TAKEN = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const "
    "constexpr const_cast continue decltype default delete do double dynamic_cast else enum "
    "explicit export extern false float for friend goto if inline int long mutable namespace new "
    "noexcept not not_eq nullptr operator or or_eq private protected public register "
    "reinterpret_cast return short signed sizeof static static_assert static_cast struct switch "
    "template this thread_local throw true try typedef typeid typename union unsigned using "
    "virtual void volatile wchar_t while xor xor_eq u8 u16 u32 u64 i64 linux unix "
    "i j s t reg half word side piece pair words part total lane warp_m warp_n smem shared slot "
    "rest tile tiles put count rows wide v before round block blocks step thread group".split()
)
_CALLED = re.compile(
    r"((?i:tc|tcs|tct|emu)|at|wide|body)_.*|a?(sin|cos|tan)h?f?|"
    r"(exp|log|erf|sqrt|cbrt|floor|ceil|rint|round|trunc|pow|fmod|fabs|fmin|fmax|fma|min|max|"
    r"hypot)\w*"
)


class Names:
    """Emitted names: an ASCII identifier becomes `<name>_<n>`, anything else `v<n>`; neither can be
    a keyword, a macro or a reserved name."""

    def __init__(self) -> None:
        self._count = 0
        self._used: set[str] = set()

    def fresh(self, name: str) -> str:
        """A new name that resembles `name`."""
        self._count += 1
        plain = name.rstrip("'")
        if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", plain, re.ASCII) and "__" not in plain:
            return f"{plain}_{self._count}"
        return f"v{self._count}"

    def derived(self, head: str, name: str) -> str:
        """A new name `head_name`; no name of the user's starts with such a head."""
        stem = made = f"{head}_{re.sub(r'[^A-Za-z0-9]', '', name)}"
        while made in self._used or made == f"{head}_":
            self._count += 1
            made = f"{stem}{self._count}"
        self._used.add(made)
        return made

    def plain(self, name: str) -> str:
        """`name` itself where C++ and the names so far allow it, else a fresh one."""
        fits = re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name, re.ASCII) and "__" not in name
        numbered = re.fullmatch(r".*_\d+", name) or (name.isupper() and len(name) > 1)
        if not fits or numbered or name in self._used | _TAKEN or _CALLED.fullmatch(name):
            return self.fresh(name)
        self._used.add(name)
        return name


def _unknown(expr: Expr) -> str:
    raise AssertionError("nothing says how expressions are written")


class Parameters:
    """The parameters of one kernel, each made when its text is first wanted."""

    def __init__(
        self, names: Names, kernel: Kernel, program: TileProgram, static: Mapping[str, int],
        strides: Mapping[str, Strides],
    ) -> None:  # fmt: skip
        self.names, self.strides = names, strides
        self.static: Mapping[str, int] = known_extents(program.extents, static)
        self.slots: dict[Slot, str] = {}
        self.base: dict[str, str] = {}  # of indices that a block or a loop binds
        self.opaque: Callable[[Expr], str] = _unknown  # a number that a bound reads from data
        self._tensors: dict[str, Tensor] = {}
        self._written = {tensor.name for tensor in kernel.writes}
        self._consts = {one.tensor.name: one.tensor for one in program.parameters if one.const}

    def slot(self, slot: Slot) -> str:
        """The parameter that holds 64 bits known at the call."""
        if slot not in self.slots:
            axis = str(slot.axis) if slot.kind in ("size", "stride") else ""
            head = "" if slot.kind == "pointer" else f"{slot.kind}{axis}_"
            self.slots[slot] = self.names.plain(f"{head}{slot.name}".rstrip("_"))
        return self.slots[slot]

    def declared(self, apart: bool = False) -> str:
        """The kernel's parameter list. `apart`: say that what is written is not read elsewhere."""
        word = "__restrict__ " if apart else ""
        return ", ".join(
            f"{self._type(slot)}{word if slot.kind == 'pointer' else ''}{name}"
            for slot, name in self.slots.items()
        )

    def _type(self, slot: Slot) -> str:
        if slot.kind == "error":
            return "i64* "
        if slot.kind != "pointer":
            return "i64 "
        kind = stored_type(self._tensors[slot.name].dtype)
        return f"{'' if slot.name in self._written else 'const '}{kind}* "

    def extent(self, name: str) -> str:
        """An index's extent, or `tensor.axis`'s."""
        known = self.known(name)
        if known is not None:
            return f"{known}ll"
        tensor, dot, axis = name.rpartition(".")
        return self.slot(Slot("size", tensor, int(axis)) if dot else Slot("extent", name))

    def known(self, index: str) -> int | None:
        """An index's extent, if it is known now."""
        return self.static.get(index)

    def number(self, grid: Sequence[Block]) -> str:
        """The number of this block in the whole grid, of which a launch may be a part."""
        sizes = [self.known(block.index) for block in grid]
        counts = [-(-n // b.size) for n, b in zip(sizes, grid, strict=True) if n is not None]
        if len(counts) == len(sizes) and prod(counts) <= limits.LARGEST_GRID:
            return "blockIdx.x"
        return f"({self.slot(Slot('begin', ''))} + blockIdx.x)"

    def pointer(self, tensor: Tensor) -> str:
        """The address of a tensor's element 0."""
        self._tensors[tensor.name] = tensor
        return self.slot(Slot("pointer", tensor.name))

    def error(self) -> str:
        """The address of the word that failed checks write."""
        return self.slot(Slot("error", ""))

    def stride(self, tensor: Tensor, axis: int) -> str:
        """The elements between neighbours along an axis."""
        known = self.strides.get(tensor.name)
        if known is None:
            factors = [self.polynomial(size) for size in tensor.shape[axis + 1 :]]
            return " * ".join(factors) or "1"
        value = known[axis]
        return self.slot(Slot("stride", tensor.name, axis)) if value is None else str(value)

    def even(self, tensor: Tensor, unit: int, bytes_: int) -> str:
        """The condition under which pieces of `bytes_` along axis `unit` are aligned ("": never),
        if those of the first row start at multiples of their length."""
        item = tensor.dtype.bits // 8
        parts = [f"(u64){self.pointer(tensor)}"]
        for axis in range(len(tensor.shape)):
            if axis == unit:
                continue
            stride = self.stride(tensor, axis)
            number = stride.removesuffix("ll")
            if number.isdigit():
                if int(number) * item % bytes_:
                    return ""
            else:
                parts.append(f"{item} * ({stride})")
        both = " | ".join(parts)
        return f"({both if len(parts) == 1 else f'({both})'} & {bytes_ - 1}) == 0"

    def polynomial(self, item: Polynomial) -> str:
        """A size or bound as a C++ expression that needs no parentheses."""
        text = ""
        for monomial, factor in sorted(item.terms, key=lambda term: term[1] < 0):
            atoms = [self.atom(atom) for atom, power in monomial for _ in range(power)]
            number = [f"{abs(factor)}ll"] if abs(factor) != 1 or not atoms else []
            sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
            text += sign + " * ".join(number + atoms)
        if len(item.terms) == 1 and item.terms[0][1] > 0:
            return text
        return f"({text})" if text else "0ll"

    def atom(self, atom: Symbol | Floor | Bound | Opaque) -> str:
        """One factor of a size or bound."""
        match atom:
            case Symbol(name, "extent"):
                return self.extent(name)
            case Symbol(name, "parameter"):
                tensor = self._consts[name]
                return f"(i64){widened(f'*{self.pointer(tensor)}', tensor.dtype)}"
            case Symbol(name, _):
                return self.base[name]
            case Floor(a, b):
                return f"tcs_floordiv((i64){self.polynomial(a)}, (i64){self.polynomial(b)})"
            case Bound(which, args):
                total = self.polynomial(args[0])
                for arg in args[1:]:
                    total = f"tcs_{which}((i64){total}, (i64){self.polynomial(arg)})"
                return total
            case Opaque(expr):
                return f"(i64)({self.opaque(cast(Expr, expr))})"
