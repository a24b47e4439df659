"""The options that select the cluster and the output format, accepted before and after the verb."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from magnetar.cli.output import Output

ADMIN_URL_VARIABLE = "MAGNETAR_ADMIN_URL"
CLUSTER_VARIABLE = "MAGNETAR_CLUSTER"

_ADMIN_URL_HELP = "Admin URL of the cluster; default: that of the current profile, else http://localhost:8080."
_CLUSTER_HELP = "Name of the cluster in your profiles, instead of --admin-url."
_OUTPUT_HELP = "Output format."


def profile_names(incomplete: str) -> list[str]:
    """Return the profiles for the completion of a shell."""
    from magnetar.cli.profile_store import load_profiles  # noqa: PLC0415 - needed for completion only

    return [name for name in load_profiles().by_name if name.startswith(incomplete)]


AdminUrl = Annotated[str | None, typer.Option("--admin-url", envvar=ADMIN_URL_VARIABLE, help=_ADMIN_URL_HELP)]
ProfileName = Annotated[
    str | None,
    typer.Option(
        "--cluster", envvar=CLUSTER_VARIABLE, metavar="PROFILE", help=_CLUSTER_HELP, autocompletion=profile_names
    ),
]
OutputForm = Annotated[Output, typer.Option("--output", "-o", help=_OUTPUT_HELP)]

# Before the verb they have neither a default nor a variable: the command itself reads these.
EarlyAdminUrl = Annotated[str | None, typer.Option("--admin-url", help=_ADMIN_URL_HELP)]
EarlyProfile = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="PROFILE",
        help=_CLUSTER_HELP,
        autocompletion=profile_names,
    ),
]
EarlyOutput = Annotated[Output | None, typer.Option("--output", "-o", help=_OUTPUT_HELP)]

_PASSED = {"admin_url": "--admin-url", "profile": "--cluster", "output": "--output"}


class Passing(TyperGroup):
    """A group of commands that passes the options given before a command on to it.

    A command without such an option refuses it. If an option is given twice, the last one applies.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - typer does not export its classes
        """Return the name of the command, the command, and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, TyperGroup) and not rest:
            return name, command, rest  # the help of a group without a verb
        given = {option: ctx.params.get(each) for each, option in _PASSED.items()}
        early = [f"{option}={value}" for option, value in given.items() if value is not None]
        return name, command, [*early, *rest]


def noun(text: str) -> typer.Typer:
    """Return a group of verbs for clusters, with its help ``text``."""
    app = typer.Typer(cls=Passing, help=text, no_args_is_help=True)
    app.callback(help=text)(_accept)
    return app


def _accept(*, admin_url: EarlyAdminUrl = None, profile: EarlyProfile = None, output: EarlyOutput = None) -> None:
    """Accept the options before the verb; `Passing` passes them on."""
