"""Generated programs written once more in Python: tracing gives the same nodes as the text.

Each statement of a printed program is replayed through the public names of the Python surface.
Two things have no Python form: brackets on the left of a sum, `(a + b) + c` is `a + b + c`, and
equations that nothing reads, which are not there.
"""

from __future__ import annotations

import inspect
import operator
import os
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Any

import pytest

import tensorc as tc
from tensorc.fuzz.generate import generate
from tensorc.ir import syntax as s
from tensorc.ir.choose import RandomChooser
from tensorc.ir.node import Node, postorder, rebuild
from tensorc.ir.print_tensor import show_program
from tensorc.ir.source import Range, Source
from tensorc.ir.tensor import Apply, Equation, Program, Read
from tensorc.lang.facts import FLAT
from tensorc.lang.parse import parse_file
from tensorc.lang.spot import Spot
from tensorc.lang.surface import Operator, Statement
from tensorc.lang.value import taken

COUNT = 1000 if os.environ.get("TENSORC_PROFILE") == "campaign" else 150

OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "truediv", "floordiv": "floordiv",
    "mod": "mod", "pow": "pow", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq",
    "ne": "ne", "and": "and_", "or": "or_", "bitand": "and_", "bitor": "or_", "bitxor": "xor",
    "shl": "lshift", "shr": "rshift",
}  # fmt: skip
PREFIXES: dict[str, Callable[[Any], Any]] = {
    "neg": operator.neg, "not": operator.invert, "invert": operator.invert,
}  # fmt: skip
NUMBERS = {"inf": float("inf"), "nan": float("nan"), "-0": -0.0}


class Replay:
    """A callable with the parameters of an operator that computes its statements in Python."""

    def __init__(self, source: Operator) -> None:
        self.source = source
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = [item.name for item in source.parameters]
        self.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])
        self.tensors: dict[str, tc.Tensor] = {}
        self.sizes = sizes(source)

    def __call__(self, **parameters: tc.Tensor) -> tuple[tc.Tensor, ...]:
        self.tensors = parameters
        for statement in self.source.statements:
            self.tensors[statement.name] = self.defined(statement)
        return tuple(self.tensors[item.name] for item in self.source.outputs)

    def defined(self, item: Statement) -> tc.Tensor:
        left = tuple(self.index(bound.name) for bound in item.left)
        dtype = None if item.dtype is None else getattr(tc, item.dtype.name)
        return tc.let[left](self.value(item.body), dtype=dtype, name=item.name)

    def index(self, name: str) -> tc.Index:
        return tc.index(f"{name}={self.sizes[name]}" if name in self.sizes else name)

    def value(self, item: s.Syntax) -> Any:
        match item:
            case s.Constant(literal, _):
                return number(literal.value, literal.dtype.name)
            case s.Name(name, _):
                return self.tensors[name] if name in self.tensors else self.index(name)
            case s.SizeOf(name, _):
                return self.index(name).size
            case s.Access(name, subscripts, _):
                return self.tensors[name][tuple(map(self.value, subscripts))]
            case s.Call(name, args, _) if name in PREFIXES:
                return PREFIXES[name](self.value(args[0]))
            case s.Call(name, args, _) if name in OPERATORS:
                return reduce(binary(name), map(self.value, args))
            case s.Call(name, args, _):
                return getattr(tc, name)(*map(self.value, args))
            case s.Chain(operators, args, _):
                values = [self.value(arg) for arg in args]
                pairs = zip(operators, values, values[1:], strict=False)
                return reduce(binary("and"), [binary(n)(a, b) for n, a, b in pairs])
            case s.Convert(dtype, arg, bits, _):
                cast = getattr(tc, dtype.name)
                return tc.bitcast(cast, self.value(arg)) if bits else cast(self.value(arg))
            case s.Reduction(reducer, bindings, dtype, body, where, _):
                over: tuple[Any, ...] = tuple(self.index(bound.name) for bound in bindings)
                over += () if dtype is None else (getattr(tc, dtype.name),)
                condition = None if where is None else self.value(where)
                return getattr(tc, reducer)[over](self.value(body), where=condition)


def binary(name: str) -> Callable[[Any, Any], Any]:
    return getattr(operator, OPERATORS[name])


def sizes(source: Operator) -> dict[str, str]:
    """The size that an index has wherever it is bound with one, as text."""
    found: dict[str, str] = {}
    bodies = [item for statement in source.statements for item in s.postorder(statement.body)]
    bindings = [bound for statement in source.statements for bound in statement.left]
    for item in bodies:
        bindings += item.bindings if isinstance(item, s.Reduction) else ()
    for bound in bindings:
        if bound.size is not None:
            place = bound.size.span
            assert isinstance(place, Range)
            found[bound.name] = place.source.text[place.start : place.end]
    return found


def number(value: Fraction | str, dtype: str) -> tc.Expr:
    """The number as an expression, so that Python does not compute with it."""
    if value == "pi":
        return tc.pi
    if isinstance(value, str):
        return taken(NUMBERS[value], Spot(()))
    exact: dict[str, Callable[[Fraction], object]] = {"bool": bool, "integer": int, "real": float}
    return taken(exact[dtype](value), Spot(()))


def replayed(text: str) -> tc.Op:
    """The program of a text, traced from Python."""
    (source,) = parse_file(Source("<program>", text)).operators
    header = text.partition("\n  " + source.statements[0].name)[0]
    signature = re.sub(r"^op \w+\((.*)\) ->", r"\1 ->", header, flags=re.DOTALL)
    return tc.op(signature, name=source.name)(Replay(source))


def flat(item: Node) -> Node:
    """Sums and products without brackets on their left."""
    item = rebuild(item, flat)
    if isinstance(item, Apply) and item.function.name in FLAT:
        first = item.args[0]
        if isinstance(first, Apply) and first.function is item.function:
            return Apply(item.function, (*first.args, *item.args[1:]))
    return item


def flattened(program: Program) -> list[Equation]:
    return [replace(item, body=flat(item.body)) for item in program.equations]  # type: ignore[arg-type]


def used(program: Program) -> Program:
    """The program without the equations that no output needs."""
    needed = {item.tensor for item in program.outputs}
    kept: list[Equation] = []
    for item in reversed(program.equations):
        if item.tensor in needed:
            kept.append(item)
            needed |= {part.tensor for part in postorder([item.body]) if isinstance(part, Read)}
    return replace(program, equations=tuple(reversed(kept)))


@pytest.mark.filterwarnings("ignore::tensorc.NotationWarning")
@pytest.mark.parametrize("start", range(0, COUNT, 50))
def test_generated_programs_are_the_same_from_python(start: int) -> None:
    for seed in range(start, start + 50):
        text = show_program(generate(RandomChooser(seed)).program)
        try:
            (wanted,) = tc.loads(text)
        except tc.NotationError:
            continue  # an access that no size admits
        op = replayed(text)
        assert flattened(op.program) == flattened(used(wanted.program)), text
        assert op.program.extent_of.items() <= wanted.program.extent_of.items(), text
        assert op.program == next(iter(tc.loads(op.text))).program
