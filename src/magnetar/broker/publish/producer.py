"""Producers: publishing of the entries that a connection sends."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from magnetar.base.errors import ServerError
from magnetar.base.position import EARLIEST
from magnetar.broker.publish.client_producer import ClientProducer
from magnetar.wire import commands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.errors import MagnetarError, RequestError, StorageError
    from magnetar.base.position import Position
    from magnetar.broker.publish.interfaces import Producer, PublishedTopic, SendHead, StoringProducer


class LocalProducer(ClientProducer):
    """A producer of a client, whose entries are stored and have their origin in this cluster."""

    topic: PublishedTopic

    def publish(self, heads: Sequence[SendHead], entries: list[bytes]) -> None:
        """Append the run; write the receipts of its SENDs, in order, when it is durable."""
        topic, session = self.topic, self.session
        if topic.is_closing or self._stopped:
            return
        messages = sum([num_messages for _, _, num_messages in heads])
        self.messages_in += messages
        size = sum(map(len, entries))
        self.bytes_in += size
        if topic.rates.publish_limits:
            self._obey(messages, size)
        if topic.deduplication.sequence_ids is not None:
            topic.arrivals.messages_in += topic.deduplication.publish(self, heads, entries)
            return
        topic.arrivals.messages_in += messages
        session.publishes_started(len(heads), size)

        def durable(first: Position, error: StorageError | None) -> None:
            session.publishes_finished(len(heads), size)
            if error is None:
                answer_stored(self, heads, first)
            else:
                answer_failed(self, heads, error)

        topic.log.append(entries, durable)

    def publish_with_refusals(self, heads: Sequence[SendHead], entries: Sequence[bytes | RequestError]) -> None:
        """Refuse invalid entries and append the others.

        With deduplication, no entry after a refused one is accepted: the messages of the refused entry could not be
        sent again, since they would be older than stored ones. The client must reconnect, and sends all entries without
        a receipt again, in order.
        """
        if self.topic.deduplication.sequence_ids is None:
            publish_rest(self, heads, entries)
            return
        taken: list[bytes] = []
        for entry in entries:
            if not isinstance(entry, bytes):
                self._publish_until(heads, taken, entry)
                return
            taken.append(entry)
        self.publish(heads, taken)

    def _publish_until(self, heads: Sequence[SendHead], taken: list[bytes], refusal: RequestError) -> None:
        """Publish the entries before a refused one, answer its SEND, and close the producer."""
        if taken:
            self.publish(heads[: len(taken)], taken)
        if self._stopped:
            return
        self._stopped = True

        def settled(_error: StorageError | None) -> None:
            if self.session.producers.get(self.options.producer_id) is self:
                answer_error(self, heads[len(taken)], refusal.code, str(refusal))
                self.session.close_producer(self)

        self.topic.log.behind_appends(settled)


def publish_rest(producer: StoringProducer, heads: Sequence[SendHead], entries: Sequence[bytes | RequestError]) -> None:
    """Refuse invalid entries and publish the others; all SENDs are answered in order.

    Pulsar's Java client drops a refused message if it is the oldest one without a receipt. If a later receipt arrives
    before that, the client reconnects and sends all of them again.
    """
    for _, run in groupby(zip(heads, entries, strict=True), lambda each: isinstance(each[1], bytes)):
        heads_of_run, entries_of_run = zip(*run, strict=True)
        taken = [entry for entry in entries_of_run if isinstance(entry, bytes)]
        if taken:
            producer.publish(heads_of_run, taken)
        else:
            _refuse(producer, heads_of_run, entries_of_run)


def _refuse(producer: StoringProducer, heads: Sequence[SendHead], refusals: Sequence[RequestError]) -> None:
    """Answer SENDs with errors, after the receipts of earlier SENDs."""
    topic, session = producer.topic, producer.session
    session.publishes_started(len(heads), 0)

    def answer() -> None:
        each = zip(heads, refusals, strict=True)
        _write(producer, b"".join([_error(producer, head, refusal.code, str(refusal)) for head, refusal in each]))

    def settled(_error: StorageError | None) -> None:
        session.publishes_finished(len(heads), 0)
        topic.lag_limit.behind_receipts(session, answer, len(heads))

    topic.log.behind_appends(settled)


def answer_stored(producer: StoringProducer, heads: Sequence[SendHead], first: Position) -> None:
    """Write the receipts of SENDs with consecutive entries from ``first`` on, as soon as the limit of lag allows it."""
    receipts = commands.send_receipts(producer_id=producer.options.producer_id, heads=heads, first=first)
    if producer.topic.lag_limit.gate is None:
        _write(producer, receipts)
    else:
        last = first._replace(entry_id=first.entry_id + len(heads) - 1)
        _write_when_safe(producer, last, len(heads), receipts)


def answer_repeated(producer: StoringProducer, heads: Sequence[SendHead]) -> None:
    """Write the receipts of duplicates, as soon as the limit of lag allows receipts for all stored entries."""
    receipts = _receipts_at(EARLIEST, producer, heads)
    if producer.topic.lag_limit.gate is None:
        _write(producer, receipts)
    else:
        _write_when_safe(producer, producer.topic.ledger.last_confirmed_entry, len(heads), receipts)


def _write_when_safe(producer: StoringProducer, last: Position, count: int, receipts: bytes) -> None:
    producer.topic.lag_limit.after(producer.session, last, count, lambda: _write(producer, receipts))


def _write(producer: Producer, answers: bytes) -> None:
    """Write answers to SENDs, unless another producer uses the id now."""
    session = producer.session
    if session.producers.get(producer.options.producer_id, producer) is producer:
        session.write(answers)


def answer_failed(producer: Producer, heads: Sequence[SendHead], error: MagnetarError) -> None:
    """Answer all SENDs of a failed run."""
    code, message = ServerError.PersistenceError, str(error)
    _write(producer, b"".join([_error(producer, head, code, message) for head in heads]))


def answer_error(producer: Producer, head: SendHead, code: ServerError, message: str) -> None:
    """Answer one SEND with SEND_ERROR."""
    _write(producer, _error(producer, head, code, message))


def _error(producer: Producer, head: SendHead, code: ServerError, message: str) -> bytes:
    return commands.send_error(
        producer_id=producer.options.producer_id, sequence_id=max(head[:2]), code=code, message=message
    )


def answer_at(producer: Producer, heads: Sequence[SendHead], position: Position) -> None:
    """Write receipts of SENDs that all have the same position; that of duplicates is Pulsar's -1:-1."""
    _write(producer, _receipts_at(position, producer, heads))


def _receipts_at(position: Position, producer: Producer, heads: Sequence[SendHead]) -> bytes:
    return commands.send_receipts_at(producer_id=producer.options.producer_id, heads=heads, position=position)
