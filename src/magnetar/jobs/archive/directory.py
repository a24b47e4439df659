"""The directory of an archive.

``topic=…/day=…/BATCH-TASK-FILE.parquet`` are the messages. ``_magnetar``, which readers of Parquet ignore, has:

* ``archive.json``: the identity of the archive;
* ``checkpoint``: Spark's checkpoint of the query that writes the archive;
* ``schemas.json``: the schemas of the messages;
* ``staging``: the files of a batch that is not committed yet, or that are being moved;
* ``commit.json``: the newest committed batch and its files. It replaces that of the batch before, which commits the
  batch. Then the files are moved to their places. A process that opens the archive for writing moves those that a
  killed one left.

So each file that has its place is complete and is never written again, and no message is in two files. Only while files
are moved, a part of the newest batch is missing; ``contents`` leaves out such a batch as a whole.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from magnetar.base.durable import write_again
from magnetar.base.errors import ConfigurationError, StorageError
from magnetar.base.lock import DirectoryLock
from magnetar.base.real import SystemFiles
from magnetar.jobs.archive.contents import ArchivedFile, Contents, partition_of
from magnetar.jobs.files import sync
from magnetar.spark.read.offsets import decode_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from magnetar.base.position import Position
    from magnetar.jobs.archive.contents import Definitions

_OWN = "_magnetar"
_VERSION = 1
_STAGED = re.compile(r"part-(?P<task>\d+)-.+?[.-]c(?P<file>\d+)\..*parquet")
"""A file as Spark names it."""
_FINAL = re.compile(r"(?P<batch>\d+)-\d+-\d+\.parquet")


@dataclass(frozen=True, slots=True)
class _Commit:
    """A committed batch."""

    query: str
    """Id of the streaming query, which is that of its checkpoint."""
    batch: int
    files: tuple[tuple[str, str], ...]
    """Names relative to the staging directory, and to the archive."""


class Archive:
    """An archive that this process writes; no other one does."""

    def __init__(self, directory: Path, cluster: str) -> None:
        """Open or create the archive of topics of ``cluster``, and complete what a killed process has committed.

        Raises ConfigurationError if the directory is something else, and StorageError if another process uses it.
        """
        self._directory = directory
        self.own = directory / _OWN
        """The part of the directory that readers ignore."""
        self._staging = self.own / "staging"
        self._stage = self._staging
        self.checkpoint = self.own / "checkpoint"
        """Place of Spark's checkpoint."""
        if not identity(directory).exists():
            _check_empty(directory)
        self.own.mkdir(parents=True, exist_ok=True)
        self._lock = DirectoryLock(self.own)
        try:
            self._identify(cluster)
            self._commit = _read_commit(self.own)
            self._check_checkpoint()
            self._move()
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let other processes write the archive."""
        self._lock.release()

    def ends(self) -> dict[str, Position]:
        """Return the position of the next entry to archive, by topic or partition; nothing before the first batch."""
        batches = [int(path.name) for path in (self.checkpoint / "commits").glob("*") if path.name.isdecimal()]
        if not batches:
            return {}
        text = (self.checkpoint / "offsets" / str(max(batches))).read_text().splitlines()[-1]
        return {topic: offset.next for topic, offset in decode_offsets(json.loads(text)).items()}

    def has(self, batch: int) -> bool:
        """Return whether a batch is committed; raises StorageError if a later one is."""
        if self._commit is not None and self._commit.batch > batch:
            message = (
                f"{self._directory} has batch {self._commit.batch}, but its checkpoint is at batch {batch}: an earlier "
                "state of the checkpoint was restored\nhint: archive to a new directory"
            )
            raise StorageError(message)
        return self._commit is not None and self._commit.batch == batch

    def stage(self) -> Path:
        """Return a new place for the files of a batch, where tasks of a killed process do not write."""
        shutil.rmtree(self._staging, ignore_errors=True)
        self._stage = self._staging / uuid.uuid4().hex
        return self._stage

    def staged(self) -> list[Path]:
        """Return the files in the newest place of ``stage``."""
        return sorted(self._stage.rglob("part-*.parquet"))

    def keep_schemas(self, further: Definitions) -> None:
        """Add schemas of messages, durably, before the messages are committed."""
        known = _read_schemas(self.own)
        merged = {topic: {**known.get(topic, {}), **further.get(topic, {})} for topic in sorted({*known, *further})}
        fields = {
            topic: {version.hex(): base64.b64encode(schema).decode() for version, schema in by_version.items()}
            for topic, by_version in merged.items()
        }
        write_again(SystemFiles(), self.own / "schemas.json", json.dumps(fields).encode())

    def unknown(self, versions: Mapping[str, set[bytes]]) -> dict[str, set[bytes]]:
        """Return the versions of schemas that the archive does not have, by topic."""
        known = _read_schemas(self.own)
        found = {topic: of_topic - known.get(topic, {}).keys() for topic, of_topic in versions.items()}
        return {topic: of_topic for topic, of_topic in found.items() if of_topic}

    def commit(self, batch: int) -> None:
        """Commit the files in the newest place of ``stage``: all of them, or none. They are durable afterwards."""
        names = []
        for path in self.staged():
            form = _STAGED.fullmatch(path.name)
            assert form is not None, path.name
            final = path.with_name(f"{batch:010}-{int(form['task']):05}-{int(form['file']):03}.parquet")
            names.append((str(path.relative_to(self._staging)), str(final.relative_to(self._stage))))
            sync(path)
        commit = _Commit(self._query(), batch, tuple(names))
        fields = {"query": commit.query, "batch": commit.batch, "files": commit.files}
        write_again(SystemFiles(), self.own / "commit.json", json.dumps(fields).encode())
        self._commit = commit
        self._move()

    def _move(self) -> None:
        """Move the files of the newest batch to their places, and remove others that are not committed."""
        directories = set()
        for staged, final in self._commit.files if self._commit else ():
            source, target = self._staging / staged, self._directory / final
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                source.replace(target)
                directories |= {target.parent, target.parent.parent}
        if directories:
            for each in sorted(directories | {self._directory}):
                SystemFiles().sync_directory(each)
        shutil.rmtree(self._staging, ignore_errors=True)

    def _identify(self, cluster: str) -> None:
        path = identity(self._directory)
        if not path.exists():
            fields = {"version": _VERSION, "id": uuid.uuid4().hex, "cluster": cluster}
            write_again(SystemFiles(), path, json.dumps(fields).encode())
        found = _identity(self._directory)["cluster"]
        if found != cluster:
            message = f"{self._directory} is an archive of {found}, not of {cluster}\nhint: name another directory"
            raise ConfigurationError(message)

    def _check_checkpoint(self) -> None:
        if self._commit is not None and self._commit.query != self._query():
            message = (
                f"{self.checkpoint} is not the checkpoint that belongs to {self._directory}: it was removed or replaced"
                "\nhint: put it back, or archive to a new directory"
            )
            raise StorageError(message)

    def _query(self) -> str:
        """Return the id of the query; it is empty before the first start."""
        path = self.checkpoint / "metadata"
        return str(json.loads(path.read_text())["id"]) if path.exists() else ""


def contents(directory: Path) -> Contents:
    """Return the committed files of an archive, which may be written meanwhile.

    Raises ConfigurationError if the directory is no archive.
    """
    archive_id = str(_identity(directory)["id"])
    commit = _read_commit(directory / _OWN)
    if commit is None:
        return Contents(archive_id, [], {})
    # A batch whose files are being moved is left out. Files of later batches may appear while files are listed.
    is_moved = not any((directory / _OWN / "staging" / staged).exists() for staged, _ in commit.files)
    newest = commit.batch if is_moved else commit.batch - 1
    files = []
    for path in sorted(directory.glob("topic=*/day=*/*.parquet")):
        form = _FINAL.fullmatch(path.name)
        if form is not None and int(form["batch"]) <= newest:
            files.append(ArchivedFile(*partition_of(path), path))
    return Contents(archive_id, files, _read_schemas(directory / _OWN))


def identity(directory: Path) -> Path:
    """Return the file that each archive has."""
    return directory / _OWN / "archive.json"


def _identity(directory: Path) -> dict[str, Any]:
    path = identity(directory)
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        message = f"{directory} is no archive\nhint: magnetar pipeline archive creates one"
        raise ConfigurationError(message) from None
    if found["version"] != _VERSION:
        message = f"{directory} has version {found['version']} of the format; this program knows {_VERSION}"
        raise ConfigurationError(message)
    return found


def _check_empty(directory: Path) -> None:
    if directory.exists() and (not directory.is_dir() or any(path.name != _OWN for path in directory.iterdir())):
        message = f"{directory} is neither empty nor an archive\nhint: name another directory"
        raise ConfigurationError(message)


def _read_commit(own: Path) -> _Commit | None:
    try:
        found = json.loads((own / "commit.json").read_text())
    except FileNotFoundError:
        return None
    return _Commit(found["query"], found["batch"], tuple((staged, final) for staged, final in found["files"]))


def _read_schemas(own: Path) -> Definitions:
    try:
        found = json.loads((own / "schemas.json").read_text())
    except FileNotFoundError:
        return {}
    return {
        topic: {bytes.fromhex(version): base64.b64decode(schema) for version, schema in by_version.items()}
        for topic, by_version in found.items()
    }
