"""The driver: a level-1 program through the visible list of passes to a kernel that runs.

`PIPELINE` is the only place that knows the order of passes. After every pass the IR's verifier
runs; what it finds is a bug of ours and raises BrokenInvariant with the IR.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy.typing as npt

from tensorc.errors import BrokenInvariant
from tensorc.ir.launch import Strides
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.tensor import Program, Tensor
from tensorc.ir.tile import TileProgram

Array = npt.NDArray[Any]
State = Program | TileProgram


@dataclass(frozen=True)
class Target:
    """What is compiled for: the machine file, and lanes of 32 bits in one of its vectors."""

    machine: str
    lanes: int


@dataclass(frozen=True)
class Request:
    """Everything that the text of a kernel depends on, beside the program.

    `static`: extents fixed in the kernel. `strides`: of parameters that are not row-major.
    `policy`: "fast" or "strict".
    """

    target: Target
    static: Mapping[str, int]
    strides: Mapping[str, Strides] = field(default_factory=dict[str, Strides])
    policy: str = "fast"


@dataclass(frozen=True)
class Pass:
    """A named step; what is true afterwards stands in the pass's own docstring."""

    name: str
    run: Callable[[State, Request], State]
    purpose: str


def _canonicalise(state: State, request: Request) -> State:
    from tensorc.passes.canonicalise import canonicalise

    assert isinstance(state, Program)
    return canonicalise(state)


def _lower(state: State, request: Request) -> State:
    from tensorc.passes.lower import lower
    from tensorc.runtime.arrays import unit_axis

    assert isinstance(state, Program)
    units = {name: unit_axis(strides) for name, strides in request.strides.items()}
    return lower(state, request.target.lanes, units, request.target.machine)


PIPELINE: tuple[Pass, ...] = (
    Pass("canonicalise", _canonicalise, "composite reductions as sums, maxima and minima"),
    Pass("lower", _lower, "one kernel of loops over tiles per equation"),
)


def run_passes(program: Program, request: Request) -> TileProgram:
    """The program through every pass, verified after each.

    TENSORC_DUMP=dir writes the IR after each pass there, TENSORC_PRINT=pass,... prints it on
    stderr, TENSORC_STOP_AFTER=pass ends the process's work there.
    """
    state: State = program
    _observe(0, "source", state)
    for number, step in enumerate(PIPELINE, start=1):
        state = step.run(state, request)
        _observe(number, step.name, state)
        if faults := verify(state):
            raise BrokenInvariant(
                f"after {step.name}:\n" + "\n".join(faults) + f"\n\n{show(state)}\n"
                "This is a bug in tensorc; run again with TENSORC_DUMP=DIR and report the files."
            )
    assert isinstance(state, TileProgram)
    return state


def verify(state: State) -> Sequence[str]:
    """The faults that the level's verifier finds."""
    if isinstance(state, Program):
        from tensorc.ir.verify_tensor import verify as verify_tensor

        # Conditions and checks speak of accesses as the user wrote them; passes rewrite those.
        return verify_tensor(state, accesses=False)
    from tensorc.ir.verify_tile import verify as verify_tile

    return verify_tile(state)


def show(state: State) -> str:
    """The IR as text."""
    if isinstance(state, Program):
        from tensorc.ir.print_tensor import show_program

        return show_program(state)
    from tensorc.ir.print_tile import show as show_tile

    return show_tile(state)


def _observe(number: int, name: str, state: State) -> None:
    wanted = os.environ.get("TENSORC_PRINT", "").split(",")
    if name in wanted or "all" in wanted:
        print(f"--- {name}\n{show(state)}", file=sys.stderr)
    if folder := os.environ.get("TENSORC_DUMP"):
        write_text(Path(folder) / f"{number:02d}-{name}.txt", show(state))
    if name == os.environ.get("TENSORC_STOP_AFTER"):
        raise SystemExit(0)


