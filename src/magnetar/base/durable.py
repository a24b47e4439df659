"""Writing a file again, where the page cache cannot be trusted (ADR 12)."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from magnetar.base.errors import DiskFullError, StorageError, TooManyOpenFilesError

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.base.world import Files

COPY_SUFFIX = ".copy"
"""Ends the name of a copy until the copy replaces its file; a crash may leave one, and it may be removed."""

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)

_WRITE_BYTES = 1 << 20
"""Bytes that are written at once."""


def write_again(files: Files, path: Path, content: bytes) -> None:
    """Replace the file at ``path``, or make it; ``content`` is on the disk on return, under that name.

    A crash before leaves the file as it was. Raises OSError, and then the file is as it was, too.
    """
    copy_path = path.with_name(path.name + COPY_SUFFIX)
    copy = files.open(copy_path)
    try:
        copy.truncate(0)
        for start in range(0, len(content), _WRITE_BYTES):
            copy.write([content[start : start + _WRITE_BYTES]])
        copy.sync()
    finally:
        copy.close()
    files.rename(copy_path, path)
    files.sync_directory(path.parent)


def storage_error(path: Path, error: OSError) -> StorageError:
    """Make the error for a write that failed; the kinds without a descriptor or without room pass by themselves."""
    if error.errno in _NO_DESCRIPTOR:
        return TooManyOpenFilesError(f"{path}: cannot open: {error}: raise the limit of open files (ulimit -n)")
    kind = DiskFullError if error.errno in _DISK_FULL else StorageError
    return kind(f"{path}: cannot write: {error}")
