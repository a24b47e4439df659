"""Operations on the logs and properties of topics."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from magnetar.admin.log_service import no_entries
from magnetar.admin.models.logs import (
    AnalyzedBacklog,
    FormerCluster,
    ListedCursor,
    ListedLedger,
    ManagedLedgerInfo,
    MessageLocation,
    MessageOrigin,
    ProducerState,
    position_json,
)
from magnetar.admin.models.model import iso_time
from magnetar.admin.models.topics import MessageId
from magnetar.base.errors import AdminError, DamagedEntriesError, RemoteProtocolError, RequestError, ServerError
from magnetar.base.life import first_ledger_id
from magnetar.base.position import Position
from magnetar.broker.admin.finding import Finder, refusals
from magnetar.broker.environment import settle
from magnetar.broker.housekeeping.trimming import trimming
from magnetar.broker.log.topic_log import SCAN_BYTES, SCAN_ENTRIES
from magnetar.broker.settings.properties import check_topic_properties
from magnetar.broker.topic.lifecycle import State
from magnetar.geo.origins.locating import location_of, origin_at
from magnetar.metadata.policies import own_properties
from magnetar.wire.entries.entry import parse_without_lists, replicate_to

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Generator, Mapping

    from magnetar.base.names import TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.broker.topic.registry import TopicRegistry
    from magnetar.broker.topic.topic import Topic
    from magnetar.cursor.ranges import Range
    from magnetar.ledger.chain import ChainLedger

ANALYZED_ENTRIES_MAX = 10_000
"""Entries that the analysis of a backlog reads (Pulsar: ``subscriptionBacklogScanMaxEntries``)."""


class LogOperations:
    """See ``magnetar.admin.log_service.LogOperations``."""

    def __init__(self, environment: Environment, topics: TopicRegistry) -> None:
        """Operate on ``topics``."""
        self._environment = environment
        self._found = Finder(topics)

    # -- properties ---------------------------------------------------------------------------------------------

    async def properties(self, topic: TopicName) -> Mapping[str, str]:
        """Return the properties that clients have set."""
        return own_properties((await self._found.topic(topic)).ledger.properties)

    async def update_properties(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        """Set properties; the others stay."""
        ledger = (await self._found.topic(topic)).ledger
        with refusals(topic):
            check_topic_properties({**own_properties(ledger.properties), **properties}, self._environment.config)
        for key, value in properties.items():
            ledger.set_property(key, value)
        await self._environment.recorded()

    async def remove_property(self, topic: TopicName, key: str) -> None:
        """Remove a property, if it exists."""
        ledger = (await self._found.topic(topic)).ledger
        if key in own_properties(ledger.properties):
            ledger.remove_property(key)
            await self._environment.recorded()

    # -- reading ------------------------------------------------------------------------------------------------

    async def info(self, topic: TopicName) -> ManagedLedgerInfo:
        """Return the list of ledgers and cursors."""
        return await self._environment.slices.run(_info(await self._found.topic(topic)))

    async def examine(self, topic: TopicName, number: int, *, from_latest: bool) -> tuple[Position, bytes]:
        """Return the ``number``-th entry from either end of the log; the farthest one if there are fewer."""
        found = await self._found.topic(topic)
        entries = found.ledger.entries
        if not entries:
            raise no_entries()
        index = min(number, entries) - 1
        position = found.ledger.position_at(found.ledger.first_position, entries - 1 - index if from_latest else index)
        with refusals(topic):
            return position, await found.log.read_entry(position)

    async def location(self, topic: TopicName, cluster: str, position: Position) -> MessageLocation:
        """Return the place here of the entry that ``cluster`` published at ``position``."""
        return await _location(await self._found.topic(topic), cluster, position)

    async def origin(self, topic: TopicName, position: Position) -> MessageOrigin:
        """Return where the entry at ``position`` was published."""
        return _origin(await self._found.topic(topic), position)

    # -- producers ----------------------------------------------------------------------------------------------

    async def producer_state(self, topic: TopicName) -> ProducerState:
        """Return what the next producers continue."""
        found = await self._found.topic(topic)
        with refusals(topic):
            await found.deduplication.recovered()
        await self._environment.recorded()
        ids = found.deduplication.sequence_ids
        return ProducerState(
            topic_epoch=found.producers.access.topic_epoch, sequence_ids=None if ids is None else dict(ids.all())
        )

    async def add_producer_state(self, topic: TopicName, state: ProducerState) -> None:
        """Raise the epoch and sequence ids to those of another cluster."""
        found = await self._found.topic(topic)
        if state.sequence_ids:
            await self._add_sequence_ids(found, state.sequence_ids)
        if state.topic_epoch is not None:
            found.producers.access.raise_epoch(state.topic_epoch)
            await self._environment.recorded()

    async def _add_sequence_ids(self, topic: Topic, sequence_ids: Mapping[str, int]) -> None:
        deduplication = topic.deduplication
        with refusals(topic.name):
            await deduplication.recovered()
        ids, cursor = deduplication.sequence_ids, deduplication.cursor
        if ids is None or cursor is None:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, f"deduplication of {topic.name} is off")
        now = self._environment.clock.monotonic()
        for name, highest in sequence_ids.items():
            ids.replay(name, highest, now)
        deduplication.snapshot()
        stored: Future[None] = self._environment.loop.create_future()
        cursor.flush(partial(settle, stored))
        await stored

    # -- the former cluster -------------------------------------------------------------------------------------

    async def former_cluster(self, topic: TopicName) -> FormerCluster | None:
        """Return the cluster whose message ids are translated; None without one."""
        former = (await self._found.topic(topic)).log.former
        return None if former is None else FormerCluster(cluster=former.cluster, ledgers_below=former.below)

    async def set_former_cluster(self, topic: TopicName, cluster: str) -> None:
        """Translate message ids of ``cluster``."""
        found = await self._found.topic(topic)
        stored: Future[None] = self._environment.loop.create_future()
        with refusals(topic):
            found.log.set_former(cluster, partial(settle, stored))
        await stored

    async def remove_former_cluster(self, topic: TopicName) -> None:
        """Translate no message ids any more."""
        (await self._found.topic(topic)).log.remove_former()
        await self._environment.recorded()

    async def raise_ledger_ids(self) -> int:
        """Give new ledgers the ids of a data directory that is created now; return the lowest one."""
        ledger_id = first_ledger_id(self._environment.clock.now())
        self._environment.store.ids.begin_at(ledger_id)
        await self._environment.durable()
        return ledger_id

    # -- analysis -----------------------------------------------------------------------------------------------

    async def analyze(self, topic: TopicName, subscription: str, start: Position | None) -> AnalyzedBacklog:
        """Count the unacknowledged entries and messages of a subscription."""
        found = await self._found.subscription(topic, subscription)
        answer = AnalyzedBacklog()
        first = found.unread.first() if start is None else start
        while ranges := found.unread.undeleted(first, SCAN_ENTRIES):
            for each in ranges:
                if answer.entries >= ANALYZED_ENTRIES_MAX:
                    answer.aborted = True
                    return answer
                await self._count(found, each, answer)
            first = found.topic.ledger.next_position(ranges[-1].last)
        return answer

    async def _count(self, subscription: Subscription, entries: Range, answer: AnalyzedBacklog) -> None:
        """Add the entries of one range."""
        ledger, first = subscription.topic.ledger, entries.first
        while first <= entries.last:
            limit = min(SCAN_ENTRIES, entries.last.entry_id - first.entry_id + 1)
            async with self._environment.searching:
                try:
                    read = await ledger.read(first, limit, SCAN_BYTES)
                except DamagedEntriesError as error:
                    subscription.topic.log.note_damage(error)
                    first = Position(error.ledger_id, error.end)
                    continue
                await self._environment.slices.run(_add_each(subscription, read, answer))
            if not read:  # the rest was trimmed meanwhile
                break
            first = ledger.next_position(read[-1][0])

    async def backlog_size(self, topic: TopicName, start: Position) -> int:
        """Return the bytes of the entries after ``start``."""
        return (await self._found.topic(topic)).ledger.size_after(start)

    # -- deleting -----------------------------------------------------------------------------------------------

    async def trim(self, topic: TopicName) -> None:
        """Delete the ledgers that are consumed and that retention does not keep."""
        await self._trim(await self._found.changeable(topic))

    async def truncate(self, topic: TopicName) -> None:
        """Acknowledge all entries for all subscriptions, and delete the ledgers that no link needs any more."""
        found = await self._found.changeable(topic)
        last = found.ledger.last_confirmed_entry
        with refusals(topic):
            for subscription in found.each_subscription():
                found.log.migration_fence.check_change()
                subscription.acknowledge_through(last)
                await subscription.flushes.durable()
        found.ledger.close_current()
        await self._trim(found, is_retained=False)

    async def terminate(self, topic: TopicName) -> MessageId:
        """Take no more entries; return the id of the last one."""
        found = await self._found.changeable(topic)
        with refusals(topic):
            return MessageId.of(await self._end(found), topic)

    async def _end(self, topic: Topic) -> Position:
        """Terminate a topic, durably; return the last position. Raises RequestError for a replicated topic.

        A terminated topic could not take the entries of other clusters, whose links would wait for ever.
        """
        termination, targets = topic.log.termination, self._environment.targets_of_topic(topic.name)
        if targets and not termination.is_over:
            message = f"{topic.name} is replicated with {', '.join(targets)}: a replicated topic cannot be terminated"
            raise RequestError(ServerError.NotAllowedError, message)
        if topic.lifecycle.state is not State.OPEN:
            raise RequestError(ServerError.ServiceNotReady, f"{topic.name} disconnects its clients: try again later")
        last = await termination.begin(partial(topic.producers.dismiss, also_waiting=True))
        for subscription in topic.each_subscription():
            subscription.tell_end()
        return last

    async def _trim(self, topic: Topic, *, is_retained: bool = True) -> None:
        await self._environment.slices.run(trimming(topic, is_retained=is_retained))
        await self._environment.durable()
        await self._environment.recorded()


def _info(topic: Topic) -> Generator[None, None, ManagedLedgerInfo]:
    ledger = topic.ledger
    listed = ledger.ledgers()
    answer = ManagedLedgerInfo(
        version=ledger.list_version,
        ledgers=[_listed(each) for each in listed],
        properties=dict(own_properties(ledger.properties)) or None,
    )
    if topic.log.termination.position is not None:
        answer.terminated_position = position_json(topic.log.termination.position)
    if listed:
        answer.creation_date = iso_time(listed[0].created_ms)
        answer.modification_date = iso_time(max(each.closed_ms or each.created_ms for each in listed))
    for cursor in topic.all_cursors():
        answer.cursors[cursor.name] = ListedCursor(
            cursors_ledger_id=cursor.ledger_id if cursor.ledger_id is not None else -1,
            mark_delete=position_json(cursor.state.mark_delete_position),
        )
        yield
    return answer


def _listed(ledger: ChainLedger) -> ListedLedger:
    if ledger.closed_ms is None:
        return ListedLedger(ledger_id=ledger.ledger_id, timestamp=int(ledger.created_ms))
    return ListedLedger(
        ledger_id=ledger.ledger_id, entries=ledger.entries, size=ledger.size, timestamp=int(ledger.closed_ms)
    )


async def _location(topic: Topic, cluster: str, position: Position) -> MessageLocation:
    """Return the place here of the entry that ``cluster`` published at ``position``."""
    found = location_of(topic.log.index, cluster, position, topic.ledger.last_confirmed_entry)
    if found.position is None:
        return MessageLocation(state=found.state)
    try:
        clusters = list(replicate_to(await topic.log.read_entry(found.position)))
    except (RequestError, RemoteProtocolError):  # the entry is damaged, or was trimmed meanwhile
        return MessageLocation(state=found.state, position=found.position)
    return MessageLocation(state=found.state, position=found.position, replicate_to=clusters)


def _origin(topic: Topic, position: Position) -> MessageOrigin:
    """Return the origin of the entry at ``position``."""
    ledger = topic.ledger
    log = topic.log
    found = origin_at(log.index, position, ledger.first_position, ledger.last_confirmed_entry, log.first_ledger_id)
    return MessageOrigin(state=found.state, cluster=found.cluster, position=found.position)


def _add_each(
    subscription: Subscription, read: list[tuple[Position, bytes]], answer: AnalyzedBacklog
) -> Generator[None, None, None]:
    for position, entry in read:
        answer.entries += 1
        answer.filter_accepted_entries += 1
        remaining = subscription.cursor.state.remaining(position)
        messages = parse_without_lists(entry).num_messages_in_batch if remaining is None else remaining.bit_count()
        answer.messages += messages
        answer.filter_accepted_messages += messages
        if answer.first_message_id is None:
            answer.first_message_id = str(position)
        answer.last_message_id = str(position)
        yield
