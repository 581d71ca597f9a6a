"""A program compiled for the CPU: called with arrays, or bound to their shapes and strides.

Its texts are made when they are asked for: a kernel from the cache has none at hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from tensorc.errors import BrokenInvariant
from tensorc.ir.launch import NO_MEMORY, Launch, Strides
from tensorc.ir.parts import part_names
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.tensor import Program, Tensor
from tensorc.runtime.cpu import CpuKernel
from tensorc.runtime.results import is_direct

if TYPE_CHECKING:
    from tensorc.ir.tile import TileProgram
    from tensorc.runtime.verdict import Verified

Array = npt.NDArray[Any]


class Call(Protocol):
    """A kernel bound to the types, shapes and strides of its operands; `into` are dense arrays
    for the outputs. Raises OutOfRange."""

    def __call__(self, operands: Sequence[Any], into: Sequence[Array] = ()) -> list[Array]:
        """The outputs: fresh arrays, or those of `into`."""
        ...

    def at(
        self, starts: list[int], ends: list[int], operands: Sequence[Any], into: Sequence[Array]
    ) -> list[Array]:
        """The same where the addresses of operands (`starts`) and of `into` (`ends`) are known."""
        ...


class Levels(Protocol):
    """A program at the levels below the first."""

    @property
    def tiles(self) -> TileProgram:
        """Level 2."""
        ...

    @property
    def fused(self) -> TileProgram | None:
        """Level 2 if it follows a plan; None where each equation is a kernel of its own."""
        ...

    @property
    def llvm(self) -> str:
        """LLVM IR."""
        ...

    @property
    def form(self) -> Program:
        """The level-1 program that was lowered, as passes made it."""
        ...

    @property
    def static(self) -> Mapping[str, int]:
        """The extents fixed in the kernel."""
        ...

    @property
    def general(self) -> Compiled | None:
        """The kernel for calls where an extent is 0, if this one is not for them."""
        ...

    @property
    def strides(self) -> Mapping[str, Strides]:
        """The layouts of parameters that are not row-major."""
        ...

    @property
    def target(self) -> str:
        """The machine and the numerics policy, in words."""
        ...

    @property
    def report(self) -> object:
        """Why the kernel is as it is; `str()` prints it."""
        ...

    @property
    def verdict(self) -> Verified:
        """What is known of the kernel's rightness."""
        ...

    def judged(self, found: Verified) -> None:
        """Keep what a call has shown of the kernel."""
        ...


