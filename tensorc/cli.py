"""The command line: `tensorc COMMAND`.

This module imports nothing heavy, so that `tensorc --help` answers at once; each command is a
module of `tensorc.commands`, imported when it runs. A user never sees a traceback: every error
ends in one of the exit codes below.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import click

OK, USER, USAGE, CHECK_FAILED, UNAVAILABLE, BUG = 0, 1, 2, 3, 4, 5
COMMANDS: dict[str, str] = {
    "compile": "Compile an operator and write it at any level.",
    "run": "Run an operator on .npy files or random data.",
    "check": "Check types, ranges and size conditions of a file.",
    "explain": "Explain an error code, or why a program's kernels are as they are.",
    "cache": "Look at the kernels kept on disk, check or remove them.",
    "doctor": "Say what works on this machine and what installs the rest.",
    "fuzz": "Search for bugs in the compiler with generated programs.",
}


class _Commands(click.Group):
    """Commands by name; a module is imported when its command is."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        import importlib

        module = importlib.import_module(f"tensorc.commands.{cmd_name}")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list is printed from the table, without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tensorc")
def tensorc() -> None:
    """Mathematics of tensor operators in, checked and scheduled kernels out."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(guarded(lambda: tensorc.main(arguments, standalone_mode=False)))


def guarded(action: Callable[[], object]) -> int:
    """Run `action`; errors become messages on stderr and an exit code."""
    try:
        result = action()
        return result if isinstance(result, int) else OK
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        return 130
    except click.ClickException as error:
        error.show()
        return USAGE
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader went away; nothing more can be said on stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        return _reported(error)


def _reported(error: Exception) -> int:
    from tensorc.errors import (
        ArgumentError,
        BrokenInvariant,
        Infeasible,
        NotationError,
        Unavailable,
    )
    from tensorc.ir.source import visible

    if isinstance(error, NotationError | ArgumentError | Infeasible):
        click.echo(str(error), err=True)
        return USER
    if isinstance(error, Unavailable):
        click.echo(f"tensorc: {error}", err=True)
        return UNAVAILABLE
    if isinstance(error, OSError):
        name = visible(str(error.filename or ""))
        where = f"{name}: " if name else ""
        click.echo(f"tensorc: {where}{error.strerror or error}", err=True)
        return USER
    if isinstance(error, BrokenInvariant):
        click.echo(f"tensorc: internal error: {error}", err=True)
        return BUG
    return _bug(error)


def _bug(error: Exception) -> int:
    """An exception nobody foresaw: its traceback goes to a file, one line to the user."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="tensorc-", suffix=".txt", delete=False) as file:
        traceback.print_exception(error, file=file)
    kind = type(error).__name__
    click.echo(
        f"tensorc: internal error ({kind}: {error}); this is a bug in tensorc, "
        f"please report {file.name}",
        err=True,
    )
    return BUG


if __name__ == "__main__":
    main()
