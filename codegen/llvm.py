"""Level 2 to LLVM IR for the CPU: one function per kernel, SSA form, no middle-end passes needed.

A kernel is `void NAME(ptr args, i64 begin, i64 end)`: `args` holds 64-bit slots (pointers, extents,
strides, described by `Slot`), and [begin, end) is the part of the flattened grid to run; of loops
that hold all statements and carry nothing, slots say which blocks. So threads may share a kernel.
The code decides nothing: vector widths, loop order and placement are those of the level-2 text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tensorc.codegen import llvm_memory
from tensorc.codegen.llvm_ahead import streams
from tensorc.codegen.llvm_builder import Builder, OpenLoop
from tensorc.codegen.llvm_convert import as_i64, widened
from tensorc.codegen.llvm_expressions import Expressions
from tensorc.codegen.llvm_frame import Frame
from tensorc.codegen.llvm_lanes import Lanes
from tensorc.codegen.llvm_loops import Loops
from tensorc.codegen.llvm_places import Places
from tensorc.codegen.llvm_reduce import neutral
from tensorc.codegen.llvm_scope import ZERO, Scope, Storage
from tensorc.codegen.llvm_sizes import Sizes
from tensorc.codegen.llvm_statements import Statements
from tensorc.codegen.llvm_tiles import Tiles
from tensorc.codegen.llvm_types import Operand
from tensorc.codegen.llvm_walks import Walks
from tensorc.ir.dtypes import I64, value_of
from tensorc.ir.functions import Reducer
from tensorc.ir.launch import Entry, Slot, Strides
from tensorc.ir.polynomial import Symbol, evaluate, symbols
from tensorc.ir.tensor import Expr, Tensor
from tensorc.ir.tile import Kernel, Store, TileProgram
from tensorc.ir.walk_tile import shared_loops, statements
from tensorc.machine.machines import MACHINES


@dataclass(frozen=True)
class Options:
    """What a kernel is compiled for. `static`: extents fixed at compile time; `strides`: of
    tensors that are not row-major; `contract`: fused multiply-add allowed; `prefix`: what the
    symbols of kernels start with; `multiples`: numbers that other extents are multiples of, which
    need no code for a last, partial block."""

    static: Mapping[str, int]
    strides: Mapping[str, Strides]
    contract: bool = True
    prefix: str = ""
    multiples: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class Module:
    """LLVM IR of a program and its entries, in the order in which they run. A failed check writes
    its place in `program.checks`, counted from 1; `NO_MEMORY` says that there was no
    memory for tiles."""

    text: str
    entries: tuple[Entry, ...]


def emit(program: TileProgram, options: Options) -> Module:
    """The whole program as one LLVM module."""
    options = replace(options, static=_every_static(program, options.static))
    declarations: dict[str, str] = {}
    functions: list[str] = []
    helpers: dict[str, str] = {}
    entries: list[Entry] = []
    for emitter in _emitters(program, options):
        functions.append(emitter.function())
        entries.append(emitter.entry())
        declarations.update(emitter.b.declarations)
        helpers.update(emitter.b.functions)
    attributes = 'attributes #0 = { nounwind "prefer-vector-width"="512" }\n'
    lines = [*functions, *helpers.values(), *sorted(declarations.values()), attributes]
    return Module("\n".join(lines), tuple(entries))


def _emitters(program: TileProgram, options: Options) -> Iterator[_Emitter]:
    """The kernels in order; where stores meet in a tensor, it is filled before."""
    stored: set[str] = set()
    for number, kernel in enumerate(program.kernels):
        for place, (tensor, op) in enumerate(_met(kernel).items()):
            if tensor.name not in stored:
                name = f"{options.prefix}fill_{number}_{place}"
                yield _Fill(kernel, name, program, options, tensor, op)
        stored.update(tensor.name for tensor in kernel.writes)
        yield _Emitter(kernel, f"{options.prefix}kernel_{number}", program, options)


def _met(kernel: Kernel) -> dict[Tensor, Reducer]:
    """The tensors in which stores of a kernel are combined."""
    stores = [item for item in statements(kernel.body) if isinstance(item, Store)]
    return {item.tensor: item.combine for item in stores if item.combine is not None}


def _every_static(program: TileProgram, given: Mapping[str, int]) -> dict[str, int]:
    """The given extents, and those that follow from them."""
    known = {Symbol(name, "extent"): size for name, size in given.items()}
    derived = {n: size for n, size in program.extents if symbols(size) <= known.keys()}
    return {**{n: evaluate(size, known) for n, size in derived.items()}, **given}


class _Emitter:
    """The state of emitting one kernel."""

    def __init__(self, kernel: Kernel, symbol: str, program: TileProgram, options: Options) -> None:
        self.kernel, self.symbol, self.options = kernel, symbol, options
        self.program = program
        self.b = Builder(options.contract)
        self.slots: list[Slot] = []
        checks = {(item.read, item.axis): n + 1 for n, item in enumerate(program.checks)}
        self.scope = Scope({}, _Extents(self), options.static, program.extent_of, checks, "")
        self.frame = Frame(kernel.name)
        self.consts = {item.tensor.name: item.tensor for item in program.parameters if item.const}
        self.sizes = Sizes(self.b, self.scope, options.multiples, self.parameter, self.data)
        self.shared = dict(shared_loops(kernel))
        self.e: Expressions | None = None

    def function(self) -> str:
        """The function's text."""
        for tensor in dict.fromkeys((*self.kernel.reads, *self.kernel.writes)):
            self.scope.storage[tensor.name] = self.storage(tensor)
        self.scope.error = self.pointer(Slot("error", ""))
        self.body()
        head = f"define void @{self.symbol}(ptr %args, i64 %begin, i64 %end) #0 {{"
        before = list(self.frame.before(self.b, lambda: self.place(Slot("error", ""))))
        return "\n".join([head, *before, *self.b.text(), *self.frame.after(), "}", ""])

    def body(self) -> None:
        """Everything between loading the arguments and the end."""
        vector = MACHINES[self.program.machine].vector
        places = Places(self.kernel, vector, self.scope.storage)
        tiles = Tiles(self.b, self.scope, places, self.frame)
        ahead = streams(self.kernel, self.options.static)
        self.e = Expressions(self.b, self.scope, tiles, ahead)
        lanes = Lanes(self.b, self.scope, places)
        walks = Walks(self.b, self.scope, places, lanes)
        plain = Statements(self.b, self.scope, walks, tiles, self.e, lanes)
        loops = Loops(self.b, self.scope, places, self.sizes, plain, self.part)
        loops.grid(self.kernel.grid, self.kernel.body)

    def entry(self) -> Entry:
        """How the function is called."""
        grid = tuple((block.index, block.size) for block in self.kernel.grid)
        return Entry(self.symbol, tuple(self.slots), grid, tuple(self.shared.items()))

    def part(self, index: str) -> tuple[Operand, Operand] | None:
        """The blocks of a shared loop that this call runs: the first, and the one behind the last;
        None for another loop."""
        if index not in self.shared:
            return None
        return self.slot(Slot("begin", index)), self.slot(Slot("end", index))

    def place(self, slot: Slot) -> int:
        """Where an argument stands among the slots."""
        if slot not in self.slots:
            self.slots.append(slot)
        return self.slots.index(slot)

    def slot(self, slot: Slot) -> Operand:
        """The 64-bit argument, loaded at the function's start."""
        address = self.b.raw(f"getelementptr i64, ptr %args, i64 {self.place(slot)}", 0)
        return self.b.result(f"load i64, ptr {address}, align 8", I64, 1, 0)

    def pointer(self, slot: Slot) -> str:
        return self.b.raw(f"inttoptr {self.slot(slot)} to ptr", 0)

    def storage(self, tensor: Tensor) -> Storage:
        pointer = self.pointer(Slot("pointer", tensor.name))
        known = self.options.strides.get(tensor.name)
        if known is not None:
            strides = tuple(
                self.slot(Slot("stride", tensor.name, axis)) if one is None else self.number(one)
                for axis, one in enumerate(known)
            )
            return Storage(pointer, strides)
        return Storage(pointer, self.row_major(tensor))

    def row_major(self, tensor: Tensor) -> tuple[Operand, ...]:
        """Strides of a dense tensor: the product of the extents behind each dimension."""
        strides: list[Operand] = []
        total = self.number(1)
        for size in reversed(tensor.shape):
            strides.append(total)
            total = self.b.mul(total, self.sizes.value(size))
        return tuple(reversed(strides))

    def number(self, value: int) -> Operand:
        return self.b.const(value, I64)

    def parameter(self, name: str) -> Operand:
        """The value of a `const` integer, which sizes may use."""
        dtype = self.consts[name].dtype
        pointer = self.pointer(Slot("pointer", name))
        raw = llvm_memory.load(self.b, pointer, dtype, ZERO, 0, 1, None, 0)
        return as_i64(self.b, widened(self.b, raw, dtype))

    def data(self, expr: Expr) -> Operand:
        """The value of what a bound reads."""
        assert self.e is not None
        return self.e.value(expr, I64)


