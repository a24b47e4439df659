"""The schemas of topics, one path for each version.

The path ends with ``<version>.<type>.<digest>.<fingerprint>``, the version in ten digits, so that a schema is found
without reading values. A value is a line of JSON with the properties, and the definition behind it. The path of a
deletion ends with ``<version>.DELETED``; it keeps the number, so that no version is used twice.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from magnetar.base.errors import CorruptionError
from magnetar.metadata.awaiting import Commit
from magnetar.metadata.resources import topic_path
from magnetar.metadata.store import ABSENT, Delete, Put
from magnetar.schema.info import SchemaInfo, SchemaType

if TYPE_CHECKING:
    from magnetar.base.names import TopicName
    from magnetar.metadata.store import Change, MetadataStore

_ROOT: Final = "/schemas"
_DELETED: Final = "DELETED"

_LEVELS: Final = 5
"""Tenant, namespace, domain, topic, version."""

STORED_SIZE: Final = 500
"""Bytes of memory for a version in addition to its definition and properties: the path, and its objects."""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version of the schema of a topic, without its definition."""

    number: int
    type: SchemaType
    digest: str
    fingerprint: str

    @property
    def name(self) -> str:
        """Last part of the path."""
        return f"{self.number:010}.{self.type.name}.{self.digest}.{self.fingerprint}"

    def is_of(self, digest: str, fingerprint: str | None) -> bool:
        """Return whether the version is equivalent to a schema of its type; the fingerprint may be unknown."""
        return digest == self.digest or fingerprint == self.fingerprint


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """One version of the schema of a topic."""

    number: int
    info: SchemaInfo
    timestamp_ms: int
    """Time of its registration, in milliseconds since the epoch."""


class StoredSchemas:
    """The schemas of all topics. A partition has the schemas of its partitioned topic.

    A change is visible at once. Callers that confirm a change await its Commit first.
    """

    def __init__(self, store: MetadataStore) -> None:
        """Read and write in ``store``."""
        self._store = store
        self.size = 0
        """Bytes of memory that the durable schemas of all topics take."""
        for path in self._all_paths():
            found = store.get(path)
            self.size += _size(len(found.value)) if found else 0
        store.watch(_ROOT, self._changed)

    def versions(self, topic: TopicName) -> list[SchemaVersion]:
        """Return the versions since the last deletion, oldest first."""
        found: list[SchemaVersion] = []
        for name in self._store.children(_path(topic)):
            number, kind, *digests = name.split(".")
            if kind == _DELETED:
                found.clear()
            else:
                found.append(SchemaVersion(int(number), SchemaType[kind], *digests))
        return found

    def read(self, topic: TopicName, version: SchemaVersion) -> StoredSchema:
        """Return a version that ``versions`` has named."""
        path = f"{_path(topic)}/{version.name}"
        stored = self._store.get(path)
        assert stored is not None, path
        line, _, definition = stored.value.partition(b"\n")
        try:
            properties = {str(key): str(value) for key, value in json.loads(line).items()}
        except (ValueError, AttributeError) as error:
            message = f"{path}: the stored schema cannot be read: {error}"
            raise CorruptionError(message) from error
        return StoredSchema(version.number, SchemaInfo(version.type, definition, properties), stored.modified_ms)

    def size_of(self, topic: TopicName) -> int:
        """Return the bytes of memory that the schemas of a topic take."""
        parent = _path(topic)
        found = (self._store.get(f"{parent}/{name}") for name in self._store.children(parent))
        return sum(_size(len(each.value)) for each in found if each is not None)

    def add(self, topic: TopicName, info: SchemaInfo, fingerprint: str) -> tuple[int, Commit]:
        """Store the next version; return its number."""
        number = self._next_number(topic)
        version = SchemaVersion(number, info.type, info.digest, fingerprint)
        value = json.dumps(dict(info.properties), separators=(",", ":")).encode() + b"\n" + info.data
        return number, Commit(self._store, [Put(f"{_path(topic)}/{version.name}", value, ABSENT)])

    def delete(self, topic: TopicName) -> tuple[int, Commit]:
        """Remove all versions, and store the deletion as the next one; return its number."""
        parent, number = _path(topic), self._next_number(topic)
        removed = [Delete(f"{parent}/{name}") for name in self._store.children(parent)]
        return number, Commit(self._store, [*removed, Put(f"{parent}/{number:010}.{_DELETED}", b"{}\n", ABSENT)])

    def forget(self, topic: TopicName) -> Commit:
        """Remove all versions and deletions; the next version is 0 again."""
        return Commit(self._store, self.removal(topic))

    def removal(self, topic: TopicName) -> list[Delete]:
        """Return the operations that remove all versions and deletions."""
        parent = _path(topic)
        return [Delete(f"{parent}/{name}") for name in self._store.children(parent)]

    async def recorded(self) -> None:
        """Return when all changes until now are durable; raises StorageError if one failed."""
        await Commit(self._store, [])

    def _next_number(self, topic: TopicName) -> int:
        names = self._store.children(_path(topic))
        return int(names[-1].partition(".")[0]) + 1 if names else 0

    def _changed(self, change: Change) -> None:
        before, after = change.before, change.after
        self.size += (_size(len(after.value)) if after else 0) - (_size(len(before.value)) if before else 0)

    def _all_paths(self) -> list[str]:
        paths = [_ROOT]
        for _ in range(_LEVELS):
            paths = [f"{path}/{name}" for path in paths for name in self._store.children(path)]
        return paths


def _size(value_size: int) -> int:
    return value_size + STORED_SIZE


def _path(topic: TopicName) -> str:
    return topic_path(_ROOT, topic.partitioned_topic)
