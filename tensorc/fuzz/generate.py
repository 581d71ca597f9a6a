"""Random programs with sizes and data recipes: what a test of the compiler runs on.

A case is data, not a seed: the program's text, extents, layouts and recipes, from which the arrays
are made anew anywhere (`fuzz.data`). Programs are valid by construction; `Generated.text` is what
the language's own printer gives, and reading it back must give the same nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorc.fuzz.grammar import expression
from tensorc.fuzz.leaves import FAMILIES, POLICIES, Policy, Scope, call, family_of
from tensorc.ir.choose import Chooser, chance, pick, subset, weighted
from tensorc.ir.dtypes import (
    BF16,
    BOOL,
    COMPLEX64,
    COMPLEX128,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    DType,
    settled,
)
from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Polynomial, extent, polynomial
from tensorc.ir.tensor import (
    Cast,
    Declaration,
    Equation,
    Expr,
    Position,
    Program,
    Reduce,
    Round,
    Tensor,
    free_indices,
    value_type,
)

RECIPES = ("small", "normal", "wide", "large", "equal", "coded", "special")
LAYOUTS = ("dense", "dense", "dense", "transposed", "reversed", "strided", "broadcast", "offset")
POOL = ("i", "j", "k", "l", "m")
WORK = 400_000  # iteration points of the largest nest


@dataclass(frozen=True)
class Generated:
    """A program with everything that its run depends on."""

    program: Program
    sizes: Mapping[str, int]
    recipes: Mapping[str, str]
    layouts: Mapping[str, str]
    policy: str


def generate(chooser: Chooser, extra: bool = False) -> Generated:
    """A random case; with f8 and complex types too if `extra`."""
    policy = pick(chooser, POLICIES)
    extents = _extents(chooser)
    parameters = _parameters(chooser, extents, _EXTRA_TYPES if extra else _PARAMETER_TYPES)
    program = _program(chooser, policy, extents, parameters, extra)
    sizes = _sizes(chooser, program)
    return Generated(
        program, sizes,
        {item.tensor.name: _recipe(chooser, item) for item in program.parameters},
        {item.tensor.name: pick(chooser, LAYOUTS) for item in program.parameters},
        policy.name,
    )  # fmt: skip


def _extents(chooser: Chooser) -> dict[str, Polynomial]:
    """Two to five index names; a few have a stated size."""
    names = POOL[: chooser.integer(2, len(POOL))]
    stated = chance(chooser, 2)
    return {
        name: polynomial(chooser.integer(1, 5)) if stated and name == names[-1] else extent(name)
        for name in names
    }


_PARAMETER_TYPES = (
    (6, F32), (3, F16), (3, BF16), (2, F64), (2, I32), (1, I64), (1, I8), (1, I16), (1, U8),
    (1, U16), (1, U32), (1, U64), (1, BOOL),
)  # fmt: skip

_EXTRA_TYPES = (
    (6, COMPLEX64), (2, COMPLEX128), (4, F8E4M3), (4, F8E5M2), (3, F32), (2, F64), (1, F16),
    (1, I32), (1, U8), (1, BOOL),
)  # fmt: skip
Types = tuple[tuple[int, DType], ...]


def _parameters(
    chooser: Chooser, extents: Mapping[str, Polynomial], types: Types
) -> tuple[Declaration, ...]:
    """One to four tensors of up to three dimensions; every free extent is some dimension."""
    names = list(extents)
    made: list[Declaration] = [
        _parameter(chooser, f"x{number}", subset(chooser, names, 0, 3), extents, types)
        for number in range(chooser.integer(1, 3))
    ]
    # A square tensor drops a name, so what is missing is counted from what was made.
    seen = {dim for item in made for dim in item.dims}
    missing = [name for name in names if name not in seen and extents[name].constant is None]
    for number in range(0, len(missing), 3):
        dims = tuple(missing[number : number + 3])
        dtype = weighted(chooser, types)
        tensor = Tensor(f"w{number}", dtype, tuple(extents[dim] for dim in dims))
        made.append(Declaration(tensor, dims))
    return tuple(made)


def _parameter(
    chooser: Chooser, name: str, dims: list[str], extents: Mapping[str, Polynomial], types: Types
) -> Declaration:
    dtype = weighted(chooser, types)
    if len(dims) == 2 and chance(chooser, 1):
        dims = [dims[0], dims[0]]
    if dims and chance(chooser, 3):
        dims = dims[::-1]
    tensor = Tensor(name, dtype, tuple(extents[dim] for dim in dims))
    return Declaration(tensor, tuple(dims))


def _program(
    chooser: Chooser, policy: Policy, extents: Mapping[str, Polynomial],
    parameters: tuple[Declaration, ...], extra: bool,
) -> Program:  # fmt: skip
    """One to four equations; the last ones are the outputs."""
    count = chooser.integer(1, 4)
    outputs = 1 if count == 1 else chooser.integer(1, 2)
    known = list(parameters)
    equations: list[Equation] = []
    declared: list[Declaration] = []
    for number in range(count):
        is_output = number >= count - outputs
        scope = Scope(chooser, policy, (), tuple(known), extents, extra=extra)
        name = f"y{number}" if is_output else f"t{number}"
        equation = _equation(scope, name, is_output)
        item = Declaration(equation.tensor, tuple(equation.indices))
        known.append(item)
        equations.append(equation)
        if is_output:
            declared.append(item)
    return Program("f", parameters, tuple(declared), tuple(equations), tuple(extents.items()))


def _equation(scope: Scope, name: str, is_output: bool) -> Equation:
    chooser = scope.chooser
    left = tuple(subset(chooser, list(scope.extents), 0 if is_output else 1, 3))
    inner = scope.within(left)
    kinds = [(6, "float"), (3, "int"), (1, "uint"), (1, "bool")]
    if scope.extra:
        kinds = [(4, "float"), (4, "complex"), (1, "bool")]
    family = weighted(chooser, kinds)
    assert family in FAMILIES
    body = _free_everywhere(inner, expression(inner, family, chooser.integer(1, 4)), left)
    dtype = _stored(scope, body, is_output)
    rounds = dtype is not settled(value_type(body))
    tensor = Tensor(name, dtype, tuple(scope.extents[index] for index in left))
    return Equation(tensor, left, Round(dtype, body) if rounds else body)


def _free_everywhere(scope: Scope, body: Expr, left: tuple[str, ...]) -> Expr:
    """An index of the left side that the right side only reduces would be an error: add it."""
    bound = {i for item in postorder([body]) if isinstance(item, Reduce) for i in item.indices}
    for index in left:
        if index in bound and index not in free_indices(body):
            body = _mention(body, index)
    return body


def _mention(body: Expr, index: str) -> Expr:
    if value_type(body) is BOOL:
        return call("and", body, call("ge", Position(index), Position(index)))
    if family_of(settled(value_type(body))) == "uint":
        return call("add", body, Cast(U32, Position(index)))
    return call("add", body, Position(index))


def _stored(scope: Scope, body: Expr, is_output: bool) -> DType:
    """The declared type: the body's own, or another of its kind (integers may become floats)."""
    own, chooser = settled(value_type(body)), scope.chooser
    if not is_output and not chance(chooser, 3):
        return own
    if own is BOOL:
        return BOOL
    if own.complex:
        return pick(chooser, (COMPLEX64, COMPLEX128, own))
    if own.floating:
        narrow = (F8E4M3, F8E5M2) if scope.extra else ()
        return pick(chooser, (F32, F16, BF16, F64, own, *narrow))
    return pick(chooser, (own, own, I8, I16, I32, U8, I64, F32))


