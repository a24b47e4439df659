"""The file with the newest routes, from which an instance starts while every broker is away."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from zlib import crc32

from magnetar.base.durable import storage_error, write_again
from magnetar.base.errors import ConfigurationError, CorruptionError
from magnetar.lookup.knowledge import Knowledge

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.base.world import Files

FORMAT_VERSION = 1
"""The version of the file's format."""

_NAME = "routes.json"


class KeptKnowledge:
    """The file in a directory."""

    def __init__(self, files: Files, directory: Path) -> None:
        """Use the file in ``directory``, which is created; raises ConfigurationError if that is not possible."""
        try:
            files.make_directory(directory)
        except OSError as error:
            message = f"cannot use the directory {directory}: {error.strerror}\nhint: name another one with --data"
            raise ConfigurationError(message) from error
        self._files = files
        self._path = directory / _NAME

    def read(self, default_cluster: str | None) -> Knowledge | None:
        """Return what was kept; None if nothing was. Raises CorruptionError."""
        if not self._path.exists():
            return None
        try:
            found = json.loads(self._path.read_bytes())
            is_later = found["version"] > FORMAT_VERSION
            knowledge = None if is_later else Knowledge.from_json(_content(found), default_cluster)
        except (OSError, ValueError, KeyError, TypeError) as error:
            message = f"{self._path} is damaged: {error}\nhint: delete the file; the brokers have the routes"
            raise CorruptionError(message) from error
        if knowledge is None:
            message = f"{self._path} has format version {found['version']}, this version reads {FORMAT_VERSION}"
            raise ConfigurationError(message)
        return knowledge

    def write(self, content: object) -> None:
        """Replace what is kept by the result of ``Knowledge.to_json``; durable on return. Raises StorageError."""
        kept = {"version": FORMAT_VERSION, "checksum": _checksum(content), "content": content}
        try:
            write_again(self._files, self._path, json.dumps(kept).encode())
        except OSError as error:
            raise storage_error(self._path, error) from error


def _content(found: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = found["content"]
    if found["checksum"] != _checksum(content):
        message = "its checksum is wrong"
        raise ValueError(message)
    return content


def _checksum(content: object) -> int:
    return crc32(json.dumps(content, sort_keys=True).encode())