def write_text(path: Path, text: str) -> None:
    """Write a whole file or nothing: a temporary beside it, then one rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(text)
    part.replace(path)


@dataclass(frozen=True)
class Compiled:
    """A program compiled for the CPU. `llvm` and `tile` are its text at those levels."""

    program: Program
    tiles: TileProgram
    llvm: str
    kernel: Any

    @property
    def tile(self) -> str:
        """The level-2 text."""
        return show(self.tiles)

    def every_extent(self, extents: Mapping[str, int]) -> dict[str, int]:
        """The extents of the program's indices, and of those that passes have added."""
        known = {Symbol(name, "extent"): size for name, size in extents.items()}
        added = {n: evaluate(size, known) for n, size in self.tiles.extents if n not in extents}
        return {**extents, **added}

    def run(self, arrays: Mapping[str, Array], extents: Mapping[str, int]) -> dict[str, Array]:
        """Run on arrays that fit; fresh outputs by name.

        Raises OutOfRange if data that was used as a subscript left its tensor.
        """
        outputs = self.bound(arrays, extents)(list(arrays.values()))
        return dict(zip((item.tensor.name for item in self.tiles.outputs), outputs, strict=True))

    def bound(
        self, arrays: Mapping[str, Array], extents: Mapping[str, int]
    ) -> Callable[[Sequence[Array]], list[Array]]:
        """A call for operands of these types, shapes and strides, in the order of `arrays`.

        `compiler.run` and `Op` keep it; it raises OutOfRange as `run` does.
        """
        from tensorc.ir.rounding import numpy_dtype
        from tensorc.runtime.bound import Bound, Result

        known = {Symbol(name, "extent"): size for name, size in extents.items()}
        known.update(_parameters(self.program, arrays))

        def fresh(tensor: Tensor) -> Result:
            return Result(tensor.name, _shape(tensor, known), numpy_dtype(tensor.dtype))

        outputs = [fresh(item.tensor) for item in self.tiles.outputs]
        workspaces = [fresh(tensor) for tensor in self.tiles.workspaces]
        tables = table_arrays(self.program)
        every = self.every_extent(extents)
        bound = Bound(self.kernel, arrays, outputs, workspaces, tables, every)
        names = list(arrays)

        def call(operands: Sequence[Array]) -> list[Array]:
            results, failed = bound(operands)
            if failed:
                named = dict(zip(names, operands, strict=True))
                _report(self.program, failed, named, extents)
            return results

        return call


def _parameters(program: Program, arrays: Mapping[str, Array]) -> dict[Symbol, int]:
    """The values of `const` integers, which sizes may use."""
    return {Symbol(n, "parameter"): value for n, value in const_values(program, arrays).items()}


def _shape(tensor: Tensor, known: Mapping[Symbol, int]) -> tuple[int, ...]:
    return tuple(evaluate(size, known) for size in tensor.shape)


def table_arrays(program: Program) -> dict[str, Array]:
    """The constant tables as arrays of their storage types."""
    from tensorc.ir.constants import fold
    from tensorc.ir.rounding import nearest, round_to

    arrays: dict[str, Array] = {}
    for table in program.tables:
        dtype = table.tensor.dtype
        values = [nearest(fold(value, {}) or Fraction(0), dtype) for value in table.values]
        arrays[table.tensor.name] = round_to(values, dtype).reshape(_shape(table.tensor, {}))
    return arrays


def _report(
    program: Program, number: int, arrays: Mapping[str, Array], extents: Mapping[str, int]
) -> None:
    """A check failed: the interpreter finds the element and raises OutOfRange."""
    from tensorc.ir.interpret_tensor import interpret

    interpret(program, dict(arrays), dict(extents))
    raise BrokenInvariant(
        f"check {number} of {program.name} failed on the CPU, but the interpreter finds no "
        "subscript out of range; please report the program and its arrays"
    )


def cpu_target() -> Target:
    """This machine's vectors, from its CPU features."""
    from tensorc.libraries import llvm

    features = llvm().get_host_cpu_features()
    if features.get("avx512f"):
        return Target("cpu", 16)
    return Target("cpu", 8 if features.get("avx2") else 4)


def compile_cpu(program: Program, request: Request) -> Compiled:
    """Compile for this machine's CPU."""
    from tensorc.codegen.llvm import Options, emit
    from tensorc.codegen.llvm_jit import native, object_code
    from tensorc.runtime.cpu import CpuKernel

    tiles = run_passes(program, request)
    options = Options(request.static, request.strides, request.policy == "fast")
    module = emit(tiles, options)
    kernel = CpuKernel(object_code(module.text, native()), module.entries)
    return Compiled(program, tiles, module.text, kernel)


DEVICES = ("cpu", "interpreter")


