"""Output of all commands: data to stdout as text or JSON, messages to stderr."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PIPE_WIDTH = 1000
"""Columns when stdout is not a terminal, so that tables are not folded."""


UNKNOWN = "unknown"
"""Printed instead of a number that is not known."""


class Output(StrEnum):
    """Format of the data on stdout."""

    TEXT = "text"
    JSON = "json"


def say(text: str) -> None:
    """Print a message to stderr."""
    Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(text)


def show_json(value: object) -> None:
    """Print a value as JSON."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def show_lines(values: Iterable[object]) -> None:
    """Print one value per line."""
    for value in values:
        sys.stdout.write(f"{value}\n")


def show_table(rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows with equal keys as a table; without rows, print nothing."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        if not table.columns:
            for name in row:
                table.add_column(name, overflow="fold")
        table.add_row(*map(_cell, row.values()))
    if table.columns:
        _stdout().print(table)


def show_fields(value: Mapping[str, Any]) -> None:
    """Print an object, one field per line; nested values are JSON."""
    width = max(map(len, value), default=0)
    show_lines(f"{name:<{width}}  {_cell(each)}" for name, each in value.items())


def show_change(output: Output, subject: str, field: str, before: object, after: object) -> None:
    """Report a change of an object's ``field`` with the values before and after it; None: it is not set."""
    if output is Output.JSON:
        show_json({"subject": subject, "field": field, "before": before, "after": after})
    elif before == after:
        say(f"{field} of {subject}: {_words(after)} (unchanged)")
    else:
        say(f"{field} of {subject}: {_words(after)} (was {_words(before)})")


def _words(value: object) -> str:
    """Return a value in one line."""
    match value:
        case None:
            return "not set"
        case dict():
            return ", ".join(f"{name}={_cell(each)}" for name, each in value.items() if each is not None) or "empty"
        case list():
            return ",".join(map(str, value)) or "none"
        case _:
            return _cell(value)


def _cell(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.1f}"
        case dict() | list():
            return json.dumps(value)
        case None:
            return "-"
        case _:
            return str(value)


def _stdout() -> Console:
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
