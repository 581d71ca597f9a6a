"""Calls of one operator: operands bound to parameters, run, results in the caller's library.

A call like an earlier one (same types, shapes and strides) is bound already: what is left of it is
pointers. Arrays of other libraries are taken over the same memory, so they are bound as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensorc.devices import known, run
from tensorc.errors import ArgumentError
from tensorc.ir.tensor import Program
from tensorc.prepare import MOST_CALLS, Array, Prepared, bound_call, prepare
from tensorc.runtime.dlpack import on_gpu
from tensorc.runtime.forms import key
from tensorc.runtime.interop import giving_back, known_arrays, library_of_first
from tensorc.runtime.operands import by_name
from tensorc.runtime.results import destinations
from tensorc.runtime.warm import Warm


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
        self._warm: dict[tuple[object, ...], Warm] = {}

    def warm(self, operands: tuple[object, ...]) -> object:
        """The results if operands like these were there before, else None."""
        found = self._warm.get(key(operands) or ())
        return None if found is None else found(operands)

    def __call__(self, operands: tuple[object, ...], named: Mapping[str, object]) -> object:
        """The outputs: one, or a tuple of several; those given, or fresh ones.

        Raises ArgumentError for arrays that do not fit, TypeError for operands that are missing,
        unknown or given twice.
        """
        given = by_name(self.program, operands, named)
        if self.device in ("cpu", "cuda") and on_gpu(tuple(given.values())):
            return self._on_gpu(given)
        views = dict(zip(given, known_arrays(tuple(given.values())), strict=True))
        call = self._prepared(given, views)
        taken: dict[str, Array] = {}
        if self.outputs:
            taken = destinations(self.program, self.outputs, call.arrays, call.extents)
        found = run(call, self.device, self.arch, taken or None)
        if call.verify == "full" and self.device == "cpu":
            from tensorc.verify import verify_call

            verify_call(call, found)
        back = giving_back((*operands, *named.values()))
        if not named:
            self._remember(call, operands, views, taken, back)
        first, *others = self.outputs or tuple(map(back, found.values()))
        return (first, *others) if others else first

    def _prepared(self, given: Mapping[str, object], views: Mapping[str, object]) -> Prepared:
        """The call on `views`; what is wrong is said about the operands as they were given."""
        try:
            return prepare(self.program, views, **self.options)
        except ArgumentError:
            prepare(self.program, given, **self.options)
            raise

    def _remember(
        self, call: Prepared, operands: tuple[object, ...], views: Mapping[str, object],
        taken: Mapping[str, Array], back: Callable[[Array], object],
    ) -> None:  # fmt: skip
        """Keep the bound form of the call for others like it, if it has one."""
        form = key(operands) if self.device == "cpu" else None
        bound = None if form is None else bound_call(call, views)
        if form is None or bound is None or (self.outputs and key(self.outputs) is None):
            return
        given = library_of_first(operands)
        own = None if given in ("", "numpy") else back
        arrays = list(call.arrays.values())
        made = Warm(self.program, bound, operands, arrays, own)
        if taken:
            made = made.into(self.outputs, list(taken.values()), bool(self.program.checks))
        if len(self._warm) >= MOST_CALLS:
            self._warm.clear()
        self._warm[form] = made

    def _on_gpu(self, given: Mapping[str, object]) -> object:
        from tensorc import gpu

        first, *others = gpu.call(self.program, given, self.options, self.outputs)
        return (first, *others) if others else first
