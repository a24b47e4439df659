"""``MetadataChangeEvent`` of PIP-136 as JSON. Pure.

``data`` has the edits with their timestamps, so that a receiver can merge them by field.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import Enum
from math import isfinite
from typing import TYPE_CHECKING, Any, Self

from magnetar.base.errors import InvalidTopicNameError
from magnetar.base.limits import Limit
from magnetar.metasync.places import Resource
from magnetar.metasync.records import PARTITIONS, Record
from magnetar.metasync.rules import NEEDED, OF_EACH_CLUSTER
from magnetar.metasync.timestamps import TIME_MS_MAX, is_cluster_name
from magnetar.metasync.units import LOCAL_DELETIONS, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORMAT_VERSION = 1
"""The version of the format. Events of a higher one are refused and kept."""

EVENT_BYTES_MAX = 1 << 20
"""Maximum length of an event in bytes. The largest documents have some 100 KiB."""

RECORD_HEAD_BYTES_MAX = 1 << 16
"""Maximum number of bytes of the creation and the deletion of a resource, which an event of a snapshot has."""

EVENT_EDITS_MAX = 500
"""Maximum number of edits in an event, which is applied in one turn of the event loop. More are published in parts."""

_PULSAR_PATH = b"/admin/"
"""Beginning of the path in an Avro ``MetadataEvent`` of Apache Pulsar."""

_PULSAR_PATH_WITHIN = 64
"""Number of bytes within which the path begins: a version, a time and options come first."""

_OF_APACHE_PULSAR = (
    "a MetadataEvent of Apache Pulsar, which has another format: set metadataSyncEventTopic to a topic that no cluster "
    "of Apache Pulsar uses, and import its metadata with magnetar metadata import --watch"
)


_SIZE = Limit.METADATA_EVENT_SIZE


class EventType(Enum):
    """``EventType`` of PIP-136, and one for the parts of a snapshot."""

    CREATED = "Created"
    MODIFIED = "Modified"
    DELETED = "Deleted"
    SNAPSHOT = "Snapshot"


class EventError(ValueError):
    """An event that cannot be read or published; the text states the reason."""


def _finite(text: str) -> float:
    """Read a number; raises ValueError for those that JSON does not have, such as NaN."""
    number = float(text)
    if not isfinite(number):
        message = f"{text:.20} is no number of JSON"
        raise ValueError(message)
    return number


@dataclass(frozen=True, slots=True)
class MetadataChangeEvent:
    """A change of one resource, or its complete record in a snapshot."""

    type: EventType
    resource: Resource
    source_cluster: str
    """The cluster that published the event; the edits in a snapshot may come from others."""
    update_time_ms: int
    """Time of the change, or of the snapshot, in milliseconds since the epoch."""
    record: Record
    """The changed part of the resource's record; all of it in a snapshot."""

    def encode(self) -> bytes:
        """Return the event as JSON, with the field names of PIP-136."""
        found = {
            "version": FORMAT_VERSION,
            "eventType": self.type.value,
            "resourceType": self.resource.kind.value,
            "resourceName": self.resource.name,
            "sourceCluster": self.source_cluster,
            "updateTime": self.update_time_ms,
            "data": self.record.to_json(),
        }
        return json.dumps(found, separators=(",", ":")).encode()

    def parts(self, omit: Callable[[EventError], None] | None = None) -> Iterator[bytes]:
        """Yield the event as JSON, in as many parts as the limits require; each is an event of its own.

        A single edit that is too large is left out and passed to ``omit``; without it, raises EventError. Each edit of
        an event fits in a snapshot as well. The first part has the units that count only at a creation, because it
        creates the resource.
        """
        edits = list(self.record.edits.items())
        data = self.encode() if len(edits) <= EVENT_EDITS_MAX else b""
        size_max = EVENT_BYTES_MAX - (0 if self.type is EventType.SNAPSHOT else RECORD_HEAD_BYTES_MAX)
        if data and len(data) <= size_max:
            yield data
            return
        if len(edits) <= 1:
            message = f"an edit of {self.resource.name} with {len(data)} bytes, at most {size_max} ({_SIZE})"
            error = EventError(message)
            if omit is None:
                raise error
            omit(error)
            if self.record.created is not None or self.record.deleted is not None:
                yield replace(self, record=replace(self.record, edits={})).encode()
            return
        small = OF_EACH_CLUSTER[self.resource.kind] | {PARTITIONS}
        edits.sort(key=lambda each: (each[0] not in small, each[0] not in NEEDED))
        middle = min(len(edits) // 2, EVENT_EDITS_MAX)
        kept_together = sum(unit in small for unit, _ in edits)
        if kept_together < len(edits):
            middle = max(middle, kept_together)
        for record in (
            replace(self.record, edits=dict(edits[:middle])),
            Record(self.record.kind, edits=dict(edits[middle:])),
        ):
            is_whole = record.created is not None or record.deleted is not None or self.type is EventType.SNAPSHOT
            yield from replace(self, type=self.type if is_whole else EventType.MODIFIED, record=record).parts(omit)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse the result of ``encode``; raises EventError."""
        if len(data) > EVENT_BYTES_MAX:
            message = f"an event of {len(data)} bytes, at most {EVENT_BYTES_MAX} are allowed ({_SIZE})"
            raise EventError(message)
        try:
            found = json.loads(data, parse_float=_finite, parse_constant=_finite)
        except (ValueError, RecursionError) as error:
            message = _OF_APACHE_PULSAR if _PULSAR_PATH in data[:_PULSAR_PATH_WITHIN] else f"not JSON: {error}"
            raise EventError(message) from None
        return cls._read(found)

    @classmethod
    def _read(cls, found: Any) -> Self:  # noqa: ANN401 - anything may come from outside
        match found:
            case {"version": int(version)} if version > FORMAT_VERSION:
                message = f"format version {version}, this broker reads {FORMAT_VERSION}: upgrade it"
                raise EventError(message)
            case {
                "version": int(),
                "eventType": str(event_type),
                "resourceType": str(resource_type),
                "resourceName": str(name),
                "sourceCluster": str(cluster),
                "updateTime": int(update_time_ms),
                "data": dict(record),
            } if is_cluster_name(cluster) and 0 <= update_time_ms <= TIME_MS_MAX:
                edits = record.get("edits")
                if isinstance(edits, dict) and len(edits) > EVENT_EDITS_MAX:
                    message = f"an event with {len(edits)} edits, at most {EVENT_EDITS_MAX} are allowed ({_SIZE})"
                    raise EventError(message)
                try:
                    resource = Resource.parse(ResourceType(resource_type), name)
                    read = Record.from_json(resource.kind, record)
                    read.check_epoch()
                    event = cls(EventType(event_type), resource, cluster, update_time_ms, read)
                except (ValueError, InvalidTopicNameError) as error:
                    raise EventError(str(error)) from None
                if read.deleted is not None and resource.kind in LOCAL_DELETIONS:
                    message = f"a deletion of {resource_type} {name:.100}: each cluster deletes its own"
                    raise EventError(message)
                return event
        message = "a member of MetadataChangeEvent is missing or has a wrong type"
        raise EventError(message)
