"""Make a failing case smaller while it fails in the same way.

Tries, largest first: fewer equations, fewer outputs, a node replaced by one of its parts or by a
number, the usual way to run, smaller sizes, dense arrays, simple data. A step is kept if the
finding keeps its signature, so that the search does not slip to another bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

from tensorc.errors import NotationError
from tensorc.fuzz.case import Case
from tensorc.fuzz.ways import USUAL
from tensorc.ir.dtypes import BOOL, IMAGINARY, INTEGER, REAL, DType, settled
from tensorc.ir.node import postorder, replaced
from tensorc.ir.print_tensor import show_program
from tensorc.ir.tensor import (
    Equation,
    Expr,
    Literal,
    Program,
    Round,
    value_type,
)
from tensorc.lang import read

Fails = Callable[[Case], bool]


def reduced(case: Case, fails: Fails, budget: int = 500) -> tuple[Case, bool]:
    """The smallest case found, and whether nothing smaller was left to try.

    `fails` tells whether a case still fails in the same way; it is called at most `budget` times.
    """
    calls = 0
    progress = True
    while progress:
        progress = False
        for candidate in candidates(case):
            if calls >= budget:
                return case, False
            calls += 1
            if fails(candidate):
                case, progress = candidate, True
                break
    return case, True


def candidates(case: Case) -> Iterator[Case]:
    """Smaller cases, most promising first."""
    try:
        (program,) = read(case.text)
    except NotationError:
        return
    for smaller in _smaller_programs(program):
        text = _printed(smaller)
        if text is not None and text != case.text:
            yield replace(case, text=text)
    for name in case.way.changes():
        if name != "device":
            yield replace(case, way=replace(case.way, **{name: getattr(USUAL, name)}))
    for name, size in case.sizes.items():
        for less in dict.fromkeys((1, size // 2, size - 1)):
            if 0 < less < size:
                yield replace(case, sizes={**case.sizes, name: less})
    for name, layout in case.layouts.items():
        if layout != "dense":
            yield replace(case, layouts={**case.layouts, name: "dense"})
    for name, recipe in case.recipes.items():
        if recipe not in ("small", "normal"):
            yield replace(case, recipes={**case.recipes, name: "normal"})


def _printed(program: Program) -> str | None:
    """The text, if the program is still a valid one."""
    try:
        text = show_program(program)
        read(text)
        return text
    except (NotationError, TypeError, ValueError):
        return None


def _smaller_programs(program: Program) -> Iterator[Program]:
    yield from _fewer_outputs(program)
    yield from _fewer_equations(program)
    for number, equation in enumerate(program.equations):
        for body in _smaller_bodies(equation.body):
            made = _with_body(equation, body)
            if made is not None:
                equations = list(program.equations)
                equations[number] = made
                yield _without_unused(replace(program, equations=tuple(equations)))


def _fewer_outputs(program: Program) -> Iterator[Program]:
    if len(program.outputs) > 1:
        for output in program.outputs:
            rest = tuple(item for item in program.outputs if item is not output)
            kept = tuple(i for i in program.equations if i.tensor.name != output.tensor.name)
            yield replace(program, outputs=rest, equations=kept)


def _fewer_equations(program: Program) -> Iterator[Program]:
    names = {output.tensor.name for output in program.outputs}
    for equation in program.equations:
        if equation.tensor.name not in names:
            kept = tuple(item for item in program.equations if item is not equation)
            yield replace(program, equations=kept)


def _without_unused(program: Program) -> Program:
    """Drop parameters that nothing reads and extents that nothing names."""
    text = " ".join(repr(equation.body) for equation in program.equations)
    used = tuple(item for item in program.parameters if f"name='{item.tensor.name}'" in text)
    return replace(program, parameters=used or program.parameters[:1])


def _smaller_bodies(body: Expr) -> Iterator[Expr]:
    """The body with one node replaced by a part of it of a joining type, or by a number."""
    nodes = [item for item in postorder([body]) if isinstance(item, Expr)]
    for target in reversed(nodes):
        for part in _parts(target):
            yield _replaced(body, target, part)


def _parts(node: Expr) -> Iterator[Expr]:
    kind = _kind(value_type(node))
    below = [i for i in postorder([node]) if isinstance(i, Expr) and i is not node]
    for part in reversed(below):
        if _kind(value_type(part)) == kind and not isinstance(part, Literal):
            yield part
    if not isinstance(node, Literal | Round):
        yield Literal(Fraction(1), _LITERAL[kind])


_LITERAL = {"float": REAL, "bool": BOOL, "complex": IMAGINARY, "int": INTEGER}


def _kind(dtype: DType) -> str:
    if dtype is BOOL:
        return "bool"
    if dtype.complex:
        return "complex"
    return "float" if dtype.floating else "int"


def _replaced(body: Expr, target: Expr, part: Expr) -> Expr:
    made = replaced(body, lambda item: part if item is target else None)
    assert isinstance(made, Expr)
    return made


def _with_body(equation: Equation, body: Expr) -> Equation | None:
    """The equation with another body, its rounding set right; None if it has no type."""
    inner = body.arg if isinstance(body, Round) else body
    try:
        own = settled(value_type(inner))
    except TypeError:
        return None
    dtype = equation.tensor.dtype
    return replace(equation, body=inner if own is dtype else Round(dtype, inner))
