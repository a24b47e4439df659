"""A metadata store that records edits of synchronized resources, and their events, in the transaction of the change.

So a crash loses neither an edit's time nor its event. The events wait in an outbox until they are published. Edits that
another cluster made are merged by ``apply``, which writes no event.
"""

from __future__ import annotations

import json
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import structlog

from magnetar.base.errors import AdminError
from magnetar.base.limits import Limit
from magnetar.metadata.awaiting import Commit
from magnetar.metadata.forwarding import ForwardingMetadataStore
from magnetar.metadata.store import Delete, Put
from magnetar.metasync.arrivals import Arrivals
from magnetar.metasync.events import EventError, EventType, MetadataChangeEvent
from magnetar.metasync.history import History, local_edit
from magnetar.metasync.local.decisions import accept_all, adopted, edited, merged
from magnetar.metasync.local.holdings import Holdings, compact, next_number
from magnetar.metasync.local.scope import is_local, named_units
from magnetar.metasync.places import OUTBOX, REFUSED, RULES, SYNCHRONIZED, event_path, refused_path, resource_at
from magnetar.metasync.records import UNITS_MAX
from magnetar.metasync.rules import Rules, without_own
from magnetar.metasync.timestamps import Timestamp, check_time

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from magnetar.base.world import Clock
    from magnetar.metadata.store import MetadataStore, OnDurable
    from magnetar.metasync.local.decisions import Check, Holding
    from magnetar.metasync.places import Resource
    from magnetar.metasync.records import Record
    from magnetar.metasync.units import Document

log = structlog.get_logger(__name__)

REFUSED_MAX = 100
"""Maximum number of refused events that are kept."""

REFUSED_BYTES_MAX = 4_096
"""Maximum number of bytes of a refused event that are kept."""

REASON_LENGTH_MAX = 1_000
"""Maximum number of characters of the reason that are kept."""

DELETED_MAX = 10_000
"""Maximum number of deleted resources whose records are kept.

If older ones are forgotten, an event or a snapshot from before the deletion could restore the resource.
"""

RECORD_BYTES_MAX = 2 << 20
"""Maximum number of bytes of the newest edits of a resource. A document has half of them at most."""

_SHARED = f"can be synchronized ({Limit.METADATA_UNITS})"

ADOPTED_AT_ONCE = 100
"""Maximum number of resources whose first records are written in one transaction."""