class _Fill(_Emitter):
    """The function that sets a tensor to the neutral element of a reducer."""

    def __init__(
        self, kernel: Kernel, symbol: str, program: TileProgram, options: Options,
        tensor: Tensor, op: Reducer,
    ) -> None:  # fmt: skip
        super().__init__(Kernel(kernel.name, (), (tensor,), (), ()), symbol, program, options)
        self.tensor, self.op = tensor, op

    def body(self) -> None:
        b, stored = self.b, self.scope.storage[self.tensor.name]
        offset, loops = ZERO, list[OpenLoop]()
        for size, stride in zip(self.tensor.shape, stored.strides, strict=True):
            loops.append(b.open_loop(None, 1, ZERO, self.sizes.value(size)))
            offset = b.add(offset, b.mul(loops[-1].base, stride))
        value = neutral(b, self.op, value_of(self.tensor.dtype))
        llvm_memory.store(b, stored.pointer, self.tensor.dtype, offset, 1, 1, value, None)
        for loop in reversed(loops):
            b.close_loop(loop)


class _Extents(dict[str, Operand]):
    """Extents by index name, and sizes by `tensor.axis`: static, or a slot loaded once."""

    def __init__(self, emitter: _Emitter) -> None:
        super().__init__()
        self.emitter = emitter

    def __missing__(self, name: str) -> Operand:
        self[name] = self.made(name)
        return self[name]

    def made(self, name: str) -> Operand:
        emitter = self.emitter
        if name in emitter.options.static:
            return emitter.number(emitter.options.static[name])
        tensor, dot, axis = name.rpartition(".")
        if dot:
            return emitter.slot(Slot("size", tensor, int(axis)))
        return emitter.slot(Slot("extent", name))
