"""Deduplication of one topic (PIP-6): what a producer sends again is stored once.

What is known of the producers is attached, in deltas and checkpoints, to the cursor ``pulsar.dedup``, each with the
position up to which it accounts for the log. The cursor's mark-delete position is that one too: it keeps what is behind
it from being trimmed, and counts for nothing else. After a start only the entries behind the newest snapshot are read.

A duplicate is answered behind whatever was asked of the disk before it: then the message that it repeats is durable,
or the topic has failed and the duplicate fails with it. So there is no state in which nobody can tell, and receipts
keep the order of SENDs.
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
from magnetar.broker.publish.deduplication_replay import replay
from magnetar.broker.publish.entry_sequence_ids import completed_by, highest_in
from magnetar.broker.publish.judged_run import JudgedRun, answer_run, judge_run
from magnetar.broker.publish.producer import answer_failed, answer_stored
from magnetar.broker.publish.sequence_ids import UNKNOWN_PRODUCER, SequenceIds, Verdict
from magnetar.broker.subscription.names import DEDUPLICATION_CURSOR
from magnetar.wire.entries.entry import is_compressed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from magnetar.broker.publish.interfaces import Producer, SendHead
    from magnetar.cursor.cursor import Cursor
    from magnetar.cursor.store import CursorStore
    from magnetar.wire.proto import pulsar_api_pb2 as pb

log = structlog.get_logger(__name__)


class Status(Enum):
    """As ``deduplicationStatus`` of the topic's stats shows it."""

    INITIALIZED = "Initialized"
    RECOVERING = "Recovering"
    ENABLED = "Enabled"
    REMOVING = "Removing"
    DISABLED = "Disabled"
    FAILED = "Failed"


class DeduplicatedTopic(LoggedTopic, Protocol):
    """The topic whose duplicates are dropped."""

    @property
    def cursors(self) -> CursorStore:
        """Where the snapshots of what is known are kept."""
        ...

    @property
    def producers(self) -> Iterable[str]:
        """The names of the connected producers."""
        ...


