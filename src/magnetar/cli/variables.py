"""Environment variables of the command line, and hints about misspelt ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from typer.core import TyperGroup
from typer.main import get_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from typer import Typer

_PREFIX: Final = "MAGNETAR_"


def misspelt_variables(app: Typer, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each variable that resembles one of an option of ``app``.

    Variables in lower case are settings, which a broker checks itself.
    """
    candidates = [name for name in environment if name.startswith(_PREFIX) and name[len(_PREFIX) :][:1].isupper()]
    known = set(_variables(get_command(app))) if candidates else set()
    for name in candidates:
        meant = None if name in known else _similar(name, known)
        if meant is not None:
            yield f"the environment variable {name} is not known; did you mean {meant}?"


def _similar(name: str, known: set[str]) -> str | None:
    from magnetar.broker.settings.similar import similar_name  # noqa: PLC0415 - needed for misspelt variables only

    prefixes = {each.removeprefix(_PREFIX): each for each in sorted(known)}
    meant = similar_name(name.removeprefix(_PREFIX), prefixes)
    return None if meant is None else prefixes[meant]


def _variables(command: Any) -> Iterator[str]:  # noqa: ANN401 - typer does not export its classes
    """Yield the variables of a command and of its subcommands."""
    for parameter in command.params:
        if parameter.envvar:
            yield parameter.envvar
    if isinstance(command, TyperGroup):
        for name in command.list_commands(cast("Any", None)):
            yield from _variables(command.get_command(cast("Any", None), name))
