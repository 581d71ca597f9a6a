"""Operators as Python objects: `tc.op` and what it returns.

An `Op` knows its program and how to call it; it computes nothing. Tracing and checking happen on
first use, compiling and running in `tensorc.compiler`, which is imported when something runs.
"""

from __future__ import annotations

import functools
import linecache
import threading
import warnings
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from tensorc.errors import NotationError, NotationWarning
from tensorc.lang.spot import Spot, here, is_ours, raised
from tensorc.lang.value import Value
from tensorc.options import extent, index_names, known_option

if TYPE_CHECKING:
    from tensorc.calls import Calls
    from tensorc.cuda_levels import CudaLevels
    from tensorc.ir.tensor import Program
    from tensorc.lang.surface import Operator
    from tensorc.runtime.compiled import Compiled

Function = Callable[..., object]


class Once:
    """A program that is made on first use, by one thread; a failure is raised at every use."""

    def __init__(self, make: Callable[[], Program]) -> None:
        self._make = make
        self._made: Program | None = None
        self._busy = False
        self._lock = threading.RLock()

    def get(self) -> Program:
        """The program. Raises NotationError, also where making it needs itself."""
        if self._made is None:
            with self._lock:
                if self._made is None:
                    self._made = self._first()
        return self._made

    def _first(self) -> Program:
        if self._busy:
            raise _between(here())
        self._busy = True
        try:
            return self._make()
        finally:
            self._busy = False


class Op:
    """An operator: call it with arrays, compile it, or read its program.

    `op(Q, K, V)` compiles on first use and returns the outputs, one NumPy array or a tuple of them.
    Operands go by position or name. `program` is the checked program, `text` its `.tc` form; both
    raise NotationError if the program is wrong.
    """

    def __init__(
        self,
        name: str,
        made: Once,
        function: Function | None = None,
        device: str = "cpu",
        outputs: tuple[object, ...] = (),
        options: Mapping[str, object] | None = None,
    ) -> None:
        self.name = name
        self.function = function
        self._made, self._device = made, device
        self._outputs, self._options = outputs, dict(options or {})
        self._calls: Calls | None = None
        self._rebind: Callable[[object], Op] | None = None
        self._attribute = ""
        if function is None:
            self.__doc__ = f"The operator {name}."
        else:
            functools.update_wrapper(self, function, updated=())

    @property
    def program(self) -> Program:
        """The checked program; made on first use."""
        try:
            return self._made.get()
        except NotationError as error:
            raise error.with_traceback(_cut(error.__traceback__)) from None

    @property
    def text(self) -> str:
        """The program in `.tc` form; reads back to the same program."""
        from tensorc.ir.print_tensor import show_program

        return show_program(self.program)

    def __call__(self, *operands: object, **named: object) -> Any:
        """The outputs for these arrays: one, or a tuple of several, hence Any.

        Raises NotationError for the program, ArgumentError for arrays that do not fit it,
        TypeError for operands that are missing, unknown or given twice.
        """
        if self._calls is not None and not named:
            known = self._calls.warm(operands)
            if known is not None:
                return known
        if any(isinstance(item, Value) for item in (*operands, *named.values())):
            raise _between(here())
        return self._ready()(operands, named)

    def _ready(self) -> Calls:
        if self._calls is None:
            from tensorc.calls import Calls

            self._calls = Calls(self.program, self._device, self._outputs, self._options)
        return self._calls

    def on(self, device: str, **options: object) -> Op:
        """The same operator on another device: "cpu", "cuda", "emulator" or "interpreter".

        Options: `policy="strict"`, `deterministic=True`, `specialize=False`, `static=("d",)`,
        `hints={"n": 4096}`, `threads=4`, `verify="full"`, `cuts="none"`, `check="data-off"` and
        `sizes` (see `prepare.prepare`), and for the emulator `arch="sm_80"`, "sm_90a", ... Raises
        TypeError for another option, ValueError for another value, NotationError for the program
        if indices are named.
        """
        for name, value in options.items():
            known_option(name, value)
        if "static" in options:
            options["static"] = self._known_indices("static", index_names(options["static"]))
        if "hints" in options:
            options["hints"] = self._extents("hints", options["hints"])
        chosen = {**self._options, **options}
        return Op(self.name, self._made, self.function, device, self._outputs, chosen)

    def into(self, *outputs: object) -> Op:
        """The same operator, writing its outputs into these arrays. TypeError: there are none."""
        if not outputs:
            raise TypeError(f"{self.name}.into() needs an array for every output")
        return Op(self.name, self._made, self.function, self._device, outputs, self._options)

    @overload
    def compile(
        self, arch: Literal["native", "cpu"] = "native", sizes: Mapping[str, int] | None = None,
        policy: str = "fast", deterministic: bool = False, check: str = "all",
        hints: Mapping[str, int] | None = None,
        cuts: str | None = None,
    ) -> Compiled: ...  # fmt: skip

    @overload
    def compile(
        self, arch: str, sizes: Mapping[str, int] | None = None, policy: str = "fast",
        deterministic: bool = False, check: str = "all", hints: Mapping[str, int] | None = None,
        cuts: str | None = None,
    ) -> Compiled | CudaLevels: ...  # fmt: skip

    def compile(
        self, arch: str = "native", sizes: Mapping[str, int] | None = None, policy: str = "fast",
        deterministic: bool = False, check: str = "all", hints: Mapping[str, int] | None = None,
        cuts: str | None = None,
    ) -> Compiled | CudaLevels:  # fmt: skip
        """The compiled kernel; extents in `sizes` are fixed in it, the others are arguments of it,
        and it is made to be fast where they are as in `hints`.

        `arch`: "native" or "cpu" for a kernel to call; "sm_80", "sm_90a", ... for one to read: its
        `source`, `tile` text and `report`. `policy`: "fast" or "strict". `deterministic`,
        `check` and `cuts`: see `prepare.prepare`; a deterministic kernel serves all sizes.

        Raises NotationError for the program, ValueError for an index that it does not have, an
        extent that is not an integer of at least 0 or another policy, Unavailable for other
        machines.
        """
        from tensorc import cuda_levels, cuda_ways
        from tensorc.compiler import compile_cpu

        program, static = self.program, self._extents("sizes", sizes or {})
        expected = self._extents("hints", hints or {})
        options = {"policy": policy, "deterministic": deterministic, "check": check, "cuts": cuts}
        for name, value in options.items():
            known_option(name, value)
        checks = check != "data-off"
        wanted = cuda_levels.request(
            arch, static, {}, policy, deterministic, checks, expected, cuts
        )
        if arch in cuda_levels.CPU:
            return compile_cpu(program, wanted)
        return cuda_levels.levels(program, cuda_ways.first(program, wanted))

    def _known_indices(self, option: str, names: Collection[str]) -> tuple[str, ...]:
        """The names, which are indices of the program."""
        for name in names:
            if name not in self.program.extent_of:
                has = ", ".join(self.program.extent_of)
                raise ValueError(f"{option}: {self.name} has no index {name}; it has {has}")
        return tuple(names)

    def _extents(self, option: str, given: object) -> dict[str, int]:
        """Extents by the names of indices of the program."""
        if not isinstance(given, Mapping):
            raise ValueError(f"{option}={given!r}: write {option}={{'n': 4096}}")
        found = cast("Mapping[str, object]", given)
        self._known_indices(option, found)
        return {index: extent(option, index, size) for index, size in found.items()}

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = name

    def __get__(self, instance: object, owner: type | None = None) -> Op:
        """In a class: the operator of that instance, traced with its `self`, kept with it."""
        if instance is None or self._rebind is None:
            return self
        bound = self._rebind(instance)
        kept = getattr(instance, "__dict__", None)
        if isinstance(kept, dict) and self._attribute:
            cast("dict[str, object]", kept)[self._attribute] = bound
        return bound

    def __repr__(self) -> str:
        return f"<operator {self.name}>"

    def _repr_html_(self) -> str:
        """For notebooks: the program's text, or what is wrong with it, escaped."""
        from html import escape

        try:
            text = self.text
        except NotationError as error:
            text = str(error)
        return f"<pre>{escape(text)}</pre>"


