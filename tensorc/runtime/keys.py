"""What a compiled kernel depends on, as a JSON object: the key of the cache.

Everything that the code depends on and nothing else: not the order of compiles, not the hash seed,
not the time.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path

from tensorc.ir.fingerprint import fingerprint
from tensorc.ir.launch import Strides
from tensorc.ir.strict_json import Json
from tensorc.ir.tensor import Program

SCHEMA = 1  # of keys and of what is stored under them
# What turns a program into code: of the package itself, only the modules beside its folders.
PARTS = ("", "ir", "machine", "runtime", "passes", "codegen")
_SUFFIXES = (".py", ".toml", ".cuh", ".h", ".cpp")


def kernel_key(
    program: Program, static: Mapping[str, int], strides: Mapping[str, Strides],
    options: Mapping[str, Json], cpu: Mapping[str, Json],
) -> dict[str, Json]:  # fmt: skip
    """The key of a kernel. `static`: extents fixed in it; `strides`: of parameters that are not
    row-major; `options`: what else the passes were told; `cpu`: what code is generated for,
    and by which LLVM."""
    return {
        "schema": SCHEMA,
        "operator": program.name,
        "program": fingerprint(program),
        "static": dict(static),
        "strides": {name: list(one) for name, one in strides.items()},
        "options": dict(options),
        "cpu": dict(cpu),
        "sources": sources(),
    }


@functools.cache
def sources() -> str:
    """A digest of our own sources: in a checkout the version alone does not tell them apart."""
    digest = hashlib.sha256()
    for part in PARTS:
        for name, path in files(part):
            data = path.read_bytes()
            digest.update(f"{part}/{name} {len(data)}\n".encode() + data)
    return digest.hexdigest()


def files(part: str) -> Iterator[tuple[str, Path]]:
    """The sources and machine tables of one of PARTS and their names, in one order everywhere."""
    found = importlib.util.find_spec(f"tensorc.{part}" if part else "tensorc")
    for folder in (found.submodule_search_locations or []) if found else []:
        root = Path(folder)
        every = root.rglob("*") if part else root.glob("*")
        paths = (path for path in every if path.suffix in _SUFFIXES)
        yield from sorted((path.relative_to(root).as_posix(), path) for path in paths)
