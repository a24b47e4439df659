"""Brings clients back to Apache Pulsar: the acknowledgements of the target become those of the same messages there.

The link of the target has carried all entries that were published there, each with its position in the target. So the
log of Apache Pulsar tells which of its entries is which one of the target. It is read before the topic is closed, and
so are the positions in Apache Pulsar of the entries that the target has received from it. What remains for the time in
which clients wait are the last entries and the acknowledgement state, which is set by a consumer in Apache Pulsar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from magnetar.base.names import TopicName
from magnetar.base.position import EARLIEST, Position
from magnetar.geo.origins.intervals import IntervalSet
from magnetar.migration.pulsar.acknowledgements import (
    acknowledged_in,
    cursors_in,
    end_of,
    first_mark,
    has_carried,
    ledger_sizes,
)
from magnetar.migration.pulsar.requests import internal_stats, stats_if_any
from magnetar.migration.pulsar.source import LogReader
from magnetar.migration.pulsar.statistics import clients_in, durable_in
from magnetar.migration.pulsar.topic_log import TopicLog, existing, translated
from magnetar.wire.entries.ack_set import int_to_words, words_to_int
from magnetar.wire.message_id import message_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from magnetar.migration.pulsar.topic_log import State
    from magnetar.migration.sides import Side
    from magnetar.migration.switching.cluster import Cluster
    from magnetar.migration.switching.handover import Look
    from magnetar.wire.proto import pulsar_api_pb2 as pb

    Json = Mapping[str, Any]


_NO_TOPIC: Final[Json] = {"cursors": {}, "ledgers": [], "lastConfirmedEntry": str(EARLIEST)}
"""The internal stats of a topic that does not exist."""


class Brokers(LogReader, Protocol):
    """See ``magnetar.migration.pulsar.brokers``."""

    def acknowledge(self, topic: str, subscription: str, through: Position, ids: Sequence[pb.MessageIdData]) -> str:
        """Acknowledge messages, all through a position among them; return why this is not possible."""
        ...


class End(NamedTuple):
    """One of the clusters."""

    name: str
    side: Side


class _Held(NamedTuple):
    """The acknowledgement state of a subscription in the target, in its positions."""

    mark_delete: Position
    acknowledged: IntervalSet
    partly: dict[Position, int]


class _Logs(NamedTuple):
    """The logs of a topic before it was closed."""

    here: TopicLog
    """Of the target."""
    there: TopicLog
    """Of Apache Pulsar."""


class _Compared(NamedTuple):
    """The acknowledgement state of a subscription in Apache Pulsar, and that of the target."""

    present: IntervalSet | None
    """None if there is no subscription."""
    wanted: State
    due: tuple[Position, ...]
    """The entries that are to be acknowledged."""

    @property
    def lacking(self) -> int:
        return len(self.due)

    @property
    def is_behind(self) -> bool:
        """Whether the subscription must begin at an earlier entry."""
        return self.present is None or self.wanted.is_behind(self.present)


class PulsarReturn:
    """See ``Handover``. Used by several threads."""

    def __init__(self, pulsar: End, target: End, brokers: Brokers, readers: LogReader) -> None:
        """Acknowledge in ``pulsar`` by ``brokers``; ``readers`` reads the logs of ``target``."""
        self._pulsar = pulsar
        self._target = target
        self._brokers = brokers
        self._readers = readers
        self._logs: dict[str, _Logs | str] = {}
        """By topic; or the reason why they are not complete."""
        self._stored: dict[str, Position] = {}
        """By topic that was unloaded with its acknowledgements, the end of its log when these were set."""

    def prepare(self, topic: str, entered: Cluster) -> None:
        """Read both logs, which takes a second for about 20,000 unacknowledged entries."""
        del entered
        self._stored.pop(topic, None)
        self._logs[topic] = self._read(topic)

    def missing(self, topic: str, entered: Cluster, look: Look) -> str:
        """Set the acknowledgement states when the link has carried everything."""
        del entered
        link = look().links.get(self._pulsar.name)
        if link is None or link.parked or link.backlog != 0:
            count = "an unknown number of" if link is None or link.backlog is None else f"{link.backlog:,}"
            parked = f": the link is parked: {link.parked}" if link is not None and link.parked else ""
            return f"{count} entries are not confirmed by {self._pulsar.name}{parked}"
        logs = self._logs.get(topic, "its logs were not read before it was closed")
        return logs if isinstance(logs, str) else self._bring_all(topic, logs)

    # --- logs --------------------------------------------------------------------------------------------------------

    def _read(self, topic: str) -> _Logs | str:
        """Read the log of Apache Pulsar, then that of the target, which has everything that the former has."""
        found = internal_stats(self._pulsar.side, topic)
        if found is None:
            return f"it does not exist in {self._pulsar.name}"
        there = TopicLog(
            self._pulsar.name, self._target.name, first_mark(found, durable_in(stats_if_any(self._pulsar.side, topic)))
        )
        reason = self._brokers.read_on(topic, there) or self._not_carried(topic, there)
        held = [self._held(topic, name) for name in durable_in(self._target_stats(topic))]
        here = TopicLog(self._target.name, self._pulsar.name, self._first_mark(topic, held))
        reason = reason or self._readers.read_on(topic, here)
        if not reason and self._needs_earlier(held, found, _Logs(here, there)):
            end, there = there.end, TopicLog(self._pulsar.name, self._target.name, EARLIEST)
            reason = self._brokers.read_on(topic, there)
            if there.own_end is not None and there.own_end > end:
                reason = reason or self._published_meanwhile
        return reason or _Logs(here, there)

    def _not_carried(self, topic: str, there: TopicLog) -> str:
        """Return whether the target lacks an entry that clients have published in Apache Pulsar; empty: it does not."""
        found = internal_stats(self._pulsar.side, topic) or _NO_TOPIC
        if there.own_end is None or has_carried(found, self._target.name, there.own_end):
            return ""
        return f"{self._target.name} does not have all entries of {self._pulsar.name}"

    def _needs_earlier(self, held: Iterable[_Held], found: Json, logs: _Logs) -> bool:
        """Return whether a subscription was sought back in the target, to entries before the log of Apache Pulsar."""
        start, own_end, sizes = logs.there.start, logs.there.own_end, ledger_sizes(found)
        if start == EARLIEST:
            return False
        through = {} if own_end is None else {self._pulsar.name: own_end}
        for each in held:
            claims = logs.here.claims(each.acknowledged, through)
            left = claims.get(self._pulsar.name, IntervalSet()).missing(EARLIEST, start)
            if any(existing(IntervalSet.from_pairs(left), sizes)):
                return True
        return False

    def _first_mark(self, topic: str, held: Sequence[_Held]) -> Position:
        """Return the first mark-delete position in the target; the end of its log if it has no subscription."""
        if held:
            return min(each.mark_delete for each in held)
        with self._target.side.answers():
            return end_of(self._target.side.client.topics.internal_stats(TopicName.parse(topic)))

    # --- subscriptions -----------------------------------------------------------------------------------------------

    def _bring_all(self, topic: str, logs: _Logs) -> str:
        stats, there = stats_if_any(self._pulsar.side, topic), logs.there
        client = next(clients_in(stats), "")
        if client:
            return f"a client at {client} is connected to {self._pulsar.name}"
        own_end = there.own_end
        reason = self._brokers.read_on(topic, there)
        if reason:
            return reason
        if there.own_end != own_end:
            self._logs[topic] = self._published_meanwhile
            return self._published_meanwhile
        left = {name: each["msgBacklog"] for name, each in durable_in(self._target_stats(topic)).items()}
        for name in durable_in(stats).keys() - left.keys():
            return f"only {self._pulsar.name} has the subscription {name}"
        return self._bring_durably(topic, left, logs)

    def _bring_durably(self, topic: str, left: Mapping[str, int], logs: _Logs) -> str:
        """Set the states of all subscriptions, and verify what Apache Pulsar has stored.

        It keeps acknowledgements in memory until it closes the topic, and does not always store them then: a close
        loses those of a cursor whose ledger is being created. A topic that is loaded again may write a marker, which no
        client gets: what follows the end of the log when the states were set is not compared.
        """
        held = {name: self._held(topic, name) for name in left}  # the target's fence keeps it as it is
        while True:
            is_changed = False
            for name, count in left.items():
                reason, is_set = self._bring(topic, name, held[name], count, logs)
                if reason:
                    return f"{name}: {reason}"
                is_changed |= is_set
            if not is_changed and topic in self._stored:
                return ""
            with self._pulsar.side.answers():
                self._pulsar.side.client.topics.unload(TopicName.parse(topic))
            is_repeated = topic in self._stored
            self._stored[topic] = logs.there.end
            if is_repeated:
                return f"{self._pulsar.name} has lost acknowledgements"  # they are set again

    def _bring(self, topic: str, name: str, held: _Held, left: int, logs: _Logs) -> tuple[str, bool]:
        """Set the state of a subscription, with ``left`` unacknowledged entries in the target.

        Returns why this is not possible, and whether the state was another one.
        """
        if held.mark_delete < logs.here.start:
            return "it was sought back meanwhile", False
        compared = self._compared(topic, name, held, logs)
        count = compared.wanted.left - compared.wanted.withheld
        if count != left:
            return f"{left:,} entries are unacknowledged, and {self._pulsar.name} has {count:,} of them", False
        is_behind = compared.is_behind
        if is_behind:
            self._move_back(topic, name, compared.wanted.first, exists=compared.present is not None)
            compared = self._compared(topic, name, held, logs)
        stored = self._stored.get(topic)
        is_lost = stored is not None and any(each <= stored for each in compared.due)
        if stored is not None and not is_lost:  # partly acknowledged batches cannot be verified
            return "", is_behind
        reason, is_set = self._acknowledge(topic, name, compared)
        if is_set and not reason:
            compared = self._compared(topic, name, held, logs)
            if compared.lacking or (compared.present is not None and compared.is_behind):
                reason = f"{compared.lacking:,} acknowledgements have no effect in {self._pulsar.name} yet"
        return reason, is_behind or is_set

    def _acknowledge(self, topic: str, name: str, compared: _Compared) -> tuple[str, bool]:
        """Acknowledge what the target has acknowledged; return why not, and whether there was anything."""
        wanted, through = compared.wanted, compared.wanted.through
        ids = [message_id(each) for each in compared.due if each > through]
        ids += [
            message_id(place, batch_size=batch.messages, ack_set=int_to_words(batch.remaining))
            for place, batch in wanted.batches.items()
        ]
        if not ids and not compared.lacking:
            return "", False
        return self._brokers.acknowledge(topic, name, through, ids), True

    def _compared(self, topic: str, name: str, held: _Held, logs: _Logs) -> _Compared:
        found = internal_stats(self._pulsar.side, topic) or _NO_TOPIC
        cursor = dict(cursors_in(found, (name,))).get(name)
        present = None if cursor is None else acknowledged_in(cursor)
        known = present or IntervalSet()
        wanted = translated(held.acknowledged, held.partly, logs.here, logs.there, known, end_of(found))
        due = tuple(existing(wanted.acknowledged.subtract(known), ledger_sizes(found)))
        return _Compared(present, wanted, due)

    def _move_back(self, topic: str, name: str, first: Position | None, *, exists: bool) -> None:
        """Let a subscription begin at ``first``; None: at the start of the log."""
        client, start = self._pulsar.side.client.subscriptions, EARLIEST if first is None else first
        with self._pulsar.side.answers():
            if exists:
                client.reset(TopicName.parse(topic), name, start)
            else:
                client.create(TopicName.parse(topic), name, start)

    def _held(self, topic: str, name: str) -> _Held:
        pages = list(self._pages(topic, name))
        mark = max(Position.parse(page["markDeletePosition"]) for page in pages)
        pairs = [(EARLIEST, mark)] if mark > EARLIEST else []
        pairs += [
            (Position(ledger, first - 1), Position(ledger, last))
            for page in pages
            for ledger, first, last in page["ranges"]
        ]
        batches = [each for page in pages for each in page["batches"].items()]
        partly = {Position.parse(text): words_to_int(words) for text, words in batches}
        return _Held(mark, IntervalSet.from_pairs(pairs), partly)

    def _pages(self, topic: str, name: str) -> Iterator[Json]:
        after: Position | None = EARLIEST
        while after is not None:
            with self._target.side.answers():
                page = self._target.side.client.subscriptions.acknowledgements(TopicName.parse(topic), name, after)
            yield page
            after = None if page.get("next") is None else Position.parse(page["next"])

    @property
    def _published_meanwhile(self) -> str:
        return f"a client has published to {self._pulsar.name} meanwhile"

    # --- statistics --------------------------------------------------------------------------------------------------

    def _target_stats(self, topic: str) -> Json:
        with self._target.side.answers():
            return self._target.side.client.topics.stats(TopicName.parse(topic), precise_backlog=True)
