"""One program run on arrays by the level-1 interpreter, its extents bound as at a call."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.sizes import bind
from tensorc.lang import read


def run(text: str, given: dict[str, int] | None = None, /, **arrays: npt.ArrayLike) -> Any:
    """The value of the first output of the only op of `text`; its errors pass through."""
    (program,) = read(text)
    operands = {name: np.asarray(value) for name, value in arrays.items()}
    shapes = {name: value.shape for name, value in operands.items()}
    extents = bind(program, shapes, given)
    for name, value in (given or {}).items():
        if any(item.tensor.name == name for item in program.parameters):
            operands[name] = np.asarray(value)
    return interpret(program, operands, extents)[program.outputs[0].tensor.name]