class Deduplication:
    """What one topic knows of its producers. Everything happens on the event loop's thread."""

    def __init__(self, topic: DeduplicatedTopic) -> None:
        """Know nothing, until ``apply``."""
        self.status = Status.INITIALIZED
        self.sequence_ids: SequenceIds | None = None
        """None when deduplication is off: then it costs nothing but this look."""
        self.cursor: Cursor | None = None
        self.duplicates = 0
        """Entries that were here already and not stored again, since the topic was loaded."""
        self._topic = topic
        self._environment = topic.environment
        self._recovery: asyncio.Task[None] | None = None
        self._failure: str | None = None
        self._entries_since = 0
        """Entries that became durable since the last snapshot."""
        self._snapshot_at = self._environment.clock.monotonic()
        self._accounted = EARLIEST
        """Up to where the newest snapshot accounts for the log."""

    # --- on and off ------------------------------------------------------------------------------------------------

    def apply(self, *, enabled: bool) -> None:
        """Be on or off; going on, the topic knows its producers when ``recovered`` returns."""
        if enabled and self.sequence_ids is None:
            self._enable()
        elif not enabled and self.status is not Status.DISABLED:
            self._disable()

    def _enable(self) -> None:
        cursors, ledger, name = self._topic.cursors, self._topic.ledger, DEDUPLICATION_CURSOR
        self.cursor = cursors.open(name) or cursors.create(name, self._topic.log.before_first())
        ids = SequenceIds()
        self._accounted = ids.load(self.cursor.attachments, self._environment.clock.monotonic())
        self.cursor.checkpoint_attachment = lambda: ids.checkpoint(self._accounted)
        for producer in self._topic.producers:
            ids.joined(producer)
        self.sequence_ids = ids
        if self._accounted >= ledger.last_position:
            self.status = Status.ENABLED
        else:
            self._recover()

    def _disable(self) -> None:
        self.status = Status.REMOVING
        self._stop_recovery()
        self.sequence_ids = self.cursor = None
        self._topic.cursors.delete(DEDUPLICATION_CURSOR)
        self.status = Status.DISABLED

    @property
    def is_ready(self) -> bool:
        """Whether producers may be let in: deduplication is off, or knows them."""
        return self.status in (Status.DISABLED, Status.ENABLED)

    async def recovered(self) -> None:
        """Return when ``is_ready``; raises RequestError if the log cannot be read. Asking again reads it again."""
        if self.status is Status.FAILED:
            self._recover()
        while self._recovery is not None:
            await asyncio.wait([self._recovery])
        if self.status is Status.FAILED:
            message = f"the producers of {self._topic.name} cannot be told apart: {self._failure}"
            raise RequestError(ServerError.PersistenceError, message)

    def _recover(self) -> None:
        self.status = Status.RECOVERING
        name = f"deduplication of {self._topic.name}"
        self._recovery = start_task(self._environment.loop, self._run_recovery(), name)

    async def _run_recovery(self) -> None:
        ids = self.sequence_ids
        assert ids is not None
        try:
            replayed = await replay(self._topic, ids, self._accounted)
        except StorageError as error:
            self._failed(str(error))
        except Exception as error:
            # Without this the topic would stay in recovery, and producers would wait for ever.
            self._failed(repr(error))
            raise
        else:
            self._entries_since += replayed
            self.status = Status.ENABLED
            log.info("deduplication_recovered", topic=str(self._topic.name), entries=replayed)
        finally:
            if self._recovery is asyncio.current_task():  # else this one was cancelled, and another may have begun
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
        """A client's producer of this name was let in."""
        if self.sequence_ids is not None:
            self.sequence_ids.joined(name)

    def left(self, name: str) -> None:
        """A client's producer of this name is gone."""
        if self.sequence_ids is not None:
            self.sequence_ids.left(name, self._environment.clock.monotonic())

    def last_sequence_id(self, name: str) -> int:
        """The highest sequence id of this producer that is durable; -1 when there is none, or deduplication is off."""
        return UNKNOWN_PRODUCER if self.sequence_ids is None else self.sequence_ids.persisted(name)

    def publish(self, producer: Producer, heads: Sequence[SendHead], entries: list[bytes]) -> int:
        """Append of a run what is not here yet, and answer all of it in order; returns how many messages are new."""
        ids, name, note = self.sequence_ids, producer.options.name, self._environment.limit_hits.note
        assert ids is not None
        if self.status is not Status.ENABLED:  # nobody can tell yet, and nobody was promised anything
            ends = [highest_in(entry, head, note) for head, entry in zip(heads, entries, strict=True) if head[2]]
            highest = max([ids.pushed(name), *ends])
            return self._append(ids, producer, heads, entries, highest)
        highest = ids.pushed(name)
        for (sequence_id, highest_sequence_id, num_messages), entry in zip(heads, entries, strict=True):
            if sequence_id <= highest:
                break
            if num_messages == 1 and not highest_sequence_id:  # by far the most frequent
                highest = sequence_id
            elif num_messages:
                highest = highest_in(entry, (sequence_id, highest_sequence_id, num_messages), note)
        else:
            if not ids.has_failed(name):
                return self._append(ids, producer, heads, entries, highest)
        return self._publish_rest(ids, producer, heads, entries)

    def at_once(self, heads: Sequence[SendHead], entries: Sequence[bytes]) -> int:
        """Return how many SENDs to take in one turn of the loop: those through the first that may be costly to judge.

        That is a compressed batch: some kilobytes of it can be megabytes when it is opened.
        """
        if self.sequence_ids is not None:
            for number, ((_, _, num_messages), entry) in enumerate(zip(heads, entries, strict=True), start=1):
                if num_messages > 1 and is_compressed(entry):
                    return number
        return len(entries)

    def _append(
        self, ids: SequenceIds, producer: Producer, heads: Sequence[SendHead], entries: list[bytes], highest: int
    ) -> int:
        """Append a run of which everything is new."""
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
        self, ids: SequenceIds, producer: Producer, heads: Sequence[SendHead], entries: list[bytes]
    ) -> int:
        """Append what is new among duplicates; answer all in order, once everything asked before is durable."""
        name, note = producer.options.name, self._environment.limit_hits.note
        if ids.has_failed(name):
            judged = JudgedRun([Verdict.UNKNOWN] * len(heads), [], 0, ids.pushed(name))
        else:
            judged = judge_run(ids.pushed(name), heads, entries, note)
        rest = judged.entries
        self.duplicates += judged.verdicts.count(Verdict.DUPLICATE)
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
            self._topic.log.barrier(lambda error: durable(None, error))
        return judged.messages

    # --- entries of other clusters ---------------------------------------------------------------------------------

    def replicating(self, metadata: Sequence[pb.MessageMetadata], entries: Sequence[bytes]) -> dict[str, int]:
        """Entries are about to be appended; returns how far they bring their producers, for ``replicated``.

        They are identified by their origin positions, and never dropped by what is known of their producers.
        """
        come: dict[str, int] = {}
        if self.sequence_ids is not None:
            for each, entry in zip(metadata, entries, strict=True):
                completed = completed_by(each, entry)
                if completed is not None:
                    name, highest = completed
                    come[name] = max(highest, come.get(name, UNKNOWN_PRODUCER))
            for name, highest in come.items():
                self.sequence_ids.push(name, highest)
        return come

    def replicated(self, ids: SequenceIds | None, come: dict[str, int], entries: int, *, durable: bool) -> None:
        """Tell what became of them; ``ids`` is what ``sequence_ids`` was when they were appended."""
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
        """Write what changed since the last one, so that no entry before now has to be read again.

        Called when everything that is durable is accounted for, which is always so but during recovery.
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
        if error is not None:  # the cursor writes everything with its next flush, which must come before a trim
            self._entries_since += 1
            log.warning("deduplication_snapshot_failed", topic=str(self._topic.name), error=str(error))

    def tend(self) -> None:
        """Forget producers that were inactive for too long, write a snapshot if one is due, read again what failed."""
        ids, config = self.sequence_ids, self._environment.config
        if self.status is Status.FAILED:
            self._recover()
        if ids is None or self.status is not Status.ENABLED:
            return
        timeout_s = config.brokerDeduplicationProducerInactivityTimeoutMinutes * 60
        forgotten = ids.forget_inactive(self._environment.clock.monotonic() - timeout_s)
        excess = ids.forget_excess(config.brokerDeduplicationMaxNumberOfProducers)
        if excess:
            self._environment.limit_hits.hit(Limit.DEDUPLICATION_PRODUCERS)
            log.warning(
                "deduplication_producers_forgotten",
                topic=str(self._topic.name),
                producers=excess,
                limit=config.brokerDeduplicationMaxNumberOfProducers,
            )
        interval_s = self._topic.policies.deduplication_snapshot_interval_s
        is_due = 0 < interval_s <= self._environment.clock.monotonic() - self._snapshot_at
        if forgotten or excess or is_due:
            self.snapshot()

    def abandon(self) -> None:
        """End what is under way; nothing is written."""
        self._stop_recovery()

    def close(self) -> None:
        """Leave nothing to replay to the next who loads the topic."""
        self._stop_recovery()
        self.snapshot()
        if self.cursor is not None:
            self.cursor.close()
