"""The page of the ``magnetar`` commands."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import typer

from magnetar.cli.main import app
from reference.markdown import code, table, value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_Row = tuple[str, str, str]
_HEADS = ("argument or option", "default", "meaning")

_PLACES = (
    "They are accepted before the noun, before the verb and after it. If one is given twice, the last one applies."
)


def page() -> str:
    """Return a section for each command, after the common options."""
    root = typer.main.get_command(app)
    commands = list(_commands("magnetar", root))
    counted = Counter(row for _, command in commands for row in _rows(command))
    common = [row for row, count in counted.items() if 5 * count > 2 * len(commands)]
    sections = [
        f"## Common options\n\n{_PLACES}\n\n{table(_HEADS, common)}",
        *(_section(name, command, common) for name, command in commands),
    ]
    return f"{app.info.epilog}\n\n" + "\n".join(sections)


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - typer does not export its classes
    if not hasattr(command, "list_commands"):
        yield name, command
        return
    for child in command.list_commands(None):
        yield from _commands(f"{name} {child}", command.get_command(None, child))


def _section(name: str, command: Any, common: Sequence[_Row]) -> str:  # noqa: ANN401 - typer does not export its classes
    rows = _rows(command)
    own = [row for row in rows if row not in common]
    parts = [f"## {name}", f"```\n{_usage(name, command)}\n```", (command.help or "").strip()]
    if own:
        parts.append(table(_HEADS, own).rstrip())
    if len(own) < len(rows):
        parts.append(f"Common options: {', '.join(row[0] for row in rows if row in common)}.")
    return "\n\n".join(parts) + "\n"


def _usage(name: str, command: Any) -> str:  # noqa: ANN401 - typer does not export its classes
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    words = [name, *(each.name.upper() if each.required else f"[{each.name.upper()}]" for each in arguments)]
    return f"{' '.join(words)} [OPTIONS]"


def _rows(command: Any) -> list[_Row]:  # noqa: ANN401 - typer does not export its classes
    return [
        (code(_names(each)), "required" if each.required else code(_default(each)), each.help or "")
        for each in command.params
        if not each.hidden and (each.param_type_name != "argument" or each.help)
    ]


def _names(parameter: Any) -> str:  # noqa: ANN401 - typer does not export its classes
    if parameter.param_type_name == "argument":
        return str(parameter.name.upper())
    return ", ".join([*parameter.opts, *parameter.secondary_opts])


def _default(parameter: Any) -> str:  # noqa: ANN401 - typer does not export its classes
    default = parameter.default
    return "" if default is None or default is False or callable(default) else value(default)
