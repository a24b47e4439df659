"""Producers of non-persistent topics."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

from magnetar.base.limits import Limit
from magnetar.base.position import EARLIEST, Position
from magnetar.base.rates import Rates
from magnetar.broker.publish.client_producer import ClientProducer
from magnetar.broker.publish.interfaces import ProducerTopic
from magnetar.broker.publish.producer import answer_at, answer_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.errors import RequestError
    from magnetar.broker.non_persistent.distribution import Distribution
    from magnetar.broker.publish.interfaces import ProducerOptions, ProducerSession, SendHead

POSITION = Position(0, 0)
"""The id of all messages, as in Pulsar."""


class DistributingTopic(ProducerTopic, Protocol):
    """The topic of a producer."""

    @property
    def distribution(self) -> Distribution:
        """The distribution to the subscriptions."""
        ...


class NonPersistentProducer(ClientProducer):
    """A producer of a client, whose entries are distributed at once."""

    topic: DistributingTopic

    def __init__(
        self, topic: DistributingTopic, session: ProducerSession, options: ProducerOptions, *, now: float
    ) -> None:
        """Create a producer."""
        super().__init__(topic, session, options, now=now)
        self.dropped = 0
        """Messages that were dropped because too many SENDs of the connection waited."""
        self.drop_rate = Rates(1)

    def publish(self, heads: Sequence[SendHead], entries: list[bytes]) -> None:
        """Distribute the run, and write receipts with the id 0:0; those of dropped messages have the id -1:-1."""
        topic = self.topic
        if topic.is_closing or self._stopped:
            return
        messages, size = _messages(heads), sum(map(len, entries))
        self.messages_in += messages
        self.bytes_in += size
        topic.arrivals.messages_in += messages
        topic.arrivals.bytes_in += size
        if topic.rates.publish_limits:
            self._obey(messages, size)
        room = topic.distribution.room(self.session)
        taken = len(entries) if room is None else min(room, len(entries))
        if taken:
            receipts = partial(answer_at, self, heads[:taken], POSITION)
            topic.distribution.add(self.session, entries[:taken], taken, receipts)
        if taken < len(entries):
            rest = heads[taken:]
            self.dropped += _messages(rest)
            topic.environment.limit_hits.hit(Limit.NON_PERSISTENT_MESSAGES)
            topic.distribution.add(self.session, (), len(rest), partial(answer_at, self, rest, EARLIEST))

    def publish_with_refusals(self, heads: Sequence[SendHead], entries: Sequence[bytes | RequestError]) -> None:
        """Refuse invalid entries and publish the others; all SENDs are answered in order."""
        for _, run in groupby(zip(heads, entries, strict=True), lambda each: isinstance(each[1], bytes)):
            heads_of_run, entries_of_run = zip(*run, strict=True)
            taken = [entry for entry in entries_of_run if isinstance(entry, bytes)]
            if taken:
                self.publish(heads_of_run, taken)
            elif not self._stopped:
                refuse = partial(self._refuse, heads_of_run, entries_of_run)
                self.topic.distribution.add(self.session, (), len(heads_of_run), refuse)

    def _refuse(self, heads: Sequence[SendHead], refusals: Sequence[RequestError]) -> None:
        for head, refusal in zip(heads, refusals, strict=True):
            answer_error(self, head, refusal.code, str(refusal))


def _messages(heads: Sequence[SendHead]) -> int:
    return sum([num_messages for _, _, num_messages in heads])
