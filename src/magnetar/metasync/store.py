"""A metadata store that records edits of synchronized resources, and their events, in the transaction of the change.

So a crash loses neither an edit's time nor its event. The events wait in an outbox until they are published. Edits that
another cluster made are merged by ``apply``, which writes no event.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from magnetar.metadata.awaiting import Commit
from magnetar.metadata.store import Delete, Put
from magnetar.metasync.arrivals import Arrivals
from magnetar.metasync.conflicts import lost_edits
from magnetar.metasync.documents import MODELS, normal, own_units
from magnetar.metasync.events import EventType, MetadataChangeEvent
from magnetar.metasync.places import (
    CLOCK,
    OUTBOX,
    RECORDS,
    REFUSED,
    SYNCHRONIZED,
    event_path,
    refused_path,
    resource_at,
)
from magnetar.metasync.records import PARTITIONS, REMOVED, Edit, Record
from magnetar.metasync.rules import OF_EACH_CLUSTER
from magnetar.metasync.timestamps import HybridClock, Timestamp, check_time
from magnetar.metasync.units import ResourceType, document_of, units_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from magnetar.base.histogram import Histogram
    from magnetar.base.world import Clock
    from magnetar.metadata.policy.document import Document as Model
    from magnetar.metadata.store import Change, MetadataStore, OnDurable, Versioned
    from magnetar.metasync.places import Resource
    from magnetar.metasync.rules import Rules
    from magnetar.metasync.units import Document

_LOCAL_DELETIONS = (ResourceType.TOPICS, ResourceType.TOPIC_POLICIES)
"""Kinds whose deletion concerns one cluster only: the topic goes on in the others."""

REFUSED_MAX = 100
"""Maximum number of refused events that are kept."""

REFUSED_BYTES_MAX = 4_096
"""Maximum number of bytes of a refused event that are kept."""

DELETED_MAX = 10_000
"""Maximum number of deleted resources whose records are kept.

