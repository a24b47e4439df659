"""Output of all commands: data to stdout as text or JSON, messages to stderr."""

from __future__ import annotations

import json
import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import RenderableType

_PIPE_WIDTH = 1000
"""Columns when stdout is not a terminal and COLUMNS is not set, so that tables are not folded."""

_BETWEEN_COLUMNS = 3
"""Spaces for each column of a table."""

_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}
"""Control characters, which a terminal would obey, and how they are shown."""

UNKNOWN = "unknown"
"""Printed instead of a number that is not known."""


class Output(StrEnum):
    """Format of the data on stdout."""

    TEXT = "text"
    JSON = "json"


def say(text: str) -> None:
    """Print a message to stderr."""
    Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(text)


def say_json(**fields: object) -> None:
    """Print a message to stderr as one line of JSON."""
    sys.stderr.write(json.dumps(fields) + "\n")


def note(output: Output, text: str, hint: str | None = None) -> None:
    """Print a message beside the data to stderr, and a hint; as one line of JSON if the output format is JSON."""
    if output is Output.JSON:
        say_json(note=text, **({} if hint is None else {"hint": hint}))
    else:
        say(text if hint is None else f"{text}\nhint: {hint}")


def show_json(value: object) -> None:
    """Print a value as JSON."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def show_lines(values: Iterable[object]) -> None:
    """Print one value per line."""
    for value in values:
        sys.stdout.write(f"{value}\n")


def show_table(rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows with equal keys as a table; without rows, print nothing."""
    found = list(rows)
    if found:
        console = _stdout()
        console.print(table(found, console.width))


def table(rows: Sequence[Mapping[str, object]], width: int) -> RenderableType:
    """Return rows with equal keys as a table of at most ``width`` columns. Columns without any text are omitted.

    If the table is too wide, even with wrapped texts, one block of lines per row is returned.
    """
    heads = [name for name in rows[0] if any(row[name] != "" for row in rows)]
    cells = [[_cell(row[name]) for name in heads] for row in rows]
    widths = _widths([heads, *cells], width)
    if widths is None:
        blocks = [_block({name: row[name] for name in heads if row[name] != ""}) for row in rows]
        return Group(*(part for block in blocks for part in (Text(), block)))
    found = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, column in zip(heads, widths, strict=True):
        found.add_column(name, width=column)
    for row in cells:
        found.add_row(*row)
    return found


def _widths(rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return the widths of a table's columns, which wrap texts between words; None if the table is too wide."""
    columns = list(zip(*rows, strict=True))
    widths = [max(len(word) for text in texts for word in (*text.split(), "")) for texts in columns]
    wanted = [max(map(len, texts)) for texts in columns]
    free = width - sum(widths) - _BETWEEN_COLUMNS * len(columns)
    if free < 0:
        return None
    # Narrow columns first, so that as few as possible are wrapped.
    for index in sorted(range(len(columns)), key=lambda index: wanted[index] - widths[index]):
        more = min(free, wanted[index] - widths[index])
        widths[index] += more
        free -= more
    return widths


def show_fields(value: Mapping[str, Any]) -> None:
    """Print an object, one field per line; nested values are JSON. A terminal wraps them beside their names."""
    console = _stdout()
    if console.width < _PIPE_WIDTH:
        console.print(_block(value))
        return
    width = max(map(len, value), default=0)
    show_lines(f"{name:<{width}}  {_cell(each)}" for name, each in value.items())


def _block(fields: Mapping[str, object]) -> Table:
    """Return one line per field, or several for a long value."""
    block = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    block.add_column(no_wrap=True)
    block.add_column(overflow="fold")
    for name, value in fields.items():
        block.add_row(Text(name), Text(_cell(value)))
    return block


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
            return str(value).translate(_ESCAPED)


def _stdout() -> Console:
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(highlight=False, markup=False, width=None if has_width else _PIPE_WIDTH)
