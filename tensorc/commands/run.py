"""`tensorc run FILE.tc`: an operator on .npy files or random data, checked if asked."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from tensorc.commands.options import (
    choose,
    pairs,
    print_json,
    read_programs,
    sizes,
    with_cuts,
    with_file,
    with_json,
    with_numerics,
    with_sizes,
)
from tensorc.ir.accept import Verdict
from tensorc.ir.tensor import Declaration, Program
from tensorc.prepare import Prepared

if TYPE_CHECKING:
    from tensorc.ir.tile import TileProgram

Array = npt.NDArray[Any]
MANIFEST = "tensorc-run.json"


@click.command("run")
@with_file
@with_sizes
@click.option("--in", "inputs", multiple=True, metavar="NAME=FILE.npy", help="Input; repeatable.")
@click.option("--random", "use_random", is_flag=True, help="Draw inputs that are not given.")
@click.option("--seed", default=0, show_default=True, help="Seed of --random.")
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda", "emulator", "interpreter"]),
    default="cpu",
    show_default=True,
)
@click.option("--arch", default="sm_90a", show_default=True, help="What the emulator is.")
@with_numerics
@with_cuts
@click.option("--check", "checked", is_flag=True, help="Compare with the interpreter.")
@click.option(
    "--verify",
    type=click.Choice(["off", "cheap", "full"]),
    default="cheap",
    show_default=True,
    help="full: --check, and what cannot be decided fails too.",
)
@click.option("-o", "folder", help="Folder for the outputs, one .npy each.")
@click.option("--force", is_flag=True, help="Overwrite files that tensorc did not make.")
@with_json
def command(
    file: str, name: str | None, size: tuple[str, ...], inputs: tuple[str, ...],
    use_random: bool, seed: int, device: str, arch: str, policy: str,
    deterministic: bool, cuts: str | None, checked: bool, verify: str,
    folder: str | None, force: bool, as_json: bool,
) -> int:  # fmt: skip
    """Run an operator of FILE on .npy files (--in) or random data (--random)."""
    from tensorc.devices import run
    from tensorc.prepare import prepare

    program = choose(read_programs(file), name, file)
    given = sizes(size)
    arrays = {key: _load(path) for key, path in pairs(inputs, "--in").items()}
    if use_random:
        arrays = {**drawn(program, arrays, given, seed), **arrays}
    _check_threads()
    start = time.perf_counter()
    call = prepare(
        program, arrays, given, policy, deterministic=deterministic, verify=verify, cuts=cuts
    )
    outputs = run(call, device, arch)
    seconds = time.perf_counter() - start
    if folder is not None:
        _save(Path(folder), outputs, force)
    asked = checked or verify == "full"
    fused = call.compiled().levels.fused if asked and device == "cpu" else None
    verdicts = judge(call, outputs, fused) if asked else {}
    _print(program, outputs, seconds, verdicts, as_json)
    return _code(verdicts, verify == "full")


def _check_threads() -> None:
    """UsageError: the environment gives no number of threads."""
    from tensorc.runtime.threads import available

    try:
        available()
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def judge(
    call: Prepared, outputs: Mapping[str, Array], fused: TileProgram | None = None
) -> dict[str, Verdict]:
    """Compare every output with the interpreter. `fused`: as in `verify.judge`."""
    from tensorc.verify import judge as compare

    return compare(call, outputs, fused)


def _code(verdicts: Mapping[str, Verdict], full: bool) -> int:
    """3 where an output is wrong; what could not be decided is said, and a failure only if all
    was to be decided."""
    from tensorc.verify import Outcome, worst

    failures = (Outcome.FAIL, Outcome.UNDECIDED) if full else (Outcome.FAIL,)
    return 3 if worst(verdicts) in failures else 0


def _load(path: str) -> Array:
    """A .npy file; no pickled objects."""
    try:
        return np.load(path, allow_pickle=False)
    except ValueError:
        raise click.UsageError(f"{path} is not a whole .npy file of numbers") from None


def drawn(
    program: Program, arrays: Mapping[str, Array], given: Mapping[str, int], seed: int
) -> dict[str, Array]:
    """Random arrays for the parameters that `arrays` lacks: standard normal floats, small integers
    (0 and up, within a dimension where one is indexed by data), bools."""
    from tensorc.ir.polynomial import Symbol, evaluate
    from tensorc.ir.sizes import bind

    shapes = {name: array.shape for name, array in arrays.items()}
    extents = bind(program, shapes, given)
    known = {Symbol(name, "extent"): size for name, size in extents.items()}
    known.update({Symbol(name, "parameter"): value for name, value in given.items()})
    generator = np.random.default_rng(seed)
    return {
        item.tensor.name: _draw(
            item, tuple(evaluate(size, known) for size in item.tensor.shape), generator,
            given, min(extents.values(), default=2),
        )
        for item in program.parameters
        if item.tensor.name not in arrays
    }  # fmt: skip


def _draw(
    item: Declaration, shape: tuple[int, ...], generator: np.random.Generator,
    given: Mapping[str, int], small: int,
) -> Array:  # fmt: skip
    from tensorc.ir.rounding import round_to

    dtype = item.tensor.dtype
    if item.const and item.tensor.name in given:
        return np.asarray(round_to(np.asarray(given[item.tensor.name]), dtype))
    high = 2 if dtype.name == "bool" else max(1, min(small, 8))
    try:
        if dtype.floating:
            return round_to(generator.standard_normal(shape), dtype)
        return round_to(generator.integers(0, high, shape), dtype)
    except MemoryError:
        sizes = " x ".join(map(str, shape))
        raise click.ClickException(
            f"{item.tensor.name} of {sizes} elements is larger than memory; pass smaller sizes"
        ) from None


def _save(folder: Path, outputs: Mapping[str, Array], force: bool) -> None:
    """Every output or none: written beside their targets, then renamed."""
    folder.mkdir(parents=True, exist_ok=True)
    ours = _made_before(folder)
    for name in outputs:
        target = folder / f"{name}.npy"
        if target.exists() and target.name not in ours and not force:
            raise click.UsageError(f"{target} was not made by tensorc run; --force overwrites it")
    parts = [(folder / f".{name}.npy.part", folder / f"{name}.npy") for name in outputs]
    for (part, _), array in zip(parts, outputs.values(), strict=True):
        with part.open("wb") as file:
            np.save(file, _plain(array), allow_pickle=False)
    for part, target in parts:
        part.replace(target)
    made = sorted(ours | {target.name for _, target in parts})
    (folder / MANIFEST).write_text(json.dumps({"schema": "tensorc-outputs-1", "files": made}))


def _plain(array: Array) -> Array:
    """bf16 and f8 as raw data of their width, as ml_dtypes saves them."""
    return array if array.dtype.kind in "biufc" else array.view(f"V{array.itemsize}")


def _made_before(folder: Path) -> set[str]:
    try:
        files = json.loads((folder / MANIFEST).read_text())["files"]
        return {str(name) for name in files}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def _print(
    program: Program, outputs: Mapping[str, Array], seconds: float,
    verdicts: Mapping[str, Verdict], as_json: bool,
) -> None:  # fmt: skip
    if as_json:
        shapes = {name: list(array.shape) for name, array in outputs.items()}
        check = {name: str(verdict) for name, verdict in verdicts.items()}
        fields = {"operator": program.name, "outputs": shapes, "seconds": seconds}
        print_json("run", {**fields, "check": check})
        return
    for name, array in outputs.items():
        click.echo(f"{name}: {array.dtype}{list(array.shape)}")
    click.echo(f"{seconds * 1e3:.1f} ms, compilation included")
    for name, verdict in verdicts.items():
        click.echo(f"check {name}: {verdict}")
