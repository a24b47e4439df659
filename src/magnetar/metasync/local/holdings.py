"""The synchronized resources of one cluster in its metadata store: documents, records, marks, and events to publish."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from magnetar.metadata.resources import MANAGED_LEDGERS
from magnetar.metadata.store import Delete, Put
from magnetar.metasync.events import EventType, MetadataChangeEvent
from magnetar.metasync.local.decisions import Circumstances, Holding, accept_all
from magnetar.metasync.local.marks import WHOLE, Reason, decoded, encoded
from magnetar.metasync.places import CLOCK, LOCAL, OUTBOX, RECORDS, Resource, event_path, resource_at
from magnetar.metasync.records import Record
from magnetar.metasync.timestamps import HybridClock, Timestamp
from magnetar.metasync.units import ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from magnetar.base.world import Clock
    from magnetar.metadata.store import MetadataStore
    from magnetar.metasync.events import EventError
    from magnetar.metasync.local.decisions import Check
    from magnetar.metasync.rules import Rules


_EVERYWHERE = (ResourceType.TENANTS, ResourceType.ROUTES)
"""Kinds that a cluster holds whether or not the tenant allows it. A route says where the tenant is instead."""

RECENT_MAX = 2
"""Maximum number of records that are kept as objects."""


class Holdings:
    """Reads the resources, and returns the operations that change them. Used on the event loop's thread."""

    def __init__(
        self, store: MetadataStore, cluster: str, clock: Clock, rules: Rules, check: Check = accept_all
    ) -> None:
        """Read the resources of ``cluster`` in ``store``; ``clock`` is the wall clock."""
        self.store = store
        """What is committed to it is not published."""
        self.rules = rules
        self.cluster = cluster
        self._wall = clock
        self._check = check
        stored = store.get(CLOCK)
        self.clock = HybridClock(cluster, None if stored is None else Timestamp.from_json(json.loads(stored.value)))
        self._next_number = next_number(store.children(OUTBOX))
        self._recent: dict[bytes, Record] = {}
        """The record that was read last, and the one that was written last, by their stored form.

        Several changes of a resource can follow each other. A change that was written may not be committed.
        """

    def circumstances(self, resource: Resource) -> Circumstances:
        """Return what decides about a change of a resource that is made now."""
        return Circumstances(
            self.rules,
            self.now_ms(),
            lambda: self.clock.next(self.now_ms()),
            is_allowed=resource.kind in _EVERYWHERE or self.allows(resource.tenant),
            has_topics=lambda: self.has_topics(resource),
            check=self._check,
        )

    def held(self, resource: Resource) -> Holding:
        """Return a resource of this cluster."""
        stored, marks = self.store.get(resource.path), self.store.get(resource.marks_path)
        return Holding(
            resource,
            self.record(resource),
            None if stored is None else json.loads(stored.value),
            {} if marks is None else decoded(marks.value),
        )

    def operations(
        self,
        before: Holding,
        after: Holding,
        published: Record | None = None,
        omit: Callable[[EventError], None] | None = None,
    ) -> list[Put | Delete]:
        """Return the operations that replace a holding, and add the events with the edits to publish.

        An edit that is too large for an event is left out and passed to ``omit``; without it, raises EventError.
        """
        resource, operations = after.resource, list[Put | Delete]()
        if after.document != before.document:
            operations.append(_stored(resource.path, None if after.document is None else compact(after.document)))
        if after.marks != before.marks:
            operations.append(_stored(resource.marks_path, encoded(after.marks) if after.marks else None))
        if after.record != before.record:
            after.record.forget()
            data = compact(after.record.to_json())
            self._remember(data, after.record)
            operations.append(Put(resource.record_path, data))
            operations.append(self.put_clock())
        if published is not None and not published.is_empty:
            operations += self._events(resource, published, omit)
        return operations

    def put_clock(self) -> Put:
        """Return the operation that keeps the newest timestamp, so that it is not given again after a restart."""
        return Put(CLOCK, compact(self.clock.newest.to_json()))

    def _events(self, resource: Resource, record: Record, omit: Callable[[EventError], None] | None) -> Iterator[Put]:
        event_type = EventType.MODIFIED
        if record.created is not None or record.deleted is not None:
            event_type = EventType.DELETED if record.created is None else EventType.CREATED
        for part in MetadataChangeEvent(event_type, resource, self.cluster, self.now_ms(), record).parts(omit):
            yield Put(event_path(self._next_number), part)
            self._next_number += 1

    # -- records and marks ----------------------------------------------------------------------------------------

    def record(self, resource: Resource) -> Record:
        """Return the record of a resource; it is empty if no edit is known."""
        stored = self.store.get(resource.record_path)
        if stored is None:
            return Record(resource.kind)
        record = self._recent.get(stored.value)
        if record is None or record.kind is not resource.kind:
            record = _record_of(resource, stored.value)
        self._remember(stored.value, record)
        return record

    def _remember(self, data: bytes, record: Record) -> None:
        self._recent.pop(data, None)
        self._recent[data] = record
        if len(self._recent) > RECENT_MAX:
            del self._recent[next(iter(self._recent))]

    def records(self) -> Iterator[tuple[Resource, Record]]:
        """Yield all records, including those of deleted resources; nothing may be stored meanwhile."""
        for path, value in self.store.below(RECORDS):
            resource = resource_at(path.removeprefix(RECORDS))
            if resource is not None:
                yield resource, _record_of(resource, value)

    def recorded(self) -> list[Resource]:
        """Return the resources with a record, including deleted ones."""
        return self._resources_below(RECORDS)

    def marked(self) -> list[Resource]:
        """Return the resources of which something is local."""
        return self._resources_below(LOCAL)

    def _resources_below(self, root: str) -> list[Resource]:
        paths = [path.removeprefix(root) for path, _ in self.store.below(root)]
        return [resource for path in paths if (resource := resource_at(path)) is not None]

    # -- circumstances --------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return the time of the wall clock in milliseconds since the epoch."""
        return int(self._wall.now() * 1000)

    def created(self, resource: Resource) -> Timestamp | None:
        """Return the time of the last change of a document, as that of its creation; None if it does not exist."""
        stored = self.store.get(resource.path)
        return None if stored is None else Timestamp(stored.modified_ms, 0, self.cluster)

    def allows(self, tenant: str) -> bool:
        """Return whether the tenant allows this cluster. It does if it is not known here, or names no cluster."""
        stored = self.store.get(Resource(ResourceType.TENANTS, tenant).path)
        allowed = [] if stored is None else json.loads(stored.value).get("allowedClusters")
        return not allowed or self.cluster in allowed

    def is_in_local(self, resource: Resource) -> bool:
        """Return whether a tenant or namespace around a resource exists only because of an operator of this cluster."""
        parent = resource.parent
        while parent is not None:
            stored = self.store.get(parent.marks_path)
            mark = None if stored is None else decoded(stored.value).get(WHOLE)
            if mark is not None and mark.reason is Reason.EDIT:
                return True
            parent = parent.parent
        return False

    def has_topics(self, resource: Resource) -> bool:
        """Return whether the deletion of a resource would strand topics with messages or subscriptions."""
        if resource.kind is not ResourceType.NAMESPACES:
            return False
        root = f"{MANAGED_LEDGERS}/{resource.name}"
        return any(True for domain in self.store.children(root) for _ in self.store.each_child(f"{root}/{domain}"))


def compact(value: object) -> bytes:
    """Return JSON as it is stored."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def next_number(numbers: Sequence[str]) -> int:
    """Return the number after the last one."""
    return int(numbers[-1]) + 1 if numbers else 0


def _stored(path: str, value: bytes | None) -> Put | Delete:
    return Delete(path) if value is None else Put(path, value)


def _record_of(resource: Resource, value: bytes) -> Record:
    return Record.from_json(resource.kind, json.loads(value))
