"""The command line without running a command: whether arguments are valid."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import typer

from magnetar.broker.settings.config import BrokerConfig
from magnetar.cli.main import app

if TYPE_CHECKING:
    from collections.abc import Sequence


class InvalidCommandError(Exception):
    """The command line would refuse the arguments."""


@cache
def _root() -> Any:  # noqa: ANN401 - typer does not export its classes
    return typer.main.get_command(app)


def require_valid(arguments: Sequence[str]) -> None:
    """Raise InvalidCommandError unless ``magnetar ARGUMENTS`` names a command with valid arguments and settings."""
    command = _root()
    try:
        context = command.make_context("magnetar", list(arguments))
        while hasattr(command, "list_commands"):
            name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
            context = command.make_context(name, rest, parent=context)
    except typer.Exit:  # --help, --version
        return
    except typer.TyperException as error:
        message = f"magnetar {' '.join(arguments)}: {error.format_message()}"
        raise InvalidCommandError(message) from error
    flags = {argument.removeprefix("--").partition("=")[0] for argument in context.args if argument.startswith("--")}
    if unknown := flags - BrokerConfig.model_fields.keys():
        message = f"magnetar {' '.join(arguments)}: unknown settings {', '.join(sorted(unknown))}"
        raise InvalidCommandError(message)
