"""``magnetar``: the root of the command line, its exit codes and its error messages."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

import magnetar
from magnetar.base.errors import ClusterUnreachableError, MagnetarError
from magnetar.cli.commands import Commands
from magnetar.cli.failures import ExitCode, FailedError, Failure, requested_output
from magnetar.cli.global_options import EarlyAdminUrl, EarlyOutput, EarlyProfile
from magnetar.cli.output import Output, say, say_json
from magnetar.cli.standard_output import OutputError, checked_output, open_closed_streams
from magnetar.cli.variables import misspelt_variables

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ExitCode", "app", "main"]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"magnetar {magnetar.__version__}")  # noqa: T201 - the output
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    name="magnetar",
    help="Geo-replicated publish/subscribe that keeps a consumer's place between clusters.",
    epilog="Exit codes: 0 success, 1 failed, refused or different, 2 wrong usage, 3 no cluster answered, 4 undecided.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # they may contain tokens and passwords
)


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
    admin_url: EarlyAdminUrl = None,
    profile: EarlyProfile = None,
    output: EarlyOutput = None,
) -> None:
    """Geo-replicated publish/subscribe that keeps a consumer's place between clusters."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; ``arguments`` defaults to those of the process.

    Errors are printed as ``error: …`` and ``hint: …``, or as one JSON object if the output format is JSON. If the
    reader of stdout has gone, as in a pipe to ``head``, nothing is printed, and the command has failed.
    """
    open_closed_streams()
    output = requested_output(sys.argv[1:] if arguments is None else arguments)
    for warning in misspelt_variables(app, os.environ):
        if output is Output.JSON:
            say_json(warning=warning)
        else:
            say(f"warning: {warning}")
    try:
        with checked_output():
            code = app(args=arguments, prog_name="magnetar", standalone_mode=False)
    except OutputError as error:
        return ExitCode.FAILED if error.reader_is_gone else Failure(ExitCode.FAILED, str(error)).show(output)
    except typer.TyperException as error:
        # A noun without a verb has printed its help; the text is empty.
        text = error.format_message()
        hint = "--help lists the arguments and options"
        return Failure.of_text(text, ExitCode.USAGE, hint).show(output) if text else ExitCode.USAGE
    except FailedError as error:
        return error.failure.show(output)
    except MagnetarError as error:
        code = ExitCode.UNREACHABLE if isinstance(error, ClusterUnreachableError) else ExitCode.FAILED
        return Failure.of_text(str(error), code).show(output)
    except typer.Abort:
        return Failure(ExitCode.FAILED, "interrupted").show(output)
    return code if isinstance(code, int) else ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
