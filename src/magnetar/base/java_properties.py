"""Java's format of properties, in which ``broker.conf`` is written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from magnetar.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLANKS: Final = " \t\f"

_COMMENT: Final = ("#", "!")

_KEY: Final = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
"""A key ends before the first separator that is not escaped."""

_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")

_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)?", re.DOTALL)

_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str, name: str) -> dict[str, str]:
    """Return the values by their keys, without blanks around them; of two lines with the same key, the last one.

    Raises ConfigurationError, with the ``name`` of the file and the line, for a malformed escape of a character.
    """
    values: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None, line
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None, line
        where = f"{name}:{number}"
        values[_unescape(key.group(), where)] = _unescape(line[separator.end() :], where).strip()
    return values


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line with its number, without comments and blank lines.

    A line that ends with an odd number of backslashes continues on the next one, without the blanks at its start.
    """
    pieces: list[str] = []
    start = 0
    for number, each in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        line = each.lstrip(_BLANKS)
        if not pieces:
            if not line or line.startswith(_COMMENT):
                continue
            start = number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            if line != "\\":
                pieces.append(line[:-1])
            continue
        yield start, "".join([*pieces, line])
        pieces.clear()
    if pieces:
        yield start, "".join(pieces)


def _unescape(text: str, where: str) -> str:
    if "\\" not in text:
        return text

    def character(match: re.Match[str]) -> str:
        escaped = match.group(1) or ""
        if escaped == "u":
            message = f"{where}: \\u must be followed by four hexadecimal digits"
            raise ConfigurationError(message)
        return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _ESCAPED.get(escaped, escaped)

    return _ESCAPE.sub(character, text)
