"""What `import tensorc` loads, and the public names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import tensorc as tc

HEAVY = ("numpy", "sympy", "egglog", "ortools", "llvmlite", "ml_dtypes", "tensorc.lang.check")


def test_import_is_lazy() -> None:
    code = f"import tensorc, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "[]"


def test_defining_an_operator_needs_no_heavy_package() -> None:
    code = (
        "import tensorc as tc, sys; i = tc.index('i');"
        "f = tc.op('x: f32[i] -> y: f32[i]')(lambda x: tc.exp(x[i]));"
        f"f.program; print([m for m in {HEAVY[:6]!r} if m in sys.modules])"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "[]"


def test_no_public_name_is_a_module() -> None:
    folder = Path(tc.__file__).parent
    modules = {path.stem for path in folder.iterdir()}
    assert not modules & set(tc.__all__), "importing the module would hide the name"


def test_public_names_are_all_there() -> None:
    assert set(dir(tc)) >= set(tc.__all__)
    assert all(getattr(tc, name) is not None for name in tc.__all__)
    assert not hasattr(tc, "relu")
