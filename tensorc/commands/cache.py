"""`tensorc cache path|list|verify|prune`: the kernels kept on disk."""

from __future__ import annotations

import time
from pathlib import Path

import click

from tensorc.commands.options import print_json, with_json


@click.group("cache")
def command() -> None:
    """Look at the kernels kept on disk, check or remove them.

    They lie in TENSORC_CACHE_DIR, or in the user's cache directory; TENSORC_CACHE_DIR=off keeps
    none.
    """


def _folder() -> Path:
    from tensorc.runtime.cache import directory

    folder = directory()
    if folder is None:
        raise click.UsageError("the cache is off; set TENSORC_CACHE_DIR to a directory")
    return folder


@command.command("path")
@with_json
def path(as_json: bool) -> int:
    """Print the directory."""
    if as_json:
        print_json("cache-path", {"directory": str(_folder())})
    else:
        click.echo(str(_folder()))
    return 0


@command.command("list")
@with_json
def list_(as_json: bool) -> int:
    """Print the kernels: name, bytes, when last used, operator, fixed extents."""
    from tensorc.runtime.cache import examine
    from tensorc.runtime.cache_upkeep import files

    rows: list[dict[str, object]] = []
    for item in files(_folder()):
        key, fault = examine(item.path)
        rows.append({
            "name": item.path.name, "bytes": item.size, "used": int(item.used),
            "operator": key.get("operator", ""), "static": key.get("static", {}), "fault": fault,
        })  # fmt: skip
    if as_json:
        print_json("cache-list", {"directory": str(_folder()), "kernels": rows})
        return 0
    for row in rows:
        click.echo(_line(row))
    total = sum(int(str(row["bytes"])) for row in rows)
    click.echo(f"kernels: {len(rows)}; bytes: {total:,}")
    return 0


def _line(row: dict[str, object]) -> str:
    from tensorc.ir.source import visible

    used = time.strftime("%Y-%m-%d %H:%M", time.localtime(int(str(row["used"]))))
    what = row["fault"] or f"{row['operator']} {row['static']}"
    return f"{str(row['name'])[:12]}  {row['bytes']:>8}  {used}  {visible(str(what))}"


@command.command("verify")
@with_json
def verify(as_json: bool) -> int:
    """Check every kernel's checksum and name; damaged ones go to the directory bad. Exit code 3 if
    there were any."""
    from tensorc.runtime.cache import examine, set_aside
    from tensorc.runtime.cache_upkeep import files

    found = {item.path: examine(item.path)[1] for item in files(_folder())}
    faults = {path: fault for path, fault in found.items() if fault}
    for bad in faults:
        set_aside(bad)
    if as_json:
        named = {bad.name: fault for bad, fault in faults.items()}
        print_json("cache-verify", {"checked": len(found), "damaged": named})
        return 3 if faults else 0
    for bad, fault in faults.items():
        click.echo(f"{bad.name}: {fault}; moved to {bad.parent / 'bad'}")
    click.echo(f"checked: {len(found)}; damaged: {len(faults)}")
    return 3 if faults else 0


@command.command("prune")
@click.option("--max-bytes", type=click.IntRange(0), help="How much to keep; 0 empties the cache.")
@with_json
def prune(max_bytes: int | None, as_json: bool) -> int:
    """Remove the kernels not used for longest, and what killed processes left behind."""
    from tensorc.runtime.cache_upkeep import LIMIT, sweep
    from tensorc.runtime.cache_upkeep import prune as remove

    folder = _folder()
    left = sweep(folder)
    removed = remove(folder, LIMIT if max_bytes is None else max_bytes)
    if max_bytes == 0:
        for schedule in (folder / "schedules").glob("*.schedule"):
            schedule.unlink(missing_ok=True)
    if as_json:
        print_json("cache-prune", {"kernels": removed, "temporaries": left})
        return 0
    click.echo(f"removed: {removed} kernels, {left} temporaries")
    return 0
