"""The CUDA kernels of a program for one request: made once, kept in the process and on disk.

What is kept is all that a call needs: the CUDA C++, how each kernel is launched, and the memory
that they need beside the operands. Cubins are kept apart, see `cubins`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorc.codegen.cuda import CudaKernel, CudaModule
from tensorc.cuda_levels import levels
from tensorc.ir.launch import Launch, Map
from tensorc.ir.strict_json import Json
from tensorc.ir.tensor import Program, Tensor
from tensorc.ir.walk_tile import has_fragments
from tensorc.request import Request
from tensorc.runtime.launch_json import from_json, read_tensors, tensors_to_json, to_json

# Fields of a request that a key spells in its own way, and the one that no text depends on.
_APART = ("target", "static", "strides", "multiples", "hints", "verify")


@dataclass(frozen=True)
class CudaCode:
    """Kernels as CUDA C++, in order, and their memory; `outputs`: as kernels know them, of a
    complex one the two parts. `cores`: whether tensor cores have a part in them."""

    module: CudaModule
    outputs: tuple[Tensor, ...]
    launch: Launch
    cores: bool


def code_of(program: Program, request: Request) -> CudaCode:
    """The kernels of a request: those made before, or fresh ones."""
    from tensorc.observe import observed

    made: dict[object, CudaCode] = vars(program).setdefault("_cuda", {})
    known = _frozen(request)
    if observed():
        return _lowered(program, request)
    if known not in made:
        made[known] = _kept(program, request) or _stored(program, request)
    return made[known]


def _frozen(request: Request) -> object:
    """A request as a key of a dictionary."""
    maps = (request.static, request.strides, request.multiples, request.hints)
    return (
        *(tuple(sorted(item.items())) for item in maps),
        *(value for name, value in vars(request).items() if name not in _APART[1:]),
    )


def _lowered(program: Program, request: Request) -> CudaCode:
    found = levels(program, request)
    tiles, module = found.tiles, found.module
    entries = tuple(kernel.entry for kernel in module.kernels)
    return CudaCode(
        module,
        tuple(item.tensor for item in tiles.outputs),
        Launch(entries, tiles.workspaces, tiles.extents),
        any(has_fragments(kernel) for kernel in tiles.kernels),
    )


def _key(program: Program, request: Request) -> dict[str, Json]:
    from dataclasses import asdict

    from tensorc.runtime.keys import kernel_key

    options: dict[str, Json] = {
        **asdict(request.target),
        "multiples": dict(request.multiples),
        "hints": dict(request.hints),
        **{name: value for name, value in vars(request).items() if name not in _APART},
    }
    return kernel_key(program, request.static, request.strides, options, {"text": "cuda"})


def _kept(program: Program, request: Request) -> CudaCode | None:
    """What the cache keeps, or None."""
    from tensorc.runtime import cache

    found = cache.load(_key(program, request))
    return None if found is None else _from_json(found.about, found.code.decode())


def _stored(program: Program, request: Request) -> CudaCode:
    """Fresh kernels, then kept on disk."""
    from tensorc.progress import progress
    from tensorc.runtime import cache

    with progress(f"compiling {program.name}"):
        made = _lowered(program, request)
    try:
        about = _to_json(made)
    except ValueError:  # a size depends on data: nothing says so in JSON
        return made
    cache.store(_key(program, request), cache.Stored(about, made.module.text.encode()))
    return made


def _to_json(code: CudaCode) -> dict[str, Json]:
    return {
        **to_json(code.launch),
        "outputs": tensors_to_json(code.outputs),
        "cores": code.cores,
        "kernels": [
            [kernel.threads, kernel.shared, kernel.most, _maps(kernel.maps)]
            for kernel in code.module.kernels
        ],
    }


def _maps(maps: Sequence[Map]) -> Json:
    return [[item.tensor, item.element, list(item.box), item.swizzle] for item in maps]


def _from_json(found: Mapping[str, Any], text: str) -> CudaCode:
    """The inverse of `_to_json`."""
    launch = from_json(found)
    kernels = [
        CudaKernel(entry, threads, shared, tuple(_map(item) for item in maps), most)
        for entry, (threads, shared, most, maps) in zip(
            launch.entries, found["kernels"], strict=True
        )
    ]
    module = CudaModule(text, tuple(kernels))
    return CudaCode(module, read_tensors(found["outputs"]), launch, bool(found["cores"]))


def _map(found: Any) -> Map:
    tensor, element, box, swizzle = found
    return Map(tensor, element, tuple(box), swizzle)
