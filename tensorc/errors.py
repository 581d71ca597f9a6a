"""The exceptions that users see. Each names what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from tensorc.ir.source import Diagnostic


class _Diagnosed(ValueError):
    """Several faults, collected and raised together; the fields are the first one's."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        if not diagnostics:
            raise ValueError("an error needs at least one diagnostic")
        self.diagnostics = tuple(diagnostics)
        first = self.diagnostics[0]
        self.code, self.message = first.code, first.message
        self.place = first.span.resolve().place if first.span else ""
        self.found, self.allowed, self.do = first.found, first.allowed, first.do
        super().__init__("\n".join(str(item) for item in self.diagnostics))


class NotationError(_Diagnosed):
    """The program is wrong: found where it is defined."""


class NotationWarning(UserWarning):
    """The program is right, but one of its lines may not be what was meant (W201 to W203)."""


class CacheWarning(UserWarning):
    """Compiled kernels are not kept or not loaded (W601 to W604); results are right anyway."""


class ArgumentError(_Diagnosed):
    """The arrays or sizes of a call do not fit the program."""


class OutOfRange(ArgumentError, IndexError):
    """A subscript read from data is out of range (R704)."""


class Infeasible(RuntimeError):
    """No schedule or tile fits the machine: which resource, by how much, what would fit."""

    def __init__(self, message: str, *, resource: str = "", need: int = 0, limit: int = 0) -> None:
        super().__init__(message)
        self.resource, self.need, self.limit = resource, need, limit


class Unavailable(RuntimeError):
    """A compiler, driver or package is missing here; the message says what installs it."""


class KernelError(RuntimeError):
    """A kernel failed while running (R701 to R703)."""


class BrokenInvariant(AssertionError):
    """A bug of ours: the message has the IR, the invariant and how to run it again."""
