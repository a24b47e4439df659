"""The file of a ledger directory that names the life of the cluster that the log belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.base.durable import storage_error, write_again
from magnetar.base.errors import CorruptionError
from magnetar.base.life import Life

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.base.world import Files

LIFE_NAME: Final = "life"


def read_life(files: Files, directory: Path) -> Life | None:
    """Return the life that a directory names; None if it names none.

    Raises CorruptionError if the file is damaged, and StorageError if it cannot be read.
    """
    path = directory / LIFE_NAME
    try:
        if LIFE_NAME not in files.list(directory):
            return None
        file = files.open(path)
        try:
            return Life.parse(file.read_at(0, file.size()).decode())
        finally:
            file.close()
    except OSError as error:
        raise storage_error(path, error) from error
    except ValueError as error:
        message = f"{path}: offset 0: {error}"
        raise CorruptionError(message) from error


def write_life(files: Files, directory: Path, life: Life) -> None:
    """Name a life, durably on return; raises StorageError."""
    path = directory / LIFE_NAME
    try:
        write_again(files, path, str(life).encode())
    except OSError as error:
        raise storage_error(path, error) from error
