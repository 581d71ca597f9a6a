"""The memory of one call of a kernel: its buffers, on the stack where they are small, else from
`malloc`, which may fail: the error word is then `NO_MEMORY`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tensorc.codegen.llvm_builder import Builder
from tensorc.errors import Infeasible
from tensorc.ir.launch import NO_MEMORY

STACK = 1 << 17  # bytes; a thread has at least 512 KiB of stack on every supported system
MOST = 1 << 30  # bytes of one call's buffers
ALIGN = 64


class Frame:
    """Buffers of one function, each aligned to a cache line."""

    def __init__(self, kernel: str) -> None:
        self.kernel, self.size, self.names = kernel, 0, dict[str, int]()

    def take(self, size: int) -> str:
        """The pointer to a new buffer of `size` bytes."""
        name = f"%buffer{len(self.names)}"
        self.names[name] = self.size
        self.size += -(-max(size, 1) // ALIGN) * ALIGN
        if self.size > MOST:
            raise Infeasible(
                f"kernel {self.kernel} needs more than {MOST:,} bytes for its tiles; "
                "use smaller tiles"
            )
        return name

    @property
    def on_heap(self) -> bool:
        """Whether the buffers come from `malloc`."""
        return self.size > STACK

    def before(self, b: Builder, error: Callable[[], int]) -> Iterator[str]:
        """The function's first blocks. `error`: the place of the error word among its slots."""
        yield "entry:"
        if self.on_heap:
            b.declare("malloc", "ptr", "i64")
            b.declare("free", "void", "ptr")
            yield from allocated(self.size + ALIGN, error())
        elif self.names:
            yield f"  %frame = alloca [{self.size} x i8], align {ALIGN}"
        for name, start in self.names.items():
            yield f"  {name} = getelementptr i8, ptr %frame, i64 {start}"
        yield "  br label %work"
        yield "work:"

    def after(self) -> Iterator[str]:
        """The function's end."""
        if self.on_heap:
            yield "  call void @free(ptr %heap)"
        yield "  ret void"


def allocated(size: int, slot: int) -> Iterator[str]:
    """Memory from `malloc`; without, the error word says so and the function returns."""
    yield f"  %heap = call ptr @malloc(i64 {size})"
    yield "  %missing = icmp eq ptr %heap, null"
    yield "  br i1 %missing, label %none, label %some"
    yield "none:"
    yield f"  %slot = getelementptr i64, ptr %args, i64 {slot}"
    yield "  %word = load ptr, ptr %slot, align 8"
    yield f"  store i64 {NO_MEMORY}, ptr %word, align 8"
    yield "  ret void"
    yield "some:"
    yield "  %first = ptrtoint ptr %heap to i64"
    yield f"  %past = add i64 %first, {ALIGN - 1}"
    yield f"  %line = and i64 %past, {-ALIGN}"
    yield "  %frame = inttoptr i64 %line to ptr"
