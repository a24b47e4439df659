"""Tables and code in Markdown."""

from __future__ import annotations

from inspect import cleandoc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table that ends with a line break."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def code(text: object) -> str:
    """Return ``text`` as code; an empty string stays empty."""
    return f"`{text}`" if str(text) else ""


def prose(docstring: str) -> str:
    """Return a docstring as Markdown."""
    return cleandoc(docstring).replace("``", "`")


def value(of: object) -> str:
    """Return a setting's value in the form of the configuration file."""
    if of is None:
        return ""
    return str(of).lower() if isinstance(of, bool) else str(of)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
