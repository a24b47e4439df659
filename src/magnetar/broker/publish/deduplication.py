"""Deduplication of one topic (PIP-6): messages that a producer sends again are stored once.

The state of the producers is attached to the cursor ``pulsar.dedup``, as deltas and checkpoints, each with the position
of the log that it covers. This position is also the cursor's mark-delete position, which prevents later entries from
being trimmed and has no other effect. A start reads only the entries after the newest snapshot.

A duplicate is answered after all earlier writes. Then the original message is durable, or the topic has failed and the
duplicate fails as well. So the answer is always final, and receipts keep the order of SENDs.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Protocol

import structlog

from magnetar.base.errors import RequestError, ServerError, StorageError
from magnetar.base.limits import Limit
from magnetar.base.position import EARLIEST, Position
from magnetar.base.tasks import start_task
from magnetar.broker.log.interfaces import LoggedTopic
from magnetar.broker.publish.client_producer import ClientProducer
from magnetar.broker.publish.deduplication_replay import replay
from magnetar.broker.publish.entry_sequence_ids import completed_by, highest_in
from magnetar.broker.publish.judged_run import JudgedRun, answer_run, judge_run
from magnetar.broker.publish.producer import answer_failed, answer_stored
from magnetar.broker.publish.sequence_ids import NO_SEQUENCE_ID, SEQUENCE_ID_MAX, UNKNOWN_PRODUCER, SequenceIds, Verdict
from magnetar.wire.entries.entry import is_compressed
from magnetar.wire.links import DEDUPLICATION_CURSOR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from magnetar.broker.publish.interfaces import Producer, SendHead, StoringProducer
    from magnetar.cursor.cursor import Cursor
    from magnetar.cursor.store import CursorStore
    from magnetar.wire.proto import pulsar_api_pb2 as pb

log = structlog.get_logger(__name__)


class Status(Enum):
    """Value of ``deduplicationStatus`` in the topic's stats."""

    INITIALIZED = "Initialized"
    RECOVERING = "Recovering"
    ENABLED = "Enabled"
    DISABLED = "Disabled"
    FAILED = "Failed"


class DeduplicatedTopic(LoggedTopic, Protocol):
    """The topic."""

    @property
    def cursors(self) -> CursorStore:
        """The cursors, one of which has the snapshots."""
        ...

    @property
    def producers(self) -> Mapping[str, Producer]:
        """The connected producers, by name."""
        ...


