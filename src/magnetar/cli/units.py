"""Parsers of durations, sizes and positions in arguments."""

from __future__ import annotations

import re

import typer

from magnetar.base.position import EARLIEST, LATEST, Position

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_MEGABYTE = 2**20
_NUMBER = re.compile(r"(\d+)([a-z]?)", re.IGNORECASE)


def seconds(text: str) -> int:
    """Read a duration: ``90``, ``90s``, ``10m``, ``3h``, ``2d``, ``1w``."""
    return _scaled(text, _SECONDS, "a time such as 90s, 10m, 3h, 2d or 1w")


def bounded_seconds(text: str) -> int:
    """Read a duration, or -1 for no limit."""
    return -1 if text == "-1" else seconds(text)


def minutes(text: str) -> int:
    """Read a duration of whole minutes, or -1 for no limit."""
    if text == "-1":
        return -1
    whole, rest = divmod(seconds(text), 60)
    if rest:
        message = f"{text} is not a whole number of minutes"
        raise typer.BadParameter(message)
    return whole


def megabytes(text: str) -> int:
    """Read a size in whole megabytes (2^20 bytes), or -1 for no limit."""
    if text == "-1":
        return -1
    whole, rest = divmod(size(text), _MEGABYTE)
    if rest:
        message = f"{text} is not a whole number of megabytes; the smallest size is 1M"
        raise typer.BadParameter(message)
    return whole


def size(text: str) -> int:
    """Read a number of bytes: ``500``, ``100M``, ``16G``, ``3T``."""
    return _scaled(text, _BYTES, "a size such as 100M, 16G or 3T")


def position(text: str) -> Position:
    """Read ``earliest``, ``latest`` or ``ledger:entry``."""
    named = {"earliest": EARLIEST, "latest": LATEST}
    try:
        return named.get(text) or Position.parse(text)
    except ValueError:
        message = f"{text!r} is neither earliest, latest nor ledger:entry"
        raise typer.BadParameter(message) from None


def _scaled(text: str, units: dict[str, int], expected: str) -> int:
    match = _NUMBER.fullmatch(text.strip())
    if match is None or match[2].lower() not in units:
        message = f"{text!r} is not {expected}"
        raise typer.BadParameter(message)
    return int(match[1]) * units[match[2].lower()]