class SynchronizedStore(ForwardingMetadataStore):
    """See MetadataStore. Used on the event loop's thread."""

    def __init__(
        self, inner: MetadataStore, cluster: str, clock: Clock, rules: Rules, check: Check = accept_all
    ) -> None:
        """Record edits of ``cluster`` in ``inner``, at the times of ``clock``; ``rules`` decides which are shared.

        ``check`` refuses values of other clusters.
        """
        super().__init__(inner)
        self._rules = rules
        self._cluster = cluster
        self.holdings = Holdings(inner, cluster, clock, rules, check)
        self.arrivals = Arrivals(inner)
        self.history = History(inner)
        self._forgotten: Timestamp | None = None
        """The newest deletion that the last snapshot forgot."""
        self.conflicts = 0
        """Number of edits that lost against a concurrent one."""

    def commit(self, operations: Sequence[Put | Delete], on_durable: OnDurable | None = None) -> list[int]:
        """See MetadataStore. Changes of synchronized resources are recorded as edits made in this cluster now.

        Raises AdminError if a resource would exceed UNITS_MAX or RECORD_BYTES_MAX, or an edit EVENT_BYTES_MAX.

        A topic that was deleted here goes on in other clusters, and edits of a resource may arrive before its creation.
        If it is created here, its document is completed with the known edits.
        """
        recorded = [each for operation in operations for each in self._recorded(operation)]
        versions = self._inner.commit([*operations, *recorded], on_durable)
        return versions[: sum(isinstance(each, Put) for each in operations)]

    async def durable(self) -> None:
        """Wait until all earlier commits are durable; raises StorageError."""
        await Commit(self._inner, [])

    # -- changes --------------------------------------------------------------------------------------------------

    def _recorded(self, operation: Put | Delete) -> list[Put | Delete]:
        """Return the operations that record a change; none if the resource is not synchronized, or is the same."""
        resource = resource_at(operation.path)
        if resource is None or not self._rules.covers(resource):
            return []
        held = self.holdings.held(resource)
        document = json.loads(operation.value) if isinstance(operation, Put) else None
        given = self.holdings.circumstances(resource)
        # The other clusters could not use what is in a tenant or a namespace that they do not have.
        local = is_local() or (not held.record.exists and self.holdings.is_in_local(resource))
        after, published = edited(held, document, given, named_units(), is_local=local)
        excess, written = _too_many(held, after), list[Put | Delete]()
        if excess is None:
            try:
                written = self.holdings.operations(replace(held, document=document), after, published)
            except EventError as error:
                raise AdminError(HTTPStatus.PRECONDITION_FAILED, str(error), Limit.METADATA_EVENT_SIZE) from error
            excess = self._too_large(held, written)
        if excess is not None:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, excess, Limit.METADATA_UNITS)
        if document != held.document and published.is_empty and (local or held.is_local):
            written += self._kept_locally(held, document)
        return [*written, *self._kept(held, published)]

    def _kept_locally(self, before: Holding, document: Document | None) -> list[Put | Delete]:
        """Return the operations that keep an edit for this cluster only in the history of a resource."""
        resource, now_ms = before.resource, self.holdings.now_ms()
        edit = local_edit(resource.kind, before.document, document, self.holdings.clock.next(now_ms), now_ms)
        return [] if edit is None else [*self.history.kept(resource, [edit]), self.holdings.put_clock()]

    def apply(self, event: MetadataChangeEvent, on_durable: OnDurable) -> bool:
        """Merge the edits of an event; return whether any is new. ``on_durable`` is told when they are durable.

        Raises RequestError for edits that are too far in the future, ValueError for a document that is not valid.
        """
        now_ms, resource, operations = self.holdings.now_ms(), event.resource, list[Put | Delete]()
        for timestamp in (*event.record.timestamps(), Timestamp(event.update_time_ms, 0, event.source_cluster)):
            check_time(timestamp, now_ms)
        held = after = self.holdings.held(resource)
        if self._rules.covers(resource):
            after = merged(held, event.record, self.holdings.circumstances(resource))
            if (excess := _too_many(held, after)) is not None:
                raise EventError(excess)
            arrived = event.record if held.document is None else without_own(event.record)
            operations += self._kept(held, arrived)
        is_news = after.record != held.record
        if is_news:
            for timestamp in event.record.timestamps():
                self.holdings.clock.observe(timestamp)
            written = self.holdings.operations(held, after)
            if (excess := self._too_large(held, written)) is not None:
                raise EventError(excess)
            operations += written
        operations += self.arrivals.note(event)
        if operations:
            self._inner.commit(operations, on_durable)
        else:
            self._inner.barrier(on_durable)
        return is_news

    def _too_large(self, before: Holding, written: Sequence[Put | Delete]) -> str | None:
        """Return why the edits of a resource would be too large; None if they are not, or not larger than before."""
        path, name = before.resource.record_path, before.resource.name
        size = max((len(each.value) for each in written if isinstance(each, Put) and each.path == path), default=0)
        if size > RECORD_BYTES_MAX:
            stored = self._inner.get(path)
            if stored is None or size > len(stored.value):
                return f"the edits of {name} would have {size} bytes, at most {RECORD_BYTES_MAX} {_SHARED}"
        return None

    def _kept(self, before: Holding, edits: Record) -> list[Put | Delete]:
        """Return the operations that keep edits in the history of a resource."""
        operations, lost_count = self.history.recorded(
            before.resource, before.record, edits, before.document, self.holdings.now_ms()
        )
        self.conflicts += lost_count
        return operations

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
        """Yield the events of a snapshot: all records that are shared, including those of deleted resources.

        Anything may be stored between two events. A record may not be durable when it is yielded; see ``durable``. At
        the end, the oldest deleted resources beyond DELETED_MAX are forgotten. The next snapshots do not contain them.
        """
        deleted: list[tuple[Timestamp, Resource]] = []
        for resource in self.holdings.recorded():
            record, now_ms = self.record(resource), self.holdings.now_ms()
            if record.is_empty:
                continue  # it was forgotten meanwhile
            if record.deleted is not None and not record.exists:
                deleted.append((record.deleted, resource))
                if self._forgotten is not None and record.deleted <= self._forgotten:
                    continue  # an event of the last snapshot brought it back
            if self._rules.includes(resource):
                shared = self._rules.shared(resource, record, is_new=True)
                snapshot = MetadataChangeEvent(EventType.SNAPSHOT, resource, self._cluster, now_ms, shared)
                yield from snapshot.parts(_log_omitted)
        outdated = sorted(deleted)[: max(0, len(deleted) - DELETED_MAX)]
        if outdated:
            self._forgotten = outdated[-1][0]
            operations: list[Put | Delete] = [Delete(resource.record_path) for _, resource in outdated]
            operations += [each for _, resource in outdated for each in self.history.forgotten(resource)]
            self._inner.commit(operations)

    # -- refused events -------------------------------------------------------------------------------------------

    def keep_refused(self, event: bytes, reason: str, on_durable: OnDurable) -> None:
        """Keep an event that was refused, for inspection; the oldest beyond REFUSED_MAX are forgotten."""
        numbers = self._inner.children(REFUSED)
        kept = {
            "time": self.holdings.now_ms(),
            "reason": reason[:REASON_LENGTH_MAX],
            "event": event[:REFUSED_BYTES_MAX].decode(errors="replace"),
        }
        outdated = numbers[: max(0, len(numbers) + 1 - REFUSED_MAX)]
        put = Put(refused_path(next_number(numbers)), json.dumps(kept).encode())
        self._inner.commit([*(Delete(refused_path(int(number))) for number in outdated), put], on_durable)

    def refused(self) -> list[dict[str, Any]]:
        """Return the kept events, the oldest first: the time, the reason, and the beginning of the event."""
        return [json.loads(value) for _, value in self._inner.below(REFUSED)]

    # -- records --------------------------------------------------------------------------------------------------

    def record(self, resource: Resource) -> Record:
        """Return the record of a resource; it is empty if no edit is known."""
        return self.holdings.record(resource)

    def records(self) -> Iterator[tuple[Resource, Record]]:
        """Yield all records, including those of deleted resources; nothing may be stored meanwhile."""
        return self.holdings.records()

    def adopt(self) -> Generator[None, None, None]:
        """Record the edits that were made while nothing was recorded, and apply rules that were changed, in steps.

        A document without a record counts as created at the time of its last change. In other documents, the present
        time counts, because the time of the change of a field is not known.
        """
        stored = self._inner.get(RULES)
        previous = replace(self._rules, included=(), excluded=())
        if stored is not None:
            previous = Rules.from_json(self._rules.own_namespace, json.loads(stored.value))
        found = [
            resource
            for root in SYNCHRONIZED
            for path, _ in self._inner.below(root)
            if (resource := resource_at(path)) is not None and self._rules.covers(resource)
        ]
        known = [resource for resource, record in self.records() if record.exists]
        operations: list[Put | Delete] = []
        for resource in dict.fromkeys([*found, *known]):
            operations += self._adopted(resource, previous)
            if len(operations) >= ADOPTED_AT_ONCE:
                self._inner.commit(operations)
                operations = []
                yield
        rules = compact(self._rules.to_json())
        if stored is None or stored.value != rules:
            operations.append(Put(RULES, rules))
        if operations:
            self._inner.commit(operations)

    def _adopted(self, resource: Resource, previous: Rules) -> list[Put | Delete]:
        held, given = self.holdings.held(resource), self.holdings.circumstances(resource)
        after, published = adopted(held, previous, self.holdings.created(resource), given)
        for timestamp in published.timestamps():
            self.holdings.clock.observe(timestamp)
        return [*self.holdings.operations(held, after, published, _log_omitted), *self._kept(held, published)]


def _log_omitted(error: EventError) -> None:
    """Log an edit from before the limit, or before the synchronization, that stays in this cluster."""
    log.warning("metadata_edit_not_shared", reason=str(error))


def _too_many(before: Holding, after: Holding) -> str | None:
    """Return why a resource would have too many units; None if it has not, or not more than before."""
    count = len(after.record.edits)
    if count <= UNITS_MAX or count <= len(before.record.edits):
        return None
    name = before.resource.name
    return f"{name} would have {count} fields and keys with those that were removed, at most {UNITS_MAX} {_SHARED}"