@dataclass(frozen=True, repr=False)
class Compiled:
    """A program compiled for the CPU, and its levels for those who want to read them.

    `kernel(Q, K, V)` runs it; `kernel.source` is its code, `kernel.report` says why it is so.
    """

    program: Program
    launch: Launch
    kernel: CpuKernel
    levels: Levels

    @property
    def tiles(self) -> TileProgram:
        """Level 2."""
        return self.levels.tiles

    @property
    def tile(self) -> str:
        """The level-2 text."""
        from tensorc.ir.print_tile import show

        return show(self.tiles)

    @property
    def llvm(self) -> str:
        """The LLVM IR."""
        return self.levels.llvm

    @property
    def source(self) -> str:
        """The code that was compiled: LLVM IR."""
        return self.llvm

    @property
    def report(self) -> object:
        """Passes, kernels, costs, numerics and hints; made by compiling once more."""
        return self.levels.report

    @property
    def verdict(self) -> Verified:
        """What is known of its rightness: PASS or UNDECIDED, how far it was looked at, and why."""
        return self.levels.verdict

    def __repr__(self) -> str:
        static = self.levels.static
        sizes = [f"{n}={static[n]}" if n in static else n for n in self.program.extent_of]
        return f"<kernel {self.program.name}[{', '.join(sizes)}] for {self.levels.target}>"

    def _repr_html_(self) -> str:
        """For notebooks: what it is, and the program, escaped."""
        from html import escape

        from tensorc.ir.print_tensor import show_program

        return f"<pre>{escape(repr(self))}\n\n{escape(show_program(self.program))}</pre>"

    def __call__(self, *operands: object, **named: object) -> Any:
        """The outputs for these arrays, in their library: one, or a tuple of several, hence Any.

        An array whose layout is not what was compiled for is copied first. Raises ArgumentError
        for arrays that do not fit the program or the sizes fixed in the kernel, TypeError for
        operands that are missing, unknown or given twice.
        """
        from tensorc.ir.sizes import bind
        from tensorc.runtime.arrays import arguments
        from tensorc.runtime.interop import giving_back
        from tensorc.runtime.operands import by_name

        arrays = arguments(self.program, by_name(self.program, operands, named))
        shapes = {name: array.shape for name, array in arrays.items()}
        fixed = {**const_values(self.program, arrays), **self.levels.static}
        extents = bind(self.program, shapes, fixed)
        found = self.run({n: self._laid_out(n, array) for n, array in arrays.items()}, extents)
        back = giving_back((*operands, *named.values()))
        first, *others = (back(array) for array in found.values())
        return (first, *others) if others else first

    def _laid_out(self, name: str, array: Array) -> Array:
        """The array, or a row-major copy, unless the kernel is for other layouts of it."""
        if name in self.levels.strides or array.flags.c_contiguous:
            return array
        return array.copy(order="C")

    def every_extent(self, extents: Mapping[str, int]) -> dict[str, int]:
        """The extents of the program's indices, and of those that passes have added: a size of the
        program's has the value that it has there, whatever parameters it is made of."""
        known = {Symbol(name, "extent"): size for name, size in extents.items()}
        same = {size: extents[name] for name, size in self.program.extents if name in extents}
        others = [(name, size) for name, size in self.launch.extents if name not in extents]
        added = {n: same[e] if e in same else evaluate(e, known) for n, e in others}
        return {**extents, **added}

    def operations(self, extents: Mapping[str, int]) -> int:
        """About how many operations of one lane a call does."""
        known = {Symbol(name, "extent"): n for name, n in self.every_extent(extents).items()}
        return sum(evaluate(weight, known) for _, weight in self.launch.weights)

    def run(
        self, arrays: Mapping[str, Array], extents: Mapping[str, int],
        into: Mapping[str, Array] | None = None, threads: int | None = None,
    ) -> dict[str, Array]:  # fmt: skip
        """Run on arrays that fit; the outputs by name, fresh or those of `into`, which fit too.

        `threads`: how many may share a kernel (None: see `threads.available`). Raises OutOfRange if
        data that was used as a subscript left its tensor; the arrays of `into` are then as before.
        """
        names = [item.tensor.name for item in self.program.outputs]
        given = [into[name] for name in names] if into else []
        direct = bool(given) and not self.program.checks and all(map(is_direct, given))
        call = self.bound(arrays, extents, threads)
        outputs = call(list(arrays.values()), given if direct else ())
        if into and not direct:
            for target, array in zip(given, outputs, strict=True):
                target[...] = array
        return dict(zip(names, given or outputs, strict=True))

    def bound(
        self, arrays: Mapping[str, Array], extents: Mapping[str, int], threads: int | None = None
    ) -> Call:
        """A call for operands of these types, shapes and strides, in the order of `arrays`.

        `Op` keeps it for later calls; it raises OutOfRange as `run` does.
        """
        from tensorc.ir.rounding import numpy_dtype
        from tensorc.runtime.bound import Bound, Result
        from tensorc.runtime.interop import known_arrays
        from tensorc.runtime.threads import available

        if 0 in extents.values() and (general := self.levels.general) is not None:
            return general.bound(arrays, extents, threads)
        known = {Symbol(name, "extent"): size for name, size in extents.items()}
        known.update(_parameters(self.program, arrays))

        def fresh(tensor: Tensor) -> Result:
            return Result(tensor.name, _shape(tensor, known), numpy_dtype(tensor.dtype))

        outputs = [fresh(item.tensor) for item in self.program.outputs]
        workspaces = [fresh(tensor) for tensor in self.launch.workspaces]
        tables = table_arrays(self.program)
        every = self.every_extent(extents)
        parts = part_names(self.program)
        sizes = {Symbol(name, "extent"): size for name, size in every.items()}
        weights = {symbol: evaluate(weight, sizes) for symbol, weight in self.launch.weights}
        most = available() if threads is None else threads
        names = list(arrays)

        def failed(number: int, operands: Sequence[Any]) -> None:
            found = cast("list[Array]", known_arrays(operands))
            named = dict(zip(names, found, strict=True))
            report(self.program, number, named, extents)

        return Bound(
            self.kernel, arrays, outputs, workspaces, tables, every, parts, failed, weights, most
        )


def _parameters(program: Program, arrays: Mapping[str, Array]) -> dict[Symbol, int]:
    """The values of `const` integers, which sizes may use."""
    return {Symbol(n, "parameter"): value for n, value in const_values(program, arrays).items()}


def _shape(tensor: Tensor, known: Mapping[Symbol, int]) -> tuple[int, ...]:
    return tuple(evaluate(size, known) for size in tensor.shape)


def table_arrays(program: Program) -> dict[str, Array]:
    """The constant tables as arrays of their storage types, a complex one as its two parts."""
    if not program.tables:
        return {}
    from tensorc.ir.constants import fold
    from tensorc.ir.interpret_tensor import table_values
    from tensorc.ir.rounding import nearest, round_to

    arrays: dict[str, Array] = {}
    for table in program.tables:
        dtype = table.tensor.dtype
        if dtype.complex:
            whole: Any = table_values(table)
            re, im = part_names(program)[table.tensor.name]
            arrays[re], arrays[im] = np.ascontiguousarray(whole.real), whole.imag.copy("C")
            continue
        values = [nearest(fold(value, {}) or Fraction(0), dtype) for value in table.values]
        arrays[table.tensor.name] = round_to(values, dtype).reshape(_shape(table.tensor, {}))
    return arrays


def report(
    program: Program, number: int, arrays: Mapping[str, Array], extents: Mapping[str, int]
) -> None:
    """A check failed: the interpreter finds the element and raises OutOfRange."""
    if number == NO_MEMORY:
        raise MemoryError(f"{program.name}: a kernel got no memory for its tiles")
    from tensorc.ir.interpret_tensor import interpret

    interpret(program, dict(arrays), dict(extents))
    raise BrokenInvariant(
        f"check {number} of {program.name} failed on the CPU, but the interpreter finds no "
        "subscript out of range; please report the program and its arrays"
    )


def const_values(program: Program, arrays: Mapping[str, Array]) -> dict[str, int]:
    """The values of 0-d `const` integer parameters, which sizes may use."""
    return {
        item.tensor.name: int(arrays[item.tensor.name])
        for item in program.parameters
        if item.const and not item.tensor.shape and item.tensor.dtype.integral
    }
