"""Imports go one way, every package is packaged, and nothing leans on the links in the tree."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = {"passes": "tensorc.passes", "codegen": "tensorc.codegen"}

# What each part of the package may import; also whatever those may. `errors` and `libraries` are
# as low as `ir`. A new module beside `pipeline.py` needs its line here.
BELOW: dict[str, set[str]] = {
    "ir": {"errors"},
    "errors": {"ir"},
    "libraries": {"errors"},
    "lang": {"ir", "libraries"},
    "machine": {"ir", "libraries"},
    "runtime": {"ir", "machine"},
    "passes": {"ir", "machine"},
    "codegen": {"ir", "machine"},
    "worker": {"passes"},
    "observe": {"machine"},
    "depth": set(),
    "explain": {"observe", "passes"},
    "progress": set(),
    "request": {"machine"},
    "pipeline": {"request", "solving", "depth"},
    "compiler": {"pipeline", "codegen", "progress"},
    "prepare": {"compiler"},
    "solving": {"passes", "codegen", "runtime", "worker", "explain"},
    "cuda_levels": {"compiler", "solving"},
    "cuda_code": {"cuda_levels"},
    "cuda_ways": {"cuda_code", "prepare"},
    "emulated": {"cuda_ways"},
    "cubins": {"codegen", "runtime"},
    "ahead": {"cuda_ways", "cubins"},
    "gpu": {"emulated", "cubins"},
    "devices": {"emulated", "gpu"},
    "calls": {"verify", "devices"},
    "options": set(),
    "operators": {"lang", "calls", "options"},
    "modules": {"operators"},
    "contraction": {"lang", "prepare"},
    "verify": {"prepare"},
    "schedules": {"cuda_levels"},
    "fuzz": {"lang", "devices", "verify"},
    "commands": {"fuzz", "compiler", "modules", "verify", "devices", "schedules", "ahead"},
    "cli": {"commands"},
    "__main__": {"cli"},
    "__init__": {"modules", "contraction"},  # the public names, imported when first used
}


def allowed(part: str) -> set[str]:
    """The parts that `part` may import, itself among them."""
    found, waiting = {part}, [part]
    while waiting:
        new = BELOW[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the package by its name, without going through the links."""
    for folder in ("tensorc", *FOLDERS):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if parts[0] == "tensorc" and parts[1] in FOLDERS:
                continue
            yield ".".join((*FOLDERS.get(folder, folder).split("."), *parts[1:])), path


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of every module imported anywhere in a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            base = node.module or ""
            whole = base in ("tensorc", *FOLDERS)
            names = [f"{base}.{alias.name}" for alias in node.names] if whole else [base]
            yield from ((node.lineno, name) for name in names)


def part_of(module: str) -> str:
    """`tensorc.ir.node` is of the part `ir`; the package's own file is `__init__`."""
    return (module.split(".") + ["__init__"])[1]


@pytest.mark.parametrize(("name", "path"), list(modules()), ids=lambda item: str(item)[-40:])
def test_imports_go_one_way(name: str, path: Path) -> None:
    assert part_of(name) in BELOW, f"say in BELOW what {name} may import"
    may = allowed(part_of(name))
    for line, target in imports(path):
        top = target.split(".")[0]
        assert top not in FOLDERS, f"{path}:{line}: import it as tensorc.{target}"
        assert top != "tests", f"{path}:{line}: the package imports its tests"
        if top == "tensorc":
            assert part_of(target) in may, f"{path}:{line}: {part_of(name)} imports {target}"


def test_the_order_has_no_circle_above_the_base() -> None:
    for part in BELOW:
        for other in allowed(part) - {part}:
            assert part not in allowed(other) or {part, other} == {"ir", "errors"}


def packaging() -> dict[str, Any]:
    """The setuptools table of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def test_every_package_is_listed() -> None:
    found = {name.removesuffix(".__init__") for name, path in modules() if path.stem == "__init__"}
    assert found == set(packaging()["packages"])


def test_every_folder_with_modules_is_a_package() -> None:
    for _, path in modules():
        assert (path.parent / "__init__.py").exists(), path.parent


def test_data_files_are_listed() -> None:
    data: dict[str, list[str]] = packaging()["package-data"]
    for folder, package in {"tensorc": "tensorc", **FOLDERS}.items():
        for path in (ROOT / folder).iterdir():
            other = path.is_file() and path.suffix not in (".py", ".pyc") and path.name[0] != "."
            assert not other or any(path.match(pattern) for pattern in data[package]), path


def test_the_package_imports_without_the_links(tmp_path: Path) -> None:
    places: dict[str, str] = packaging()["package-dir"]
    for package in packaging()["packages"]:
        base = max((key for key in places if f"{package}.".startswith(f"{key}.")), key=len)
        source = ROOT / places[base] / package.removeprefix(base).strip(".").replace(".", "/")
        target = tmp_path.joinpath(*package.split("."))
        target.mkdir(parents=True, exist_ok=True)
        for path in source.iterdir():
            if path.is_file():
                shutil.copy(path, target)
    code = (
        "import importlib, sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        f"for name in {packaging()['packages']!r}:\n"
        f"    assert importlib.import_module(name).__file__.startswith({str(tmp_path)!r}), name\n"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True, cwd=tmp_path)
