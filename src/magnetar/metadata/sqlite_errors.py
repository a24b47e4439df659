"""Conversion of SQLite's errors, for all SQLite files."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from magnetar.base.errors import CorruptionError, DiskFullError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def sqlite_errors(what: str) -> Iterator[None]:
    """Convert SQLite's errors to DiskFullError, CorruptionError or StorageError; the text starts with ``what``."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        message = f"{what}: {error}"
        busy = f"{message}; is another broker using it?"
        match getattr(error, "sqlite_errorcode", 0) & 0xFF:  # the upper bits only refine the primary code
            case sqlite3.SQLITE_FULL:
                raise DiskFullError(message) from error
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                raise CorruptionError(message) from error
            case sqlite3.SQLITE_BUSY:
                raise StorageError(busy) from error
            case _:
                raise StorageError(message) from error
