"""Rows from and to memory in pieces of neighbours, one thread a piece: 16 bytes at once where a
tensor is aligned, element by element where it is not, or where a row ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorc.codegen.cuda_expressions import Expressions
from tensorc.codegen.cuda_functions import (
    bare,
    constant,
    convert,
    narrowed,
    rounded,
    stored_type,
    widened,
)
from tensorc.codegen.cuda_parameters import Names, Parameters
from tensorc.ir.dtypes import DType, value_of
from tensorc.ir.tensor import Expr, Position, Read, Tensor, free_indices, resolved, value_type
from tensorc.ir.tile import Store
from tensorc.ir.walk_tile import tensors_in

BYTES = 16  # of a piece that is moved at once, at most


class Pieces:
    """The accesses of one kernel. `row`: the index of rows in a block and the test that this row is
    one; `index`, `partial`: the index along rows whose elements are at hand, and whether they may
    lie beyond its extent."""

    def __init__(
        self, parameters: Parameters, e: Expressions, names: Names, vector: int
    ) -> None:  # fmt: skip
        self.parameters, self.e, self.names, self.vector = parameters, e, names, vector
        self.row: tuple[str, str] | None = None
        self.index: str | None = None
        self.partial = False
        self.tests: list[str] = []  # declarations: whether tensors are aligned
        self._wide: dict[str, str] = {}

    def adjacent(self, item: Read | Store, index: str) -> bool:
        """Whether neighbours along rows are known to lie side by side in a tensor."""
        users = [n for n, part in enumerate(item.subscripts) if index in free_indices(part)]
        if len(users) != 1 or item.subscripts[users[0]] is not Position(index):
            return False
        data = tensors_in(item.subscripts)
        return not data and self.parameters.stride(item.tensor, users[0]) == "1"

    # --- guards ---------------------------------------------------------------------------------

    def guarded(self, expr: Expr, text: str, kind: DType) -> str:
        """A value that reads memory, 0 where its lanes lie outside of the domain."""
        reads = tensors_in((expr,))
        tests = self.inside(frozenset[str]().union(*map(free_indices, reads)))
        return f"({' && '.join(tests)} ? {text} : {constant(0, kind)})" if tests else text

    def inside(self, free: frozenset[str]) -> list[str]:
        """The tests that the lanes of indices lie inside their extents."""
        tests = [self.row[1]] if self.row and self.row[0] in free else []
        if self.partial and self.index is not None and self.index in free:
            tests.append(f"{self.e.position[self.index]} < {self.parameters.extent(self.index)}")
        return tests

    # --- accesses -------------------------------------------------------------------------------

    def load(
        self, read: Read, index: str, dtype: DType, name: str, element: str
    ) -> Iterator[str]:  # fmt: skip
        """One piece of a row into a thread's array."""
        tensor, kind = read.tensor, value_of(dtype)
        where, left = self._piece(tensor, read.subscripts, index)
        wide = self._test(tensor, read.subscripts, index)
        yield f"{stored_type(tensor.dtype)} raw[{self.vector}];"
        yield f"tcr_load<{self.vector}>(raw, {where}, {left}, {wide});"
        value = convert(widened("raw[v]", tensor.dtype), value_of(tensor.dtype), kind)
        value = value if kind is dtype else rounded(value, kind, dtype)
        place = element if self.vector > 1 else element.replace("c", "c + v")
        yield f"TCT_FOR(v, {self.vector}) {name}[{place}] = {bare(value)};"

    def store(self, item: Store, index: str) -> Iterator[str]:
        """One piece of a row to memory."""
        tensor = item.tensor
        where, left = self._piece(tensor, item.subscripts, index)
        wide = self._test(tensor, item.subscripts, index)
        first = self.e.position[index]
        self.e.position[index], self.index = f"({first} + v)", index
        dtype = value_of(tensor.dtype)
        value = bare(self.guarded(item.value, self._narrow(item), dtype))
        self.e.position[index], self.index = first, None
        yield f"{stored_type(tensor.dtype)} raw[{self.vector}];"
        yield f"TCT_FOR(v, {self.vector}) raw[v] = {value};"
        yield f"tcr_store<{self.vector}>({where}, raw, {left}, {wide});"

    def stored(self, item: Store, tests: Sequence[str]) -> str:
        """One element's assignment, under tests."""
        free = frozenset[str]().union(*map(free_indices, item.subscripts))
        every = [*tests, *self.inside(free)]
        offset = self.e.offset(item.tensor, item.subscripts)
        text = f"{self.parameters.pointer(item.tensor)}[{offset}] = {bare(self._narrow(item))};"
        return f"if ({' && '.join(every)}) {text}" if every else text

    def _narrow(self, item: Store) -> str:
        """A value as it is stored."""
        dtype = item.tensor.dtype
        kind = resolved(value_type(item.value), value_of(dtype))
        return narrowed(self.e.value(item.value, kind), kind, dtype)

    def _piece(
        self, tensor: Tensor, subscripts: tuple[Expr, ...], index: str
    ) -> tuple[str, str]:  # fmt: skip
        """The address of a piece's first element, and how many of its elements lie inside."""
        left = str(self.vector)
        if self.partial:
            left = f"{self.parameters.extent(index)} - {self.e.position[index]}"
        free = frozenset[str]().union(*map(free_indices, subscripts))
        if self.row and self.row[0] in free:
            left = f"{self.row[1]} ? {left} : 0"
        return f"{self.parameters.pointer(tensor)} + {self.e.offset(tensor, subscripts)}", left

    def _test(self, tensor: Tensor, subscripts: Sequence[Expr], index: str) -> str:
        """The name of the test that pieces of a tensor are aligned; "false": they never are."""
        if tensor.name not in self._wide:
            self._wide[tensor.name] = self._aligned(tensor, subscripts, index)
        return self._wide[tensor.name]

    def _aligned(self, tensor: Tensor, subscripts: Sequence[Expr], index: str) -> str:
        item = tensor.dtype.bits // 8
        size = min(BYTES, item * self.vector)
        parts = [f"(u64){self.parameters.pointer(tensor)}"]
        for axis, subscript in enumerate(subscripts):
            if subscript is Position(index):
                continue
            factors = self.parameters.stride(tensor, axis).split(" * ")
            numbers = [int(f.removesuffix("ll")) for f in factors if f.removesuffix("ll").isdigit()]
            total = item
            for number in numbers:
                total *= number
            if total % size == 0:
                continue
            if len(numbers) == len(factors):
                return "false"
            parts.append(f"{item} * ({' * '.join(factors)})")
        name = self.names.derived("wide", tensor.name)
        both = parts[0] if len(parts) == 1 else f"({' | '.join(parts)})"
        self.tests.append(f"const bool {name} = ({both} & {size - 1}) == 0;")
        return name
