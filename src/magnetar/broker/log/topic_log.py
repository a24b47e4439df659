"""The log of one topic: appends, origins of entries, and damaged entries."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import DamagedEntriesError, RequestError, ServerError, StorageError
from magnetar.base.position import EARLIEST, Position
from magnetar.broker.log.origin_summaries import OriginSummaries
from magnetar.broker.log.termination import Termination
from magnetar.broker.migration_fence.fence import MigrationFence
from magnetar.cursor.ranges import DeletedEntries, Range
from magnetar.geo.origins.annotation import encode_annotation
from magnetar.geo.origins.former_ids import FormerIds, reason_against
from magnetar.geo.origins.index import OriginIndex
from magnetar.geo.origins.intervals import IntervalSet
from magnetar.wire.entries import entry as wire_entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.errors import MagnetarError
    from magnetar.base.names import TopicName
    from magnetar.broker.environment import Environment
    from magnetar.geo.origins.annotation import Annotation
    from magnetar.ledger.managed_ledger import ManagedLedger
    from magnetar.metadata.policy.values import RetentionPolicies

    Durable = Callable[[Position, StorageError | None], None]
    """Called with the position of the first entry of a durable run, or with the error if the write failed."""

log = structlog.get_logger(__name__)

CLOCK_LEAD_MAX_S = 600.0
"""Seconds by which a producer's clock may be ahead of the broker's in searches by publish time."""

SCAN_ENTRIES, SCAN_BYTES = 500, 1 << 20
"""Entries, and bytes, of one read in a search by publish time."""

_ORIGINS_PROPERTY = "magnetar.origins"
"""Managed-ledger property: the newest position of each origin when entries were last trimmed, as JSON."""

_FIRST_LEDGER_PROPERTY = "magnetar.first.ledger"
"""Managed-ledger property: the id of the topic's first ledger, stored when it is trimmed."""

_FORMER_PROPERTY = "magnetar.former"
"""Managed-ledger property: the cluster whose message ids clients may bring, and the ledger id below which they are."""

_RETURNED_PROPERTY = "magnetar.returned"
"""Managed-ledger property: positions of returned entries (geo/origins/index.py) that were trimmed, as JSON bounds."""


