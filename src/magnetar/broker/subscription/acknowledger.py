"""Application of consumers' acknowledgements to a cursor."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from magnetar.base.limits import UNREAD_BATCH_MESSAGES_MAX, Limit
from magnetar.base.position import EARLIEST, Position
from magnetar.cursor.ranges import Range, ranges_of
from magnetar.wire.entries import ack_set
from magnetar.wire.entries.entry import messages_in
from magnetar.wire.message_id import position_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from magnetar.broker.log.interfaces import LoggedTopic
    from magnetar.cursor.cursor import Cursor
    from magnetar.geo.origins.former_ids import FormerIds
    from magnetar.wire.proto import pulsar_api_pb2 as pb


class Acknowledger:
    """Applies acknowledgements of consumers to the cursor of one subscription.

    Unknown and already acknowledged positions have no effect. Each method returns the entries that become completely
    acknowledged.
    """

    def __init__(self, topic: LoggedTopic, cursor: Cursor, narrowed: Callable[[Position], None]) -> None:
        """Create it; ``narrowed`` is called when some, but not all, messages of an entry become acknowledged."""
        self._topic = topic
        self._ledger = topic.ledger
        self._environment = topic.environment
        self._cursor = cursor
        self._narrowed = narrowed

    def cumulative(self, message_id: pb.MessageIdData) -> list[Range]:
        """Acknowledge all messages up to and including an entry or a message in it.

        An entry that the log does not have stands for the one before it.

        Messages in an entry count only if acknowledgements of single messages of a batch are kept.
        """
        position, former = position_of(message_id), self._topic.log.former
        if former is not None and former.has(position.ledger_id):
            return self._through_former(former, position, message_id)
        if position > self._ledger.last_confirmed_entry:
            return []
        if not self._ledger.contains(position):
            return self._intact(self._ledger.previous_position(position))
        if not message_id.ack_set:
            return self._intact(position)
        deleted = self._intact(self._ledger.previous_position(position))
        if self._environment.config.acknowledgmentAtBatchIndexLevelEnabled:
            deleted += self._batch(position, message_id)
        return deleted

    def place(self, message_id: pb.MessageIdData) -> Position:
        """Return the local position of an entry, given by an id of this cluster or of the topic's former one.

        EARLIEST for an entry of the former cluster that is not here.
        """
        position, former = position_of(message_id), self._topic.log.former
        if former is None or not former.has(position.ledger_id):
            return position
        return former.local_of(position) or EARLIEST

    def _through_former(self, former: FormerIds, position: Position, message_id: pb.MessageIdData) -> list[Range]:
        """Acknowledge the entries that the former cluster published up to and including an entry or a message in it."""
        through = position._replace(entry_id=position.entry_id - 1) if message_id.ack_set else position
        covered = former.acknowledged_through(through, self._cursor.state.mark_delete_position)
        damaged = self._topic.log.damaged
        deleted = self._cursor.acknowledge_ranges([part for each in covered for part in damaged.absent(each)])
        if message_id.ack_set:
            deleted += self.individually([message_id])
        return deleted

    def _intact(self, through: Position) -> list[Range]:
        """Acknowledge all entries up to and including ``through`` except damaged ones, which no consumer was sent."""
        damaged = self._topic.log.damaged
        if not damaged:
            return self._cursor.acknowledge_cumulative(through)
        left = self._cursor.state.undeleted(
            self._ledger.next_position(self._cursor.state.mark_delete_position), through, sys.maxsize
        )
        return self._cursor.acknowledge_ranges([part for each in left for part in damaged.absent(each)])

    def individually(self, message_ids: Iterable[pb.MessageIdData]) -> list[Range]:
        """Acknowledge entries, or messages in them."""
        deleted: list[Range] = []
        whole: dict[int, list[int]] = {}
        for message_id in message_ids:
            if not message_id.ack_set:
                whole.setdefault(message_id.ledgerId, []).append(message_id.entryId)
            elif self._environment.config.acknowledgmentAtBatchIndexLevelEnabled:
                position = self.place(message_id)
                if self._ledger.contains(position):
                    deleted += self._batch(position, message_id)
        for ledger_id, entry_ids in whole.items():
            deleted += self.entries(ledger_id, entry_ids)
        return deleted

    def entries(self, ledger_id: int, entry_ids: Iterable[int]) -> list[Range]:
        """Acknowledge whole entries of one ledger, of this cluster or of the topic's former one."""
        former = self._topic.log.former
        if former is not None and former.has(ledger_id):
            places = (former.local_of(Position(ledger_id, entry_id)) for entry_id in entry_ids)
            return self._cursor.acknowledge_ranges([Range(each, each) for each in sorted(filter(None, places))])
        entries = self._ledger.entries_in(ledger_id)
        held = [entry_id for entry_id in entry_ids if entry_id < entries]
        return self._cursor.acknowledge_ranges(ranges_of(ledger_id, held))

    def _batch(self, position: Position, message_id: pb.MessageIdData) -> list[Range]:
        if self._cursor.state.is_deleted(position):
            return []
        members = self._members_of(position, message_id)
        if members is None:
            self._environment.limit_hits.hit(Limit.UNREAD_BATCH_MESSAGES)
            return []  # the batch is redelivered unless it is acknowledged completely
        before = self._cursor.state.remaining(position)
        remaining = ack_set.words_to_int(message_id.ack_set[: ack_set.words_for(members)])
        deleted = self._cursor.acknowledge_batch(position, remaining, members)
        if self._cursor.state.remaining(position) not in (None, before):
            self._narrowed(position)
        return deleted

    def _members_of(self, position: Position, message_id: pb.MessageIdData) -> int | None:
        """Return the number of messages of an entry: from its metadata if it is in memory, else from the client.

        None if the client states more than UNREAD_BATCH_MESSAGES_MAX, since each message would take memory.
        """
        cached = self._ledger.read_cached(position, 1, 1)
        if cached and cached[0][0] == position:
            return messages_in(cached[0][1])
        bits = ack_set.WORD_BITS * len(message_id.ack_set)
        members = message_id.batch_size if message_id.batch_size > 0 else bits
        return members if members <= UNREAD_BATCH_MESSAGES_MAX else None