If older ones are forgotten, an event or a snapshot from before the deletion could restore the resource.
"""

ADOPTED_AT_ONCE = 100
"""Maximum number of resources whose first records are written in one transaction."""


class SynchronizedStore:
    """See MetadataStore. Used on the event loop's thread."""

    def __init__(self, inner: MetadataStore, cluster: str, clock: Clock, rules: Rules) -> None:
        """Record edits of ``cluster`` in ``inner``, at the times of ``clock``; ``rules`` decides which are shared."""
        self._inner = inner
        self._rules = rules
        self._cluster = cluster
        self._wall = clock
        stored = inner.get(CLOCK)
        self._clock = HybridClock(cluster, None if stored is None else Timestamp.from_json(json.loads(stored.value)))
        self._next_number = _next_number(inner.children(OUTBOX))
        self.arrivals = Arrivals(inner)
        self.conflicts = 0
        """Number of edits that lost against a concurrent one."""
        self.commit_times: Histogram = inner.commit_times

    # -- as any store ---------------------------------------------------------------------------------------------

    def get(self, path: str) -> Versioned | None:
        """See MetadataStore."""
        return self._inner.get(path)

    def children(self, path: str) -> list[str]:
        """See MetadataStore."""
        return self._inner.children(path)

    def each_child(self, path: str) -> Iterator[str]:
        """See MetadataStore."""
        return self._inner.each_child(path)

    def below(self, path: str) -> Iterator[tuple[str, bytes]]:
        """See MetadataStore."""
        return self._inner.below(path)

    def barrier(self, on_durable: OnDurable) -> None:
        """See MetadataStore."""
        self._inner.barrier(on_durable)

    def watch(self, prefix: str, callback: Callable[[Change], None]) -> Callable[[], None]:
        """See MetadataStore."""
        return self._inner.watch(prefix, callback)

    def close(self) -> None:
        """See MetadataStore."""
        self._inner.close()

    def commit(self, operations: Sequence[Put | Delete], on_durable: OnDurable | None = None) -> list[int]:
        """See MetadataStore. Changes of synchronized resources are recorded as edits made in this cluster now.

        A topic that was deleted here goes on in other clusters, and edits of a resource may arrive before its creation.
        If it is created here, its document is completed with the known edits.
        """
        written: list[Put | Delete] = []
        recorded: list[Put | Delete] = []
        for operation in operations:
            completed, records = self._recorded(operation)
            written.append(completed)
            recorded += records
        versions = self._inner.commit([*written, *recorded], on_durable)
        return versions[: sum(isinstance(each, Put) for each in operations)]

    async def durable(self) -> None:
        """Wait until all earlier commits are durable; raises StorageError."""
        await Commit(self._inner, [])

    # -- edits made here ------------------------------------------------------------------------------------------

    def _recorded(self, operation: Put | Delete) -> tuple[Put | Delete, list[Put | Delete]]:
        """Return the operation, and those that record it; none if the resource is not synchronized, or is the same."""
        resource = resource_at(operation.path)
        if resource is None or not self._rules.covers(resource):
            return operation, []
        before = self._document(resource)
        after = json.loads(operation.value) if isinstance(operation, Put) else None
        if after is None and resource.kind in _LOCAL_DELETIONS:
            return operation, []
        known = self.record(resource)
        edited = self._edited(known, before, after)
        if before is not None:
            edited = self._rules.shared(edited)
        if edited.is_empty:
            return operation, []
        merged = known.merge(edited)
        if isinstance(operation, Put) and before is None and not known.is_empty:
            operation = replace(operation, value=_valid(resource.kind, merged).to_bytes())
        event_type = EventType.MODIFIED
        if before is None or after is None:
            event_type = EventType.CREATED if before is None else EventType.DELETED
        return operation, [*self._keep(resource, merged), self._event(event_type, resource, edited)]

    def _edited(self, known: Record, before: Document | None, after: Document | None) -> Record:
        """Return the edits that change a document; None: it does not exist.

        A creation also removes the known edits that were made concurrently with the deletion before, but none of a
        resource that only this cluster lacked, or whose creation in another cluster has not arrived.
        """
        if before == after:
            return Record(known.kind)
        timestamp = self._clock.next(self._now_ms())
        if after is None:
            return Record(known.kind, deleted=timestamp)
        if before is None:
            new = own_units(known.kind, after)
            units = list(new)
            if known.deleted is not None and not known.exists:
                units += [unit for unit in known.edits if unit not in new]
            return Record(known.kind, timestamp, None, _edits(known, timestamp, units, new))
        new = units_of(known.kind, after)
        old = units_of(known.kind, before)
        units = [unit for unit in {**old, **new} if old.get(unit) != new.get(unit)]
        return Record(known.kind, None, None, _edits(known, timestamp, units, new))

    def _event(self, event_type: EventType, resource: Resource, record: Record) -> Put:
        number, self._next_number = self._next_number, self._next_number + 1
        event = MetadataChangeEvent(event_type, resource, self._cluster, self._now_ms(), record)
        return Put(event_path(number), event.encode())

    # -- edits of other clusters ----------------------------------------------------------------------------------

    def apply(self, event: MetadataChangeEvent, on_durable: OnDurable) -> bool:
        """Merge the edits of an event; return whether any is new. ``on_durable`` is told when they are durable.

        Raises RequestError for edits that are too far in the future, ValueError for a document that is not valid.
        """
        now_ms = self._now_ms()
        for timestamp in (*event.record.timestamps(), Timestamp(event.update_time_ms, 0, event.source_cluster)):
            check_time(timestamp, now_ms)
        resource, known, record = event.resource, self.record(event.resource), event.record
        present = self._document(resource)
        if present is not None:
            record = self._rules.shared(record)
        operations: list[Put | Delete] = []
        is_news = False
        if self._rules.covers(resource):
            merged = known.merge(record)
            is_news = not record.news(known).is_empty
            if is_news:
                operations += _written(resource, present, merged)
                for timestamp in event.record.timestamps():
                    self._clock.observe(timestamp)
                operations += self._keep(resource, merged)
            self.conflicts += len(lost_edits(known, record))
        operations += self.arrivals.note(event)
        if operations:
            self._inner.commit(operations, on_durable)
        else:
            self._inner.barrier(on_durable)
        return is_news

    # -- the outbox -----------------------------------------------------------------------------------------------

    @property
    def unpublished_count(self) -> int:
        """Number of events in the outbox."""
        return len(self._inner.children(OUTBOX))

    def unpublished(self, count_max: int) -> list[tuple[int, bytes]]:
        """Return the oldest events in the outbox with their numbers; they may not be durable yet."""
        numbers = self._inner.children(OUTBOX)[:count_max]
        stored = [(int(number), self._inner.get(event_path(int(number)))) for number in numbers]
        return [(number, found.value) for number, found in stored if found is not None]

    def published(self, numbers: Iterable[int]) -> None:
        """Remove published events from the outbox. After a crash before that is durable, they are published again."""
        self._inner.commit([Delete(event_path(number)) for number in numbers])

    def snapshot(self) -> Iterator[bytes]:
        """Yield the events of a snapshot: all records, including those of deleted resources.

        Anything may be stored between two events. A record may not be durable when it is yielded; see ``durable``. At
        the end, the oldest deleted resources beyond DELETED_MAX are forgotten.
        """
        deleted: list[tuple[Timestamp, Resource]] = []
        for resource in [resource for resource, _ in self._recorded_values()]:
            record = self.record(resource)
            if record.is_empty:
                continue  # it was forgotten meanwhile
            if record.deleted is not None and not record.exists:
                deleted.append((record.deleted, resource))
            yield MetadataChangeEvent(EventType.SNAPSHOT, resource, self._cluster, self._now_ms(), record).encode()
        outdated = sorted(deleted)[: max(0, len(deleted) - DELETED_MAX)]
        if outdated:
            self._inner.commit([Delete(resource.record_path) for _, resource in outdated])

    # -- refused events -------------------------------------------------------------------------------------------

    def keep_refused(self, event: bytes, reason: str, on_durable: OnDurable) -> None:
        """Keep an event that was refused, for inspection; the oldest beyond REFUSED_MAX are forgotten."""
        numbers = self._inner.children(REFUSED)
        kept = {"time": self._now_ms(), "reason": reason, "event": event[:REFUSED_BYTES_MAX].decode(errors="replace")}
        outdated = numbers[: max(0, len(numbers) + 1 - REFUSED_MAX)]
        put = Put(refused_path(_next_number(numbers)), json.dumps(kept).encode())
        self._inner.commit([*(Delete(refused_path(int(number))) for number in outdated), put], on_durable)

    def refused(self) -> list[dict[str, Any]]:
        """Return the kept events, the oldest first: the time, the reason, and the beginning of the event."""
        return [json.loads(value) for _, value in self._inner.below(REFUSED)]

    # -- records --------------------------------------------------------------------------------------------------

    def record(self, resource: Resource) -> Record:
        """Return the record of a resource; it is empty if no edit is known."""
        stored = self._inner.get(resource.record_path)
        return Record(resource.kind) if stored is None else _record_of(resource, stored.value)

    def records(self) -> Iterator[tuple[Resource, Record]]:
        """Yield all records, including those of deleted resources; nothing may be stored meanwhile."""
        for resource, value in self._recorded_values():
            yield resource, _record_of(resource, value)

    def _recorded_values(self) -> Iterator[tuple[Resource, bytes]]:
        for path, value in self._inner.below(RECORDS):
            resource = resource_at(path.removeprefix(RECORDS))
            if resource is not None:
                yield resource, value

    def adopt(self) -> Generator[None, None, None]:
        """Record the edits that were made while nothing was recorded, in steps.

        A document without a record counts as created at the time of its last change. In other documents, the present
        time counts, because the time of the change of a field is not known.
        """
        found = [
            resource
            for root in SYNCHRONIZED
            for path, _ in self._inner.below(root)
            if (resource := resource_at(path)) is not None and self._rules.covers(resource)
        ]
        deleted = [resource for resource, record in self.records() if record.exists]
        operations: list[Put | Delete] = []
        for resource in dict.fromkeys([*found, *deleted]):
            operations += self._adopted(resource)
            if len(operations) >= ADOPTED_AT_ONCE:
                self._inner.commit(operations)
                operations = []
                yield
        if operations:
            self._inner.commit(operations)

    def _adopted(self, resource: Resource) -> list[Put | Delete]:
        stored, record = self._inner.get(resource.path), self.record(resource)
        if stored is None and resource.kind in _LOCAL_DELETIONS:
            return []
        after = None if stored is None else json.loads(stored.value)
        if stored is not None and after is not None and record.is_empty:
            timestamp = Timestamp(stored.modified_ms, 0, self._cluster)
            self._clock.observe(timestamp)
            edits = {unit: Edit(timestamp, value) for unit, value in own_units(resource.kind, after).items()}
            edited, event_type = Record(resource.kind, timestamp, None, edits), EventType.CREATED
        else:
            edited = self._rules.shared(self._edited(record, normal(resource.kind, record.document()), after))
            event_type = EventType.MODIFIED if after is not None else EventType.DELETED
        if edited.is_empty:
            return []
        return [*self._keep(resource, record.merge(edited)), self._event(event_type, resource, edited)]

    def _keep(self, resource: Resource, record: Record) -> list[Put | Delete]:
        record.forget()
        value = json.dumps(record.to_json(), separators=(",", ":")).encode()
        timestamp = self._clock.newest
        return [Put(resource.record_path, value), Put(CLOCK, json.dumps(timestamp.to_json()).encode())]

    def _document(self, resource: Resource) -> Document | None:
        stored = self._inner.get(resource.path)
        return None if stored is None else json.loads(stored.value)

    def _now_ms(self) -> int:
        return int(self._wall.now() * 1000)


