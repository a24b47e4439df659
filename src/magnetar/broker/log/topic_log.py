"""The log of one topic: what is appended to it, where its entries come from, and which of them are damaged."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import DamagedEntriesError, RequestError, ServerError, StorageError
from magnetar.base.position import EARLIEST, Position
from magnetar.broker.log.origin_summaries import OriginSummaries
from magnetar.cursor.ranges import DeletedEntries, Range
from magnetar.geo.origins.annotation import encode_annotation
from magnetar.geo.origins.index import OriginIndex
from magnetar.geo.origins.intervals import IntervalSet
from magnetar.wire.entries import entry as wire_entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.names import TopicName
    from magnetar.broker.environment import Environment
    from magnetar.geo.origins.annotation import Annotation
    from magnetar.ledger.managed_ledger import ManagedLedger
    from magnetar.metadata.policies import RetentionPolicies

    Durable = Callable[[Position, StorageError | None], None]
    """Gets the position of the first entry of a run once the run is durable, or why it never will be."""

log = structlog.get_logger(__name__)

CLOCK_LEAD_MAX_S = 600.0
"""Seconds by which a producer's clock may be ahead of the broker's where messages are looked for by publish time."""

SCAN_ENTRIES, SCAN_BYTES = 500, 1 << 20
"""Entries, and their bytes, that are read at once to find a publish time."""

_ORIGINS_PROPERTY = "magnetar.origins"
"""Managed-ledger property: the newest position of each origin when entries were last trimmed, as JSON."""

_RETURNED_PROPERTY = "magnetar.returned"
"""Managed-ledger property: positions of returned entries (geo/origins/index.py) that were trimmed, as JSON bounds."""


class TopicLog:
    """A managed ledger whose entries have origins. Used on the event loop's thread."""

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
        """Recover where each entry comes from.

        ``appended`` is called when a run has become durable, after whoever appended it; ``refused`` when one could not
        be appended; ``failed`` when the log cannot be written any more.
        """
        self.damaged = DeletedEntries()
        """Entries that were found not to be what was written: nobody gets them, and nobody acknowledges them."""
        trimmed: dict[str, str] = json.loads(ledger.properties.get(_ORIGINS_PROPERTY, "{}"))
        self.index = OriginIndex(
            environment.cluster,
            {cluster: Position.parse(position) for cluster, position in trimmed.items()},
            environment.loss_boundaries,
            _parse_bounds(ledger.properties.get(_RETURNED_PROPERTY, "[]")),
        )
        self.origins = OriginSummaries(environment.metadata, name, ledger)
        self._environment = environment
        self._name = name
        self._ledger = ledger
        self._appended = appended
        self._refused = refused
        self._failed = failed
        self._failure: StorageError | None = None
        for first, (count, origin) in self.origins.recover():
            self._index(first, count, origin)

    # -- what comes in ------------------------------------------------------------------------------------------

    def append(self, entries: list[bytes], durable: Durable, origin: Annotation | None = None) -> bool:
        """Append a run, of this cluster where ``origin`` says nothing else; False: it was refused.

        ``durable`` is called in any case, and never before this returns. After a failed write nothing is appended until
        the topic has started over from its log: what is in memory is ahead of the log, and the positions that failed
        would be given to other entries.
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
                self._index(first, len(entries), origin)
                return True
        environment.loop.call_soon(durable, EARLIEST, failure)
        self._refused()
        return False

    def barrier(self, done: Callable[[StorageError | None], None]) -> None:
        """Call ``done`` once everything appended until now is durable, or with why something never will be."""
        self._environment.barrier(lambda error: done(error or self._failure))

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

    def _index(self, first: Position, count: int, origin: Annotation | None) -> None:
        if origin is None:
            self.index.append(self._environment.cluster, first, count, first)
            return
        is_returned = origin.cluster == self._environment.cluster
        for extent in origin.extents:
            if is_returned:
                self.index.append_returned(extent.origin_first, extent.count, first, extent.floor)
            else:
                self.index.append(origin.cluster, extent.origin_first, extent.count, first, extent.floor)
            first = first._replace(entry_id=first.entry_id + extent.count)

    # -- looking ------------------------------------------------------------------------------------------------

    def before_first(self) -> Position:
        """The position before the oldest entry there is."""
        return self._ledger.previous_position(self._ledger.first_position)

    async def read_entry(self, position: Position) -> bytes:
        """One entry; raises RequestError if there is none at ``position``."""
        if not self._ledger.contains(position) or position > self._ledger.last_confirmed_entry:
            raise RequestError(ServerError.MetadataError, f"Message id {position} not found")
        entries = self._ledger.read_cached(position, 1, 1) or await self._ledger.read(position, 1, 1)
        return entries[0][1]

    async def last_message(self) -> tuple[Position, int | None]:
        """The newest durable entry and the size of its batch (None: no batch); ``-1:-1`` when the topic is empty."""
        position = self._ledger.last_confirmed_entry
        if not self._ledger.contains(position):
            return EARLIEST, None
        metadata = wire_entry.parse_metadata(await self.read_entry(position))
        return position, metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else None

    async def position_before_time(self, time_ms: int) -> Position:
        """The position before the first entry that was published at ``time_ms`` or later; the last one if none was.

        Publish times are the producers' and in no order, so the log is read entry by entry. Reading begins at the first
        entry that may match: a publish time that is more than CLOCK_LEAD_MAX_S ahead of the time at which its entry was
        appended is not believed.
        """
        ledger = self._ledger
        age_s = max(self._environment.clock.now() - time_ms / 1000, 0.0)
        before = max(self.before_first(), ledger.position_older_than(age_s + CLOCK_LEAD_MAX_S))
        last = ledger.last_confirmed_entry
        while before < last:
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
        """Entries turned out to be damaged: say so once, and have consumers sent what lies behind them."""
        found = Range(Position(error.ledger_id, error.first), Position(error.ledger_id, error.end - 1))
        if self.damaged.add_range(found):
            first, last = map(str, found)
            log.error("entries_damaged", topic=str(self._name), first=first, last=last, error=str(error))

    # -- what goes ----------------------------------------------------------------------------------------------

    def trim(
        self, consumed_through: Position, now_ms: int, retained: RetentionPolicies, *, by_age: bool
    ) -> Position | None:
        """Delete ledgers that everybody has acknowledged and that ``retained`` does not keep.

        Without ``by_age`` those whose time is over stay. Returns the first position left if anything was deleted; the
        index no longer knows what was before it.
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
        """What is trimmed can no longer tell how far each origin has come."""
        positions = self.index.positions_at(trimmed_through)
        kept = {_ORIGINS_PROPERTY: json.dumps({cluster: str(position) for cluster, position in positions.items()})}
        returned = self.index.returned_through(trimmed_through)
        if returned:
            kept[_RETURNED_PROPERTY] = json.dumps([str(bound) for bound in returned.bounds(0, len(returned))])
        return kept


def _parse_bounds(text: str) -> IntervalSet:
    return IntervalSet.from_bounds([Position.parse(each) for each in json.loads(text)])