@dataclass(frozen=True)
class Prepared:
    """A call whose arrays fit: what runs it, and what judges its results, take it from here."""

    program: Program
    arrays: Mapping[str, Array]
    extents: Mapping[str, int]
    strides: Mapping[str, Strides]
    policy: str

    def compiled(self) -> Compiled:
        """The CPU kernel for these sizes and layouts, compiled once in a process."""
        return _kernel(self.program, self.extents, self.strides, self.policy)


def prepare(
    program: Program,
    given: Mapping[str, object],
    sizes: Mapping[str, int] | None = None,
    policy: str = "fast",
) -> Prepared:
    """Check arrays and sizes against the program.

    `given`: arrays or scalars by parameter name. `sizes`: extents and `const` integers that no
    array fixes. Raises ArgumentError with every fault.
    """
    from tensorc.ir.sizes import bind
    from tensorc.runtime.arrays import arguments, stride_class

    arrays = arguments(program, given)
    shapes = {name: array.shape for name, array in arrays.items()}
    extents = bind(program, shapes, {**const_values(program, arrays), **(sizes or {})})
    classes = {name: stride_class(array) for name, array in arrays.items()}
    strides = {name: item for name, item in classes.items() if item is not None}
    return Prepared(program, arrays, extents, strides, policy)


def run(
    program: Program,
    given: Mapping[str, object],
    sizes: Mapping[str, int] | None = None,
    device: str = "cpu",
    policy: str = "fast",
) -> dict[str, Array]:
    """Run a program on arrays (see `prepare`); fresh outputs by name.

    Raises OutOfRange where a subscript that holds data leaves its tensor.
    """
    return run_prepared(prepare(program, given, sizes, policy), device)


def run_prepared(call: Prepared, device: str = "cpu") -> dict[str, Array]:
    """Run a prepared call on "cpu" or "interpreter"."""
    if device == "interpreter":
        return interpreted(call.program, call.arrays, call.extents)
    return call.compiled().run(call.arrays, call.extents)


Call = Callable[[Sequence[Array]], list[Array]]
MOST_CALLS = 64  # kept for one operator


def remember(
    calls: dict[tuple[object, ...], Call], call: Prepared, operands: Sequence[object]
) -> None:  # fmt: skip
    """Keep the bound form of a CPU call under `bound.key(operands)`, if it depends on types,
    shapes and strides alone and the arrays were taken as they are."""
    from tensorc.runtime.bound import key

    kept = key(operands)
    same = all(a is b for a, b in zip(call.arrays.values(), operands, strict=False))
    sized = any(item.const and not item.tensor.shape for item in call.program.parameters)
    if kept is None or not same or sized or len(operands) != len(call.arrays):
        return
    if len(calls) >= MOST_CALLS:
        calls.clear()
    calls[kept] = call.compiled().bound(call.arrays, call.extents)


def const_values(program: Program, arrays: Mapping[str, Array]) -> dict[str, int]:
    """The values of 0-d `const` integer parameters, which sizes may use."""
    return {
        item.tensor.name: int(arrays[item.tensor.name])
        for item in program.parameters
        if item.const and not item.tensor.shape and item.tensor.dtype.integral
    }


def interpreted(
    program: Program, arrays: Mapping[str, Array], extents: Mapping[str, int]
) -> dict[str, Array]:
    """The level-1 interpreter's outputs, rounded once into the outputs' types."""
    from tensorc.ir.interpret_tensor import interpret
    from tensorc.ir.rounding import round_to

    exact = interpret(program, arrays, extents)
    return {
        item.tensor.name: round_to(exact[item.tensor.name], item.tensor.dtype)
        for item in program.outputs
    }


_KERNELS: dict[object, Compiled] = {}
_COMPILING = threading.Lock()


def _kernel(
    program: Program, extents: Mapping[str, int], strides: Mapping[str, Strides], policy: str
) -> Compiled:
    """The kernel for these sizes and layouts, compiled once in a process."""
    key = (_Same(program), tuple(sorted(extents.items())), tuple(sorted(strides.items())), policy)
    with _COMPILING:
        if key not in _KERNELS:
            request = Request(cpu_target(), extents, strides, policy)
            _KERNELS[key] = compile_cpu(program, request)
        return _KERNELS[key]


class _Same:
    """A program as a key: by identity, kept alive by the key."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.program is self.program

    def __hash__(self) -> int:
        return id(self.program)
