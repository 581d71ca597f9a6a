"""The command line: `tensorc COMMAND`.

This module imports nothing heavy, so that `tensorc --help` answers at once; each command is a
module of `tensorc.commands`, imported when it runs. A user never sees a traceback: every error
ends in one of the exit codes below.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tensorc.ir.source import Diagnostic

OK, USER, USAGE, CHECK_FAILED, UNAVAILABLE, BUG = 0, 1, 2, 3, 4, 5
INTERRUPTED, UNREAD = 130, 141  # 128 + the signal; the reader of stdout went away
COMMANDS: dict[str, str] = {
    "compile": "Compile an operator and write it at any level.",
    "run": "Run an operator on .npy files or random data.",
    "check": "Check types, ranges and size conditions of a file.",
    "explain": "Explain an error code, or why a program's kernels are as they are.",
    "report": "Write a page about an operator: levels, schedule, timeline, source.",
    "cache": "Look at the kernels kept on disk, check or remove them.",
    "doctor": "Say what works on this machine and what installs the rest.",
    "fuzz": "Search for bugs in the compiler with generated programs.",
}


class _Commands(click.Group):
    """Commands by name; a module is imported when its command is."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:  # fmt: skip
        """Read the arguments; --help writes meanwhile."""
        with _reader():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command, and write what it has buffered."""
        with _reader():
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result

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


@contextmanager
def _reader() -> Generator[None]:
    """End with UNREAD, and no word on stderr, where nobody reads stdout any more."""
    try:
        yield
    except BrokenPipeError:
        # What is still buffered goes nowhere when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(UNREAD) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tensorc")
def tensorc() -> None:
    """Mathematics of tensor operators in, checked and scheduled kernels out."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    given = sys.argv[1:] if arguments is None else arguments
    sys.exit(guarded(lambda: tensorc.main(given, standalone_mode=False), "--json" in given))


def guarded(action: Callable[[], object], as_json: bool = False) -> int:
    """Run `action`; errors become messages on stderr and an exit code. `as_json`: those of the
    user's program and arrays are JSON on stdout too."""
    try:
        result = action()
        return result if isinstance(result, int) else OK
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        return _reported(error, as_json)


def _reported(error: Exception, as_json: bool) -> int:
    from tensorc.errors import (
        ArgumentError,
        BrokenInvariant,
        Infeasible,
        NotationError,
        Unavailable,
    )
    from tensorc.ir.source import visible

    if isinstance(error, NotationError | ArgumentError | Infeasible):
        if as_json:
            _print_faults(error)
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


def _print_faults(error: Exception) -> None:
    """What is wrong as one JSON object on stdout; lines and columns count from 1."""
    from tensorc.commands.options import print_json
    from tensorc.errors import ArgumentError, NotationError

    told = error.diagnostics if isinstance(error, NotationError | ArgumentError) else ()
    fields = {"kind": type(error).__name__, "message": str(error)}
    print_json("error", {**fields, "faults": [_fault(item) for item in told]})


def _fault(item: Diagnostic) -> dict[str, object]:
    span = item.span.resolve() if item.span is not None else None
    place = {} if span is None else {
        "file": span.source.name, "line": span.line, "column": span.column,
        "end_line": span.end_line, "end_column": span.end_column,
    }  # fmt: skip
    facts = {"found": item.found, "allowed": item.allowed, "do": item.do}
    return {"code": item.code, "message": item.message, **place, **facts}


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
