"""Internal statistics of topics: their managed ledgers and cursors."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from magnetar.admin.models.internal import CursorStats, LedgerInfo, PersistentTopicInternalStats
from magnetar.admin.models.model import iso_time
from magnetar.broker.dispatch.single_active import ActiveConsumer
from magnetar.broker.loop.slices import at_once
from magnetar.ledger.agreement import LOST_PROPERTY

if TYPE_CHECKING:
    from collections.abc import Generator

    from magnetar.broker.dispatch.base import Dispatcher
    from magnetar.broker.topic.topic import Topic
    from magnetar.cursor.cursor import Cursor

DELETED_RANGES_SHOWN_MAX = 1000
"""Ranges of a cursor in its internal stats; further ranges are counted only."""

PRODUCERS_SHOWN_MAX = 10_000
"""Producers in the internal stats of the cursor of deduplication; further producers are counted only."""


def internal_stats(topic: Topic) -> PersistentTopicInternalStats:
    """Return the state of a topic's managed ledger and cursors; entries count when they are durable."""
    return at_once(internal_stats_steps(topic))


def internal_stats_steps(topic: Topic) -> Generator[None, None, PersistentTopicInternalStats]:
    """Compute ``internal_stats`` in steps."""
    ledger = topic.ledger
    infos = ledger.ledgers()
    stats = PersistentTopicInternalStats(
        entries_added_counter=ledger.entries_added,
        number_of_entries=ledger.entries,
        total_size=ledger.size_bytes,
        last_confirmed_entry=ledger.last_confirmed_entry,
        ledgers=[
            LedgerInfo(ledger_id=each.ledger_id, entries=ledger.confirmed_in(each), size=each.size) for each in infos
        ],
    )
    stats.trimmed_origins = topic.log.index.positions_at(topic.log.before_first()) or None
    if topic.log.termination.is_over:
        stats.state = "Terminated"
    if LOST_PROPERTY in ledger.properties:
        stats.may_lack_entries, stats.entries_known_lost = True, int(ledger.properties[LOST_PROPERTY]) or None
    if infos:
        stats.current_ledger_entries = stats.ledgers[-1].entries
        stats.current_ledger_size = infos[-1].size
        stats.last_ledger_created_timestamp = iso_time(infos[-1].created_ms)
    for subscription in list(topic.subscriptions.values()):
        active = bool(subscription.consumers)
        stats.cursors[subscription.name] = _cursor_stats(topic, subscription.cursor, active=active)
        stats.waiting_cursors_count += _waits(subscription.consumers.dispatcher)
        yield
    for replicator in list(topic.replicators.values()):
        holder = replicator.consumer
        stats.cursors[replicator.cursor.name] = _cursor_stats(topic, replicator.cursor, active=holder is not None)
        stats.waiting_cursors_count += holder is not None and holder.is_ready
        yield
    deduplication = topic.deduplication
    if deduplication.cursor is not None and deduplication.sequence_ids is not None:
        of_producers = _cursor_stats(topic, deduplication.cursor, active=False)
        shown, omitted = deduplication.sequence_ids.last_snapshot(PRODUCERS_SHOWN_MAX)
        of_producers.properties, of_producers.properties_omitted = shown, omitted or None
        stats.cursors[deduplication.cursor.name] = of_producers
    return stats


def _waits(dispatcher: Dispatcher | None) -> bool:
    """Return whether a consumer of the subscription could get an entry now, and there is none for it."""
    if isinstance(dispatcher, ActiveConsumer):
        return dispatcher.active is not None and dispatcher.active.is_ready
    return dispatcher is not None and any(consumer.is_ready for consumer in dispatcher.consumers)


def _cursor_stats(topic: Topic, cursor: Cursor, *, active: bool) -> CursorStats:
    state = cursor.state
    ranges = ",".join(map(str, islice(state.deleted(), DELETED_RANGES_SHOWN_MAX)))
    return CursorStats(
        mark_delete_position=state.mark_delete_position,
        read_position=topic.ledger.next_position(state.mark_delete_position),
        cursor_ledger=cursor.ledger_id if cursor.ledger_id is not None else -1,
        individually_deleted_messages=f"[{ranges}]",
        individually_deleted_messages_omitted=max(0, state.deleted_ranges_count - DELETED_RANGES_SHOWN_MAX) or None,
        active=active,
        number_of_entries_since_first_not_acked_message=topic.ledger.count(
            state.mark_delete_position, topic.ledger.last_confirmed_entry
        ),
        total_non_contiguous_deleted_messages_range=state.deleted_ranges_count,
        properties=cursor.properties,
    )
