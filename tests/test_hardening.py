"""Nothing that is read is executed: no pickles, no evaluated text, in any source of the package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("tensorc", "passes", "codegen", "benchmarks", "examples")
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "yaml"}
CALLS = {"eval", "exec", "__import__"}  # `compile` alone makes nothing run


def sources() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not any(parent.is_symlink() for parent in path.parents):
                yield path


def faults(tree: ast.AST) -> Iterator[str]:
    """What in a module can run what it reads."""
    for item in ast.walk(tree):
        match item:
            case ast.Import(names):
                found = {alias.name.partition(".")[0] for alias in names}
            case ast.ImportFrom(str(module), _, _):
                found = {module.partition(".")[0]}
            case ast.Call(ast.Name(name)) if name in CALLS:
                yield f"{item.lineno}: {name}()"
                continue
            case ast.Call(ast.Attribute(_, "load" | "save"), _, keywords) if any(
                word.arg == "allow_pickle" and not _is_false(word.value) for word in keywords
            ):
                yield f"{item.lineno}: allow_pickle"
                continue
            case ast.Call(ast.Attribute(ast.Name("np"), "load" | "save" as name), _, keywords) if (
                "allow_pickle" not in {word.arg for word in keywords}
            ):
                yield f"{item.lineno}: np.{name}() without allow_pickle=False"
                continue
            case ast.Attribute(ast.Name("torch"), "load"):
                yield f"{item.lineno}: torch.load"
                continue
            case _:
                continue
        yield from (f"{item.lineno}: import {name}" for name in sorted(found & MODULES))


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def test_no_source_runs_what_it_reads() -> None:
    checked = list(sources())
    assert len(checked) > 200
    found = [
        f"{path.relative_to(ROOT)}:{fault}"
        for path in checked
        for fault in faults(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found


def test_the_walk_sees_them() -> None:
    text = """
import pickle
from yaml import load
x = eval("1")
np.load("x")
np.save("x", allow_pickle=True)
np.load("x", allow_pickle=False)
torch.load("x")
"""
    found = [fault.partition(": ")[2] for fault in faults(ast.parse(text))]
    assert sorted(found) == sorted(
        ["import pickle", "import yaml", "eval()", "np.load() without allow_pickle=False",
         "allow_pickle", "torch.load"]
    )  # fmt: skip
