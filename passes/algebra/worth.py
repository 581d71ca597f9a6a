"""Whether a program has anything for the algebra: asked of every program, so it imports little."""

from __future__ import annotations

from tensorc.ir.node import postorder
from tensorc.ir.tensor import Apply, Program, Read, Reduce
from tensorc.passes.algebra.exponentials import EXPONENTIALS


def worth_encoding(program: Program) -> bool:
    """Whether a rule might apply: two reductions, an exponential beside one, three factors in a
    sum, or a row that data picks in one. A cheap look at the nodes."""
    reduces = rich = powers = 0
    for item in postorder(equation.body for equation in program.equations):
        match item:
            case Reduce():
                reduces += 1
            case Apply(function, args):
                powers += function.name in EXPONENTIALS
                rich += function.name == "mul" and (
                    len(args) > 2
                    or any(isinstance(a, Apply) and a.function.name in _PRODUCT for a in args)
                )
            case Read(_, subscripts):
                rich += any(isinstance(n, Read) for n in postorder(subscripts))
            case _:
                pass
    return reduces > 1 or bool(reduces and (rich or powers))


_PRODUCT = ("mul", "div", "add", "sub", "neg")