def _sizes(chooser: Chooser, program: Program) -> dict[str, int]:
    """Sizes around vector edges, equal or all different, shrunk until the work is small."""
    free = [name for name, size in program.extents if size.constant is None]
    style = weighted(chooser, [(6, "mixed"), (2, "equal"), (2, "tiny"), (1, "zero")])
    same = chooser.integer(1, 19)
    sizes = {name: same if style == "equal" else _size(chooser, style) for name in free}
    if style == "zero" and free:
        sizes[pick(chooser, free)] = 0
    while work(program, sizes) > WORK:
        largest = max(sizes, key=lambda name: sizes[name])
        sizes[largest] = sizes[largest] // 2
    return sizes


def _size(chooser: Chooser, style: str) -> int:
    if style == "tiny":
        return chooser.integer(1, 3)
    return pick(chooser, (1, 2, 3, 5, 7, 15, 16, 17, 31, 32, 33, 47, 65))


def work(program: Program, sizes: Mapping[str, int]) -> int:
    """Iteration points of the largest equation, reductions included."""
    known = {name: sizes.get(name, size.constant or 1) for name, size in program.extents}
    most = 0
    for equation in program.equations:
        points = 1
        names = set(equation.indices)
        reduces = [item for item in postorder([equation.body]) if isinstance(item, Reduce)]
        for name in names.union(*(item.indices for item in reduces)) if reduces else names:
            points *= max(1, known[name])
        most = max(most, points)
    return most


def _recipe(chooser: Chooser, item: Declaration) -> str:
    dtype = item.tensor.dtype
    return pick(chooser, RECIPES) if dtype.floating or dtype.complex else "small"
