"""`tensorc explain CODE`: what an error means and how to mend it."""

from __future__ import annotations

import click


@click.command("explain")
@click.argument("what")
def command(what: str) -> int:
    """Explain an error code, such as TC-E215."""
    from tensorc.ir.diagnostics import explain

    try:
        click.echo(explain(what.upper().removeprefix("TC-")))
    except KeyError:
        raise click.UsageError(f"{what} is no error code of tensorc") from None
    return 0
