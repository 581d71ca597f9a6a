"""The sources that a kernel's key covers."""

from __future__ import annotations

from pathlib import Path

import tensorc
from tensorc.runtime import keys


def test_sources_of_all_that_makes_code_are_covered() -> None:
    names = {f"{part}/{name}" for part in keys.PARTS for name, _ in keys.files(part)}
    top = {f"/{path.name}" for path in Path(tensorc.__file__).parent.glob("*.py")}
    assert top <= names and {"/pipeline.py", "/compiler.py"} <= top
    for name in ("ir/tensor.py", "passes/complex_parts.py", "codegen/llvm.py", "machine/cpu.py"):
        assert name in names
    assert keys.sources() == keys.sources.__wrapped__()