class TopicLog:
    """The managed ledger of a topic, with the origins of its entries. Used on the event loop's thread."""

    def __init__(
        self,
        environment: Environment,
        name: TopicName,
        ledger: ManagedLedger,
        *,
        appended: Callable[[Position, list[bytes]], None],
        refused: Callable[[], None],
        failed: Callable[[StorageError], None],
    ) -> None:
        """Recover the origins of all entries.

        ``appended`` is called when a run has become durable, after the callback of its append; ``refused`` if a run
        could not be appended; ``failed`` if the log can no longer be written.
        """
        self.termination = Termination(environment, name, ledger)
        self.migration_fence = MigrationFence(environment, name, ledger)
        self.damaged = DeletedEntries()
        """Damaged entries; they are neither dispatched nor acknowledged."""
        trimmed: dict[str, str] = json.loads(ledger.properties.get(_ORIGINS_PROPERTY, "{}"))
        self.index = OriginIndex(
            environment.cluster,
            {cluster: Position.parse(position) for cluster, position in trimmed.items()},
            environment.loss_boundaries,
            _parse_bounds(ledger.properties.get(_RETURNED_PROPERTY, "[]")),
        )
        self.former = _parse_former(self.index, ledger.properties.get(_FORMER_PROPERTY))
        """Message ids that clients got in another cluster; None if the topic has no former cluster."""
        self.origins = OriginSummaries(environment.metadata, name, ledger)
        self._last_message: tuple[Position, int | None] = EARLIEST, None
        """Newest requested entry and its batch size, cached because thousands of clients may request it at once."""
        self._environment = environment
        self._name = name
        self._ledger = ledger
        self._appended = appended
        self._refused = refused
        self._failed = failed
        self._failure: StorageError | None = None
        for first, (count, origin) in self.origins.recover():
            if origin is None:
                self.index.append_own(first, count)
            else:
                self._index(first, origin)

    # -- appending ----------------------------------------------------------------------------------------------

    def append(self, entries: list[bytes], durable: Durable, origin: Annotation | None = None) -> bool:
        """Append a run, which belongs to this cluster unless ``origin`` is given; return False if it was refused.

        ``durable`` is called in any case, but not before this method returns. After a failed write, nothing is appended
        until the topic is loaded again: the state in memory is ahead of the log, and the failed positions would be
        given to other entries.
        """
        environment, annotation = self._environment, b""
        if origin is not None:
            annotation = encode_annotation(origin.cluster, origin.extents, link_start=origin.link_start)
        failure = self._failure or environment.store.state.refusal
        if failure is None:
            try:
                first = self._ledger.append(entries, self._when_durable(entries, durable, annotation), annotation)
            except StorageError as error:
                log.exception("publish_failed", topic=str(self._name))
                failure = error
            else:
                if origin is None:
                    self.index.append_own(first, len(entries))
                else:
                    self._index(first, origin)
                return True
        environment.loop.call_soon(durable, EARLIEST, failure)
        self._refused()
        return False

    def fence(self, error: MagnetarError) -> None:
        """Append no more, and fail the barriers that have not been reported, because of ``error``."""
        if self._failure is None:
            self._failure = StorageError(str(error))

    @property
    def failure(self) -> StorageError | None:
        """Reason why the log confirms nothing more until the topic is loaded again; None if it does."""
        return self._failure or self._ledger.failure

    def barrier(self, done: Callable[[StorageError | None], None]) -> None:
        """Call ``done`` when all runs appended until now are durable, or with the error of one that failed."""
        self._environment.barrier(lambda error: done(error or self.failure))

    def behind_appends(self, done: Callable[[StorageError | None], None]) -> None:
        """As ``barrier``, in the order of the appends: it waits for no metadata that they do not wait for."""
        self._ledger.barrier(lambda error: done(error or self._failure))

    def _when_durable(self, entries: list[bytes], durable: Durable, annotation: bytes) -> Durable:
        def confirmed(first: Position, error: StorageError | None) -> None:
            durable(first, error)
            if error is None:
                self.origins.appended(first, len(entries), annotation)
                self._appended(first, entries)
            elif self._failure is None:
                log.error("publish_failed", topic=str(self._name), error=str(error))
                self._failure = error
                self._failed(error)

        return confirmed

    def _index(self, first: Position, origin: Annotation) -> None:
        is_returned = origin.cluster == self._environment.cluster
        for extent in origin.extents:
            if is_returned:
                self.index.append_returned(extent.origin_first, extent.count, first, extent.floor)
            else:
                self.index.append(origin.cluster, extent.origin_first, extent.count, first, extent.floor)
            first = first._replace(entry_id=first.entry_id + extent.count)

    # -- reading ------------------------------------------------------------------------------------------------

    def before_first(self) -> Position:
        """Position before the oldest entry."""
        return self._ledger.previous_position(self._ledger.first_position)

    async def read_entry(self, position: Position) -> bytes:
        """Return one entry; raises RequestError if there is none at ``position``."""
        if not self._ledger.contains(position) or position > self._ledger.last_confirmed_entry:
            raise RequestError(ServerError.MetadataError, f"Message id {position} not found")
        entries = self._ledger.read_cached(position, 1, 1) or await self._ledger.read(position, 1, 1)
        return entries[0][1]

    async def last_message(self) -> tuple[Position, int | None]:
        """Return the newest durable entry and its batch size (None: no batch); ``-1:-1`` if the topic is empty."""
        position = self._ledger.last_confirmed_entry
        if not self._ledger.contains(position):
            return EARLIEST, None
        if self._last_message[0] != position:
            entry = self._ledger.read_cached(position, 1, 1)
            if entry is None:
                async with self._environment.searching:
                    if self._last_message[0] < position:
                        self._last_message = position, _batch_size(await self.read_entry(position))
            else:
                self._last_message = position, _batch_size(entry[0][1])
        return self._last_message

    async def position_before_time(self, time_ms: int) -> Position:
        """Return the position before the first entry published at ``time_ms`` or later; the last one without a match.

        Producers set publish times, in any order, so the log is read entry by entry. The search begins at the first
        possible match: a publish time that is more than CLOCK_LEAD_MAX_S ahead of the append time is not trusted.
        """
        ledger = self._ledger
        age_s = max(self._environment.clock.now() - time_ms / 1000, 0.0)
        before = max(self.before_first(), ledger.position_older_than(age_s + CLOCK_LEAD_MAX_S))
        last = ledger.last_confirmed_entry
        while before < last:
            async with self._environment.searching:
                await self._environment.slices.begin()
                try:
                    read = await ledger.read(ledger.next_position(before), SCAN_ENTRIES, SCAN_BYTES)
                except DamagedEntriesError as error:
                    self.note_damage(error)
                    before = Position(error.ledger_id, error.end - 1)
                    continue
                if not read:  # the rest was trimmed meanwhile
                    break
                for position, entry in read:
                    if wire_entry.publish_time_ms(entry) >= time_ms:
                        return ledger.previous_position(position)
                before = read[-1][0]
                await asyncio.sleep(0)
        return before

    def note_damage(self, error: DamagedEntriesError) -> None:
        """Record damaged entries: log them once, and let dispatch continue after them."""
        found = Range(Position(error.ledger_id, error.first), Position(error.ledger_id, error.end - 1))
        if self.damaged.add_range(found):
            first, last = map(str, found)
            log.error("entries_damaged", topic=str(self._name), first=first, last=last, error=str(error))

    # -- the former cluster -------------------------------------------------------------------------------------

    @property
    def first_ledger_id(self) -> int | None:
        """Id of the first ledger that the topic ever had; None without any, and if an earlier release trimmed it."""
        properties = self._ledger.properties
        if _FIRST_LEDGER_PROPERTY in properties:
            return int(properties[_FIRST_LEDGER_PROPERTY])
        ledgers = self._ledger.ledgers()
        return ledgers[0].ledger_id if ledgers and _ORIGINS_PROPERTY not in properties else None

    def has_published(self, position: Position) -> bool:
        """Return whether a position of this cluster is one of the topic, and not of a deleted one with its name."""
        first = self.first_ledger_id
        if first is None:  # unknown, unless there is no ledger yet
            return bool(self._ledger.ledgers())
        return position.ledger_id >= first

    def set_former(self, cluster: str, durable: Callable[[StorageError | None], None]) -> None:
        """Take message ids below those of this topic for ids of ``cluster``; ``durable`` is called with the outcome.

        Raises RequestError with NotAllowedError if these ids cannot be told from those given here.
        """
        first = self.first_ledger_id
        reason = reason_against(self.index, cluster, first)
        if reason is not None or first is None:
            message = f"message ids of {cluster} cannot be translated: {reason}"
            raise RequestError(ServerError.NotAllowedError, message)
        self.former = FormerIds(self.index, cluster, first)
        value = json.dumps({"cluster": cluster, "below": first})
        self._ledger.set_property(_FORMER_PROPERTY, value, on_durable=durable)

    def remove_former(self) -> None:
        """Translate no message ids any more; durable with the metadata."""
        self.former = None
        self._ledger.remove_property(_FORMER_PROPERTY)

    # -- trimming -----------------------------------------------------------------------------------------------

    def trim(
        self, consumed_through: Position, now_ms: int, retained: RetentionPolicies, *, by_age: bool
    ) -> Position | None:
        """Delete ledgers that all cursors have passed and that ``retained`` does not keep.

        Without ``by_age``, ledgers whose retention time has passed stay. Returns the first remaining position if
        a ledger was deleted; the index of origins no longer includes earlier entries.
        """
        minutes = retained.retentionTimeInMinutes if by_age or retained.retentionTimeInMinutes == 0 else -1
        retention = minutes, retained.retentionSizeInMB
        first = self._ledger.trim(consumed_through, now_ms, retention, self._remember_origins)
        if first is not None:
            self.index.trim(first)
            self.damaged.discard_through(self._ledger.previous_position(first))
            self.origins.trimmed()
        self.origins.save()
        self._ledger.save()
        return first

    def _remember_origins(self, trimmed_through: Position) -> dict[str, str]:
        """Store the newest position of each origin, since trimmed entries no longer show it."""
        positions = self.index.positions_at(trimmed_through)
        kept = {_ORIGINS_PROPERTY: json.dumps({cluster: str(position) for cluster, position in positions.items()})}
        if self.first_ledger_id is not None:
            kept[_FIRST_LEDGER_PROPERTY] = str(self.first_ledger_id)
        returned = self.index.returned_through(trimmed_through)
        if returned:
            kept[_RETURNED_PROPERTY] = json.dumps([str(bound) for bound in returned.bounds(0, len(returned))])
        return kept


def _parse_former(index: OriginIndex, text: str | None) -> FormerIds | None:
    if text is None:
        return None
    stored = json.loads(text)
    return FormerIds(index, stored["cluster"], int(stored["below"]))


def _parse_bounds(text: str) -> IntervalSet:
    return IntervalSet.from_bounds([Position.parse(each) for each in json.loads(text)])


def _batch_size(entry: bytes) -> int | None:
    """Return the number of messages of a batch; None if the entry is no batch."""
    metadata = wire_entry.parse_without_lists(entry)
    return metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else None