def op(signature: str, name: str = "") -> Callable[[Function], Op]:
    """Trace a function as an operator: `@tc.op("x: f32[i], y: f32[i] -> z: f32[i]")`.

    The signature is the header of a `.tc` operator. It is read now, the function is traced on first
    use. `name` is the operator's name if it is not to be the function's. Raises NotationError for
    the signature, or where it disagrees with the function's parameters (E116).
    """
    spot = here()
    if not isinstance(signature, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        wanted = 'write @tc.op("x: f32[i] -> y: f32[i]")'
        raise raised("E108", spot, what="a signature", token="a function", do=wanted)

    def decorate(function: Function) -> Op:
        return _traced(signature, name, function, spot)

    return decorate


def _traced(signature: str, name: str, function: Function, spot: Spot) -> Op:
    from tensorc.lang.headers import header, is_method

    _keep_source(function)
    declared = header(signature, name, function, spot)
    made = Op(declared.name, Once(lambda: _program(declared, function)), function)
    if is_method(declared, function):
        made._rebind = lambda instance: _traced(  # pyright: ignore[reportPrivateUsage]
            signature, name, cast(Any, function).__get__(instance), spot
        )
    return made


def _program(declared: Operator, function: Function) -> Program:
    from tensorc.lang.trace import relocate, trace

    operator = trace(declared, function)
    from tensorc.lang.check import check
    from tensorc.lang.surface import Module

    try:
        (program,) = check(Module((), (operator,)))
    except NotationError as error:
        raise relocate(error, operator) from None
    return _warned(program)


def _warned(program: Program) -> Program:
    """The program; its warnings are issued at the lines that they are about."""
    for item in program.warnings:
        span = item.span.resolve() if item.span is not None else None
        file, line = (span.source.name, span.line) if span else (program.name, 1)
        warnings.warn_explicit(str(item), NotationWarning, file, line)
    return program


def _keep_source(function: Function) -> None:
    """Let `linecache` find sources that only a loader knows (a zip file)."""
    module = getattr(function, "__globals__", None)
    code = getattr(function, "__code__", None)
    if module is not None and code is not None:
        linecache.lazycache(code.co_filename, module)


def ready(program: Program) -> Once:
    """A checked program as what an operator is made of; its warnings are issued on first use."""
    return Once(lambda: _warned(program))


def _between(spot: Spot) -> NotationError:
    core = "write a plain Python function and call it in both"
    return raised("E118", spot, form="a call between operators", core=core)


def _cut(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without our own frames."""
    frames: list[TracebackType] = []
    while trace is not None:
        if not is_ours(trace.tb_frame):
            frames.append(trace)
        trace = trace.tb_next
    cut: TracebackType | None = None
    for item in reversed(frames):
        cut = TracebackType(cut, item.tb_frame, item.tb_lasti, item.tb_lineno)
    return cut
