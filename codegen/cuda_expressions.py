"""Scalar expressions of level 2 as C++ text.

C++'s own `?:`, `&&` and `||` evaluate lazily, as the language's do, so a guarded read touches no
memory where its guard fails.
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorc.codegen.cuda_functions import FAST, FUNCTIONS, constant, convert, rounded, widened
from tensorc.codegen.cuda_parameters import Parameters
from tensorc.errors import Unavailable
from tensorc.ir.constants import fold
from tensorc.ir.dtypes import BOOL, F32, F64, I32, I64, INDEX, DType, value_of
from tensorc.ir.node import written_out
from tensorc.ir.tensor import (
    Apply,
    Bitcast,
    Cast,
    Expr,
    Extent,
    Literal,
    Position,
    Read,
    Reduce,
    Round,
    Seen,
    Select,
    Tensor,
    Value,
    operand_types,
    resolved,
    value_type,
)
from tensorc.ir.tile import TileProgram


def check_numbers(program: TileProgram) -> dict[tuple[Read, int], int]:
    """The number by which a failed check of a subscript is known."""
    return {(check.read, check.axis): n + 1 for n, check in enumerate(program.checks)}


LONGEST = 50_000  # operations of one expression; a complex root has 1,000, a 64th power 33,000
_PLAIN = {"add": " + ", "sub": " - ", "mul": " * "}
Hidden = tuple[str | None, str | None, str | None]


class Expressions:
    """The text of expressions at the current point; the emitter binds positions and tiles."""

    def __init__(
        self, parameters: Parameters, checks: Mapping[tuple[Read, int], int], fast: bool = False
    ) -> None:
        self.parameters, self.checks = parameters, checks
        self.functions = {**FUNCTIONS, **FAST} if fast else FUNCTIONS
        self.base = parameters.base
        parameters.opaque = lambda expr: self.value(expr, I64)
        self.position: dict[str, str] = {}  # of indices that run along threads
        self.inside: dict[str, str] = {}
        self.tiles: dict[str, str] = {}
        self.loaded: dict[Read, str] = {}  # elements that have been read before
        self.seen: dict[str, tuple[str, str]] = {}  # elements of an index before a block, and after

    def lane(self, indices: frozenset[str]) -> str | None:
        """The index among `indices` that runs along threads here."""
        return next((index for index in sorted(indices) if index in self.position), None)

    def hidden(self, index: str) -> Hidden:
        """What a name meant before a loop binds it again."""
        kept = (self.base.get(index), self.position.get(index), self.inside.get(index))
        self.position.pop(index, None)
        self.inside.pop(index, None)
        return kept

    def restore(self, index: str, kept: Hidden) -> None:
        """Undo `hidden` after the loop."""
        for table, value in zip((self.base, self.position, self.inside), kept, strict=True):
            table.pop(index, None)
            if value is not None:
                table[index] = value

    def value(self, expr: Expr, wanted: DType) -> str:
        """The value of `expr` as C++ of the value type `wanted`.

        Raises Unavailable where the text would be so long that compilers do not come to an end:
        what stands in several places of a graph is written in each.
        """
        if written_out(expr) > LONGEST:
            raise Unavailable(
                f"an expression of {written_out(expr):,} operations when written out (at most "
                f"{LONGEST:,}) is not emitted for GPUs; complex logarithms and powers are so long: "
                "use exp, or a whole exponent, or .on('cpu')"
            )
        known = fold(expr, self.parameters.static) if value_type(expr).weak else None
        if known is not None and not value_type(expr).complex:
            return constant(known, wanted)
        dtype = resolved(value_type(expr), wanted)
        return convert(self.text(expr, dtype), dtype, wanted)

    def text(self, expr: Expr, dtype: DType) -> str:
        match expr:
            case Literal(value, _):
                return constant(value, dtype)
            case Extent(index):
                return convert(self.parameters.extent(index), I64, dtype)
            case Position(index):
                return convert(self.position.get(index) or self.base[index], I64, dtype)
            case Value(tile, _, _):
                return self.tiles[tile]
            case Read():
                return self.read(expr)
            case Select(condition, yes, no):
                test = self.value(condition, BOOL)
                return f"({test} ? {self.value(yes, dtype)} : {self.value(no, dtype)})"
            case Apply(function, (base, exponent)) if (
                function.name == "pow" and _few(exponent) and operand_types(expr, dtype)[0].floating
            ):
                kind, _ = operand_types(expr, dtype)
                made = f"tcs_power<{_few(exponent)}>({self.value(base, kind)})"
                own = value_type(expr) if not value_type(expr).weak else dtype
                return convert(made, own, dtype)
            case Apply(function, args):
                types = operand_types(expr, dtype)
                texts = [self.value(a, kind) for a, kind in zip(args, types, strict=True)]
                if value_type(expr) is INDEX and function.name in _PLAIN:  # sizes do not wrap
                    return convert(f"({_PLAIN[function.name].join(texts)})", I64, dtype)
                made = self.functions[function.name](texts, types[0])
                own = value_type(expr) if not value_type(expr).weak else dtype
                return convert(made, own, dtype)
            case Cast(target, arg):
                own = value_type(arg)
                near = value_of(target) if own.weak and own.floating == target.floating else own
                source = resolved(own, near)
                return rounded(self.value(arg, source), source, target)
            case Bitcast(target, arg):
                return self.bits(target, arg)
            case Seen(index, after):
                if index not in self.seen:
                    raise NotImplementedError(f"how many elements of {index} were seen before")
                return convert(self.seen[index][after], I64, dtype)
            case Round() | Reduce():
                raise AssertionError(f"{type(expr).__name__} does not reach CUDA")

    def bits(self, target: DType, arg: Expr) -> str:
        """Between numbers of 32 or 64 bits."""
        source = resolved(value_type(arg), I64)
        text = self.value(arg, source)
        pairs = {
            (F32, I32): "(int)tc_f32_bits({})", (I32, F32): "tc_bits_f32((u32){})",
            (F64, I64): "(i64)tcs_bits({})", (I64, F64): "tcs_double((u64){})",
        }  # fmt: skip
        if (source, target) not in pairs:
            raise NotImplementedError(f"bitcast from {source} to {target} is not emitted yet")
        return pairs[source, target].format(text)

    def read(self, read: Read) -> str:
        """The element, widened; a subscript that holds data is compared first."""
        tensor = read.tensor
        if read in self.loaded:
            return widened(self.loaded[read], tensor.dtype)
        element = f"{self.parameters.pointer(tensor)}[{self.offset(tensor, read.subscripts)}]"
        value = widened(element, tensor.dtype)
        for axis, subscript in enumerate(read.subscripts):
            number = self.checks.get((read, axis))
            if number is not None:
                size = self.parameters.extent(f"{tensor.name}.{axis}")
                at = self.subscript(subscript)
                test = f"tcs_inside({at}, {size}, {self.parameters.error()}, {number})"
                value = f"({test} ? {value} : {constant(0, value_of(tensor.dtype))})"
        return value

    def offset(self, tensor: Tensor, subscripts: tuple[Expr, ...]) -> str:
        if tensor.name not in self.parameters.strides and subscripts:
            total = self.subscript(subscripts[0])
            for subscript, size in zip(subscripts[1:], tensor.shape[1:], strict=True):
                outer = f"({total})" if " " in total else total
                inner = self.subscript(subscript)
                total = f"{outer} * {self.parameters.polynomial(size)} + {inner}"
            return total
        terms: list[str] = []
        for axis, subscript in enumerate(subscripts):
            stride = self.parameters.stride(tensor, axis)
            place = self.subscript(subscript)
            terms.append(place if stride == "1" else f"{place} * {stride}")
        return " + ".join(terms) or "0"

    def subscript(self, subscript: Expr) -> str:
        """A subscript in its own integer type, then as i64."""
        dtype = resolved(value_type(subscript), I64)
        return convert(self.value(subscript, dtype), dtype, I64)


def _few(exponent: Expr) -> int:
    """A whole exponent so small that the power is a product, with no larger error; else 0."""
    value = exponent.value if isinstance(exponent, Literal) else 0
    return int(value) if value in (2, 3, 4) else 0