class Deduplication:
    """Deduplication of one topic. Used on the event loop's thread."""

    def __init__(self, topic: DeduplicatedTopic) -> None:
        """Create it; disabled until ``apply``."""
        self.status = Status.INITIALIZED
        self.sequence_ids: SequenceIds | None = None
        """Sequence ids of the producers; None while deduplication is off."""
        self.cursor: Cursor | None = None
        self.duplicates = 0
        """Duplicates that were not stored, since the topic was loaded."""
        self._topic = topic
        self._environment = topic.environment
        self._recovery: asyncio.Task[None] | None = None
        self._failure: str | None = None
        self._untold: set[str] = set()
        """Producers that connected while deduplication was off, so that they do not know their last sequence id, and
        had not published when it was enabled. Their clients may have numbered messages from the start again, so the
        messages in the log do not count."""
        self._entries_since = 0
        """Entries that became durable since the last snapshot."""
        self._snapshot_at = self._environment.clock.monotonic()
        self._accounted = EARLIEST
        """Position of the log that the newest snapshot covers."""

    # --- on and off ------------------------------------------------------------------------------------------------

    def apply(self, *, enabled: bool) -> None:
        """Enable or disable deduplication; when enabled, the producers are known after ``recovered`` returns."""
        if enabled and self.sequence_ids is None:
            self._enable()
        elif not enabled and self.status is not Status.DISABLED:
            self._disable()

    def _enable(self) -> None:
        cursors, ledger = self._topic.cursors, self._topic.ledger
        self.cursor = cursors.open(DEDUPLICATION_CURSOR)
        if self.cursor is None:
            self.cursor = cursors.create(DEDUPLICATION_CURSOR, self._topic.log.before_first())
        ids = SequenceIds()
        self._accounted = ids.load(self.cursor.attachments, self._environment.clock.monotonic())
        self.cursor.checkpoint_attachment = lambda: ids.checkpoint(self._accounted)
        for name, producer in self._topic.producers.items():
            ids.joined(name)
            if isinstance(producer, ClientProducer) and not producer.messages_in:
                self._untold.add(name)
        self.sequence_ids = ids
        self._environment.totals.add_deduplicated(self._topic.name.namespace_name, 0)
        if self._accounted >= ledger.last_position:
            self.status = Status.ENABLED
        else:
            self._recover()

    def _disable(self) -> None:
        self._stop_recovery()
        if self.cursor is not None:
            self.cursor.close()
        self.sequence_ids = self.cursor = None
        self._untold.clear()
        self._topic.cursors.delete(DEDUPLICATION_CURSOR)
        self.status = Status.DISABLED

    @property
    def is_ready(self) -> bool:
        """Whether producers may be admitted: deduplication is off, or recovered."""
        return self.status in (Status.DISABLED, Status.ENABLED)

    async def recovered(self) -> None:
        """Return when ``is_ready``; raises RequestError if the log cannot be read. A further call reads it again."""
        if self.status is Status.FAILED:
            self._recover()
        while self._recovery is not None:
            await asyncio.wait([self._recovery])
        if self.status is Status.FAILED:
            message = f"deduplication of {self._topic.name} cannot read the log: {self._failure}"
            raise RequestError(ServerError.PersistenceError, message)

    def _recover(self) -> None:
        self.status = Status.RECOVERING
        name = f"deduplication of {self._topic.name}"
        self._recovery = start_task(self._environment.loop, self._run_recovery(), name)

    async def _run_recovery(self) -> None:
        ids = self.sequence_ids
        assert ids is not None
        try:
            replayed = await replay(self._topic, ids, self._accounted, self._untold)
        except StorageError as error:
            self._failed(str(error))
        except Exception as error:
            # Otherwise the topic would stay in recovery, and producers would wait forever.
            self._failed(repr(error))
            raise
        else:
            self._entries_since += replayed
            self.status = Status.ENABLED
            log.info("deduplication_recovered", topic=str(self._topic.name), entries=replayed)
            if self._untold:  # a restart must not count them either
                self._untold.clear()
                self.snapshot()
        finally:
            if self._recovery is asyncio.current_task():  # otherwise this one was cancelled, and another may have begun
                self._recovery = None

    def _failed(self, reason: str) -> None:
        self._failure = reason
        self.status = Status.FAILED
        log.warning("deduplication_failed", topic=str(self._topic.name), error=reason)

    def _stop_recovery(self) -> None:
        if self._recovery is not None:
            self._recovery.cancel()
            self._recovery = None

    # --- producers -------------------------------------------------------------------------------------------------

    def joined(self, name: str) -> None:
        """Note that a client's producer was admitted."""
        if self.sequence_ids is not None:
            self.sequence_ids.joined(name)

    def left(self, name: str) -> None:
        """Note that a client's producer has left."""
        if self.sequence_ids is not None:
            self.sequence_ids.left(name, self._environment.clock.monotonic())

    def last_sequence_id(self, name: str) -> int:
        """Return the producer's highest durable sequence id; -1 if there is none, or if deduplication is off."""
        return UNKNOWN_PRODUCER if self.sequence_ids is None else self.sequence_ids.persisted(name)

    def publish(self, producer: StoringProducer, heads: Sequence[SendHead], entries: list[bytes]) -> int:
        """Append the new messages of a run, and answer all SENDs in order; return the number of new messages."""
        ids, name, note = self.sequence_ids, producer.options.name, self._environment.limit_hits.note
        assert ids is not None
        if self.status is not Status.ENABLED:  # the sequence ids are not known yet, and no receipt was sent
            ends = [highest_in(entry, head, note) for head, entry in zip(heads, entries, strict=True) if head[2]]
            highest = max([ids.pushed(name), *ends])
            return self._append(ids, producer, heads, entries, highest)
        highest = ids.pushed(name)
        for (sequence_id, highest_sequence_id, num_messages), entry in zip(heads, entries, strict=True):
            if not highest < sequence_id <= SEQUENCE_ID_MAX:  # a greater one is negative, see ``signed``
                break
            if num_messages == 1 and not highest_sequence_id:  # the most frequent case by far
                highest = sequence_id
            elif num_messages:
                highest = highest_in(entry, (sequence_id, highest_sequence_id, num_messages), note)
        else:
            if not ids.has_failed(name):
                return self._append(ids, producer, heads, entries, highest)
        return self._publish_rest(ids, producer, heads, entries)

    def at_once(self, heads: Sequence[SendHead], entries: Sequence[bytes]) -> int:
        """Return the number of SENDs to deduplicate in one turn, including the first one that may be expensive.

        That is a compressed batch, since kilobytes can become megabytes when they are decompressed.
        """
        for number, ((_, _, num_messages), entry) in enumerate(zip(heads, entries, strict=True), start=1):
            if num_messages > 1 and is_compressed(entry):
                return number
        return len(entries)

    def _append(
        self, ids: SequenceIds, producer: StoringProducer, heads: Sequence[SendHead], entries: list[bytes], highest: int
    ) -> int:
        """Append a run without duplicates."""
        name, size = producer.options.name, sum(map(len, entries))
        producer.session.publishes_started(len(heads), size)

        def durable(first: Position, error: StorageError | None) -> None:
            producer.session.publishes_finished(len(heads), size)
            self._settle(ids, {name: highest}, len(entries), durable=error is None)
            if error is None:
                answer_stored(producer, heads, first)
            else:
                answer_failed(producer, heads, error)

        ids.push(name, highest)
        self._topic.log.append(entries, durable)
        return sum([num_messages for _, _, num_messages in heads])

    def _publish_rest(
        self, ids: SequenceIds, producer: StoringProducer, heads: Sequence[SendHead], entries: list[bytes]
    ) -> int:
        """Append the new messages of a run with duplicates; answer all in order, after all earlier writes."""
        name, note = producer.options.name, self._environment.limit_hits.note
        if ids.has_failed(name):
            judged = JudgedRun([Verdict.UNKNOWN] * len(heads), [], 0, ids.pushed(name))
        else:
            judged = judge_run(ids.pushed(name), heads, entries, note)
        rest = judged.entries
        duplicates = judged.verdicts.count(Verdict.DUPLICATE)
        if duplicates:
            self.duplicates += duplicates
            self._environment.totals.add_deduplicated(self._topic.name.namespace_name, duplicates)
        size = sum(map(len, rest))
        producer.session.publishes_started(len(heads), size)

        def durable(first: Position | None, error: StorageError | None) -> None:
            producer.session.publishes_finished(len(heads), size)
            if rest:
                self._settle(ids, {name: judged.highest}, len(rest), durable=error is None)
            if error is None:
                answer_run(producer, heads, judged.verdicts, first)
            else:
                answer_failed(producer, heads, error)

        if rest:
            ids.push(name, judged.highest)
            self._topic.log.append(rest, durable)
        else:
            self._topic.log.behind_appends(lambda error: durable(None, error))
        return judged.messages

    # --- entries of other clusters ---------------------------------------------------------------------------------

    def replicating(self, metadata: Sequence[pb.MessageMetadata], entries: Sequence[bytes]) -> dict[str, int]:
        """Note entries that will be appended; return their producers' sequence ids, for ``replicated``.

        Such entries are identified by their origin positions, and never dropped because of sequence ids.
        """
        come: dict[str, int] = {}
        if self.sequence_ids is not None:
            for each, entry in zip(metadata, entries, strict=True):
                completed = completed_by(each, entry)
                if completed is not None:
                    name, highest = completed
                    come[name] = max(highest, come.get(name, NO_SEQUENCE_ID))
            for name, highest in come.items():
                self.sequence_ids.push(name, highest)
        return come

    def replicated(self, ids: SequenceIds | None, come: dict[str, int], entries: int, *, durable: bool) -> None:
        """Note the outcome of their write; ``ids`` is the value of ``sequence_ids`` at the append."""
        if ids is not None:
            self._settle(ids, come, entries, durable=durable, is_own=False)

    # --- snapshots -------------------------------------------------------------------------------------------------

    def _settle(
        self, ids: SequenceIds, come: dict[str, int], entries: int, *, durable: bool, is_own: bool = True
    ) -> None:
        now = self._environment.clock.monotonic()
        for name, highest in come.items():
            ids.settle(name, highest, now, durable=durable, is_own=is_own)
        if durable and ids is self.sequence_ids:
            self._entries_since += entries
            if self._entries_since >= self._environment.config.brokerDeduplicationEntriesInterval:
                self.snapshot()

    def snapshot(self) -> None:
        """Write the changes since the last snapshot, so that no earlier entry must be read again.

        Called when all durable entries are known, which is always true except during recovery.
        """
        ids, cursor = self.sequence_ids, self.cursor
        if ids is None or cursor is None or self.status is not Status.ENABLED:
            return
        self._snapshot_at = self._environment.clock.monotonic()
        if not self._entries_since and not ids.changed:
            return
        self._entries_since = 0
        self._accounted = self._topic.ledger.last_confirmed_entry
        cursor.acknowledge_cumulative(self._accounted)
        cursor.attach(ids.delta(self._accounted))
        cursor.flush(self._snapshot_written)

    def _snapshot_written(self, error: StorageError | None) -> None:
        if error is not None:  # the next flush of the cursor writes everything, and must precede a trim
            self._entries_since += 1
            log.warning("deduplication_snapshot_failed", topic=str(self._topic.name), error=str(error))

    def maintain(self) -> None:
        """Evict producers that were inactive for too long, write a due snapshot, and retry a failed recovery."""
        ids, config = self.sequence_ids, self._environment.config
        if self.status is Status.FAILED:
            self._recover()
        if ids is None or self.status is not Status.ENABLED:
            return
        timeout_s = config.brokerDeduplicationProducerInactivityTimeoutMinutes * 60
        forgotten = ids.forget_inactive(self._environment.clock.monotonic() - timeout_s)
        most = config.brokerDeduplicationMaxNumberOfProducers
        excess = ids.forget_excess(most)
        if excess:
            self._environment.limit_hits.hit(Limit.DEDUPLICATION_PRODUCERS)
            log.warning("deduplication_producers_forgotten", topic=str(self._topic.name), producers=excess, limit=most)
        interval_s = self._topic.policies.deduplication_snapshot_interval_s
        is_due = 0 < interval_s <= self._environment.clock.monotonic() - self._snapshot_at
        if forgotten or excess or is_due:
            self.snapshot()

    def abandon(self) -> None:
        """Stop; nothing is written."""
        self._stop_recovery()

    def close(self) -> None:
        """Write a last snapshot, so that the next load has nothing to replay."""
        self._stop_recovery()
        self.snapshot()
        if self.cursor is not None:
            self.cursor.close()
