"""Rewriting a file durably where the page cache cannot be trusted (ADR 12)."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from magnetar.base.errors import DiskFullError, StorageError, TooManyOpenFilesError

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.base.world import Files

COPY_SUFFIX = ".copy"
"""Suffix of a copy's name until the copy replaces its file; a copy that a crash leaves behind may be removed."""

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)

_WRITE_BYTES = 1 << 20
"""Maximum number of bytes per write."""


def write_again(files: Files, path: Path, content: bytes) -> None:
    """Replace or create the file at ``path``; on return ``content`` is durable under that name.

    A crash before, or an OSError raised here, leaves the file unchanged.
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
    """Return the error for a failed write; a full disk and a lack of file descriptors are temporary, others are not."""
    if error.errno in _NO_DESCRIPTOR:
        return TooManyOpenFilesError(f"{path}: cannot open: {error}: raise the limit of open files (ulimit -n)")
    kind = DiskFullError if error.errno in _DISK_FULL else StorageError
    return kind(f"{path}: cannot write: {error}")
