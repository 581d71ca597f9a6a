"""Calls of one operator: operands bound to parameters, run, results in the caller's library.

A call like an earlier one (same types, shapes and strides) is bound already: what is left of it is
pointers. Arrays of other libraries are taken over the same memory, so they are bound as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from tensorc.devices import known, run
from tensorc.ir.tensor import Program
from tensorc.prepare import Array, prepare, remember
from tensorc.runtime.bound import key
from tensorc.runtime.compiled import Call
from tensorc.runtime.dlpack import on_gpu
from tensorc.runtime.interop import giving_back, known_arrays, library_of
from tensorc.runtime.operands import by_name
from tensorc.runtime.results import destinations


class Calls:
    """How one operator is called on one device, with these options, into these outputs if any.

    Raises Unavailable for a device that this version does not run on.
    """

    def __init__(
        self, program: Program, device: str, outputs: tuple[object, ...], options: Mapping[str, Any]
    ) -> None:  # fmt: skip
        known(device)
        self.program, self.device, self.outputs = program, device, outputs
        self.options = {name: value for name, value in options.items() if name != "arch"}
        self.arch = str(options.get("arch", "sm_90a"))
        self._bound: dict[tuple[object, ...], Call] = {}
        self._keep = device == "cpu" and not outputs and not options

    def warm(self, operands: tuple[object, ...]) -> object:
        """The results if NumPy arrays like these were there before, else None."""
        found = self._bound.get(key(operands) or ())
        if found is None:
            return None
        results = found(cast("Sequence[Array]", operands))
        return results[0] if len(results) == 1 else tuple(results)

    def __call__(self, operands: tuple[object, ...], named: Mapping[str, object]) -> object:
        """The outputs: one, or a tuple of several; those given, or fresh ones.

        Raises ArgumentError for arrays that do not fit, TypeError for operands that are missing,
        unknown or given twice.
        """
        every = (*operands, *named.values())
        if self.outputs and not (self.device in ("cpu", "cuda") and on_gpu(every)):
            return self._into(operands, named)
        if all(library_of(item) in ("", "numpy") for item in every):
            return self._fresh(operands, named)
        if self.device in ("cpu", "cuda") and on_gpu(every):
            return self._on_gpu(operands, named)
        views = tuple(known_arrays(operands))
        found = None if named else self.warm(views)
        results = self._fresh(views, named) if found is None else found
        back = giving_back(every)
        if isinstance(results, tuple):
            return tuple(back(item) for item in cast("tuple[Array, ...]", results))
        return back(cast(Array, results))

    def _fresh(self, operands: tuple[object, ...], named: Mapping[str, object]) -> Any:
        call = prepare(self.program, by_name(self.program, operands, named), **self.options)
        results = tuple(run(call, self.device, self.arch).values())
        if self._keep and not named:
            remember(self._bound, call, operands)
        first, *others = results
        return results if others else first

    def _on_gpu(self, operands: tuple[object, ...], named: Mapping[str, object]) -> object:
        from tensorc import gpu

        given = by_name(self.program, operands, named)
        results = gpu.call(self.program, given, self.options, self.outputs)
        first, *others = results
        return results if others else first

    def _into(self, operands: tuple[object, ...], named: Mapping[str, object]) -> object:
        call = prepare(self.program, by_name(self.program, operands, named), **self.options)
        given = destinations(self.program, self.outputs, call.arrays, call.extents)
        run(call, self.device, self.arch, given)
        first, *others = self.outputs
        return self.outputs if others else first