def _record_of(resource: Resource, value: bytes) -> Record:
    return Record.from_json(resource.kind, json.loads(value))


def _edits(known: Record, timestamp: Timestamp, units: Iterable[str], new: Mapping[str, Any]) -> dict[str, Edit]:
    """Return edits that give ``units`` their ``new`` values and replace the known ones."""
    replaced = {unit: edit.timestamp for unit, edit in known.edits.items()}
    return {unit: Edit(timestamp, new.get(unit, REMOVED), replaced.get(unit)) for unit in units}


def _written(resource: Resource, present: Document | None, record: Record) -> list[Put | Delete]:
    """Return the operations that write the document of a record; raises ValueError if it is not valid."""
    valid = _valid(resource.kind, record)
    if not record.exists:
        return [] if present is None else [Delete(resource.path)]
    if present is not None:
        own = OF_EACH_CLUSTER[resource.kind]
        document = {each: value for each, value in valid.to_json().items() if f"/{each}" not in own}
        document |= {each: value for each, value in present.items() if f"/{each}" in own}
        valid = MODELS[resource.kind].model_validate(document)
    return [Put(resource.path, valid.to_bytes())]


def _valid(kind: ResourceType, record: Record) -> Model:
    """Return the document of the edits of a record, whether it exists or not; raises ValueError."""
    units = {unit: edit.value for unit, edit in record.edits.items() if edit.value is not REMOVED}
    if not record.exists and kind is ResourceType.TOPICS:
        units.setdefault(PARTITIONS, 1)  # the creation has not arrived
    return MODELS[kind].model_validate(document_of(units))


def _next_number(numbers: Sequence[str]) -> int:
    """Return the number after the last one."""
    return int(numbers[-1]) + 1 if numbers else 0
