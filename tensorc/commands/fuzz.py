"""`tensorc fuzz run` and `tensorc fuzz rerun`: search for bugs of the compiler, run one again."""

from __future__ import annotations

from pathlib import Path

import click

from tensorc.commands.options import print_json, with_json


@click.group("fuzz")
def command() -> None:
    """Search for bugs in the compiler with generated programs."""


@command.command("run")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="How long to search.",
)
@click.option("--seed", default=0, show_default=True, help="The first case's seed.")
@click.option("--most", type=click.IntRange(min=1), help="Stop after this many cases.")
@click.option("--device", type=click.Choice(["cpu", "emulator"]), default="cpu", show_default=True)
@click.option("-o", "folder", default="fuzz-out", show_default=True, help="Where bugs go.")
@with_json
def run(
    seconds: float, seed: int, most: int | None, device: str, folder: str, as_json: bool
) -> int:
    """Generate programs, compare a device with the meaning, reduce and write down what differs."""
    import sys

    from tensorc.fuzz.campaign import Tally, campaign

    def progress(tally: Tally) -> None:
        total = sum(tally.outcomes.values())
        if sys.stderr.isatty() and total % 10 == 0:
            click.echo(f"\r{total} cases, {len(tally.folders)} bugs", nl=False, err=True)

    tally = campaign(seconds, seed, Path(folder), most, progress, device)
    folders = [str(path) for path in tally.folders]
    if as_json:
        counts = dict(sorted(tally.outcomes.items()))
        skipped = dict(sorted(tally.skipped.items()))
        print_json("fuzz", {"outcomes": counts, "skipped": skipped, "bugs": folders})
    else:
        counted = ", ".join(f"{count} {name}" for name, count in sorted(tally.outcomes.items()))
        click.echo(counted or "no cases")
        for reason, count in sorted(tally.skipped.items()):
            click.echo(f"  skipped {count}: {reason}")
        for path in folders:
            click.echo(f"bug: {path}")
    return 3 if folders else 0


@command.command("rerun")
@click.argument("folder", type=click.Path(exists=True))
@with_json
def rerun(folder: str, as_json: bool) -> int:
    """Run a recorded case again; exit code 3 if it still fails."""
    from tensorc.fuzz.case import load
    from tensorc.fuzz.isolate import Isolated

    try:
        case = load(Path(folder))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise click.UsageError(f"{folder} holds no case that can be read ({error})") from None
    with Isolated() as isolated:
        finding = isolated.examine(case)
    if as_json:
        fields = {"outcome": finding.outcome, "signature": finding.signature}
        print_json("rerun", {**fields, "detail": finding.detail})
    else:
        click.echo(f"{finding.outcome} {finding.signature}\n{finding.detail}".rstrip())
    return 3 if finding.outcome == "fail" else 0
