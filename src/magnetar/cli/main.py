"""``magnetar``: the root of the command line, its exit codes and its error messages."""

from __future__ import annotations

import os
import sys
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated

import typer

import magnetar
from magnetar.base.errors import AdminError, ClusterUnreachableError, MagnetarError
from magnetar.cli.commands import Commands
from magnetar.cli.output import say
from magnetar.cli.variables import misspelt_variables

if TYPE_CHECKING:
    from collections.abc import Sequence


class ExitCode(IntEnum):
    """Exit codes of all commands."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"magnetar {magnetar.__version__}")  # noqa: T201 - the output
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    name="magnetar",
    help="Geo-replicated publish/subscribe that keeps a consumer's place between clusters.",
    epilog="Exit codes: 0 success, 1 failed or refused, 2 wrong usage, 3 no cluster answered.",
    no_args_is_help=True,
)


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Geo-replicated publish/subscribe that keeps a consumer's place between clusters."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; ``arguments`` defaults to those of the process.

    Errors are printed as ``error: …``. An error text can contain a hint, on a second line: ``hint: …``.
    """
    for warning in misspelt_variables(app, os.environ):
        say(warning)
    try:
        code = app(args=arguments, prog_name="magnetar", standalone_mode=False)
    except typer.TyperException as error:
        # A noun without a verb has printed its help; the text is empty.
        text = error.format_message()
        return (
            _fail(f"{text}\nhint: --help lists the arguments and options", ExitCode.USAGE) if text else ExitCode.USAGE
        )
    except ClusterUnreachableError as error:
        return _fail(
            f"{error}\nhint: set the cluster's admin URL with --admin-url or MAGNETAR_ADMIN_URL",
            ExitCode.UNREACHABLE,
        )
    except AdminError as error:
        hint = f"the cluster answered {error.status.value} {error.status.phrase}"
        return _fail(f"{error}\nhint: {hint}", ExitCode.FAILED)
    except MagnetarError as error:
        return _fail(str(error), ExitCode.FAILED)
    return code if isinstance(code, int) else ExitCode.DONE


def _fail(text: str, code: ExitCode) -> ExitCode:
    say(f"error: {text}")
    return code


if __name__ == "__main__":
    sys.exit(main())
