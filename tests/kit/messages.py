"""Helper functions for the official client."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import pulsar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Option = Any
"""An option of the client."""

RECEIVE_TIMEOUT_MS = 20_000
"""Time limit for an expected message, in milliseconds."""

QUIET_MS = 400
"""Milliseconds without a message after which no more is expected."""

OPERATION_TIMEOUT_S = 20


def connect(service_url: str, **options: Option) -> pulsar.Client:
    """Return an official client without log output, because the tests make it reconnect."""
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
    return pulsar.Client(service_url, **{"operation_timeout_seconds": OPERATION_TIMEOUT_S, "logger": logger, **options})


def close_after_kill(client: pulsar.Client) -> None:
    """Close a client whose broker was killed; ignore the error if the client has noticed the kill."""
    with contextlib.suppress(pulsar.NotConnected):
        client.close()


def numbered(count: int, first: int = 0) -> list[bytes]:
    """Return the payloads ``first`` … ``first + count - 1`` in decimal."""
    return [b"%d" % number for number in range(first, first + count)]


def publish(client: pulsar.Client, topic: str, payloads: Iterable[bytes], **options: Option) -> list[pulsar.MessageId]:
    """Publish ``payloads`` one by one, each after the previous receipt; return their ids."""
    producer = client.create_producer(topic, **options)
    try:
        return [producer.send(payload) for payload in payloads]
    finally:
        producer.close()


def send_all(producer: pulsar.Producer, messages: Sequence[tuple[bytes, dict[str, Option]]]) -> None:
    """Send payloads with these options without waiting in between; return after all receipts."""
    results: list[pulsar.Result] = []
    for payload, options in messages:
        producer.send_async(payload, lambda result, _id: results.append(result), **options)
    producer.flush()
    assert results == [pulsar.Result.Ok] * len(messages), results


def publish_in_batches(client: pulsar.Client, topic: str, payloads: Iterable[bytes], per_batch: int) -> None:
    """Publish ``payloads`` in batches of exactly ``per_batch`` messages; the last one may be smaller."""
    hour_ms = 3_600_000
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=per_batch,
        batching_max_publish_delay_ms=hour_ms,
        block_if_queue_full=True,
    )
    send_all(producer, [(payload, {}) for payload in payloads])
    producer.close()


def receive(consumer: pulsar.Consumer, count: int, *, acknowledge: bool = False) -> list[pulsar.Message]:
    """Return the next ``count`` messages; raises pulsar.Timeout if one is missing."""
    messages = []
    for _ in range(count):
        message = consumer.receive(RECEIVE_TIMEOUT_MS)
        messages.append(message)
        if acknowledge:
            consumer.acknowledge(message)
    return messages


def receive_data(consumer: pulsar.Consumer, count: int, *, acknowledge: bool = False) -> list[bytes]:
    """Return the payloads of the next ``count`` messages."""
    return [message.data() for message in receive(consumer, count, acknowledge=acknowledge)]


def nothing_comes(consumer: pulsar.Consumer, quiet_ms: int = QUIET_MS) -> bool:
    """Return whether no message arrives for ``quiet_ms``; raises AssertionError with the message otherwise."""
    try:
        message = consumer.receive(quiet_ms)
    except pulsar.Timeout:
        return True
    text = f"unexpected message {message.data()[:100]!r} {message.message_id()}"
    raise AssertionError(text)


def receive_until_quiet(consumer: pulsar.Consumer, quiet_ms: int = QUIET_MS) -> list[pulsar.Message]:
    """Return all messages until ``quiet_ms`` pass without one."""
    messages = []
    while True:
        try:
            messages.append(consumer.receive(quiet_ms))
        except pulsar.Timeout:
            return messages


def read_log(client: pulsar.Client, topic: str) -> list[pulsar.Message]:
    """Return all messages in the log of an unpartitioned topic, in order."""
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    messages = []
    while reader.has_message_available():
        messages.append(reader.read_next(RECEIVE_TIMEOUT_MS))
    reader.close()
    return messages


def entry_of(message_id: pulsar.MessageId) -> tuple[int, int]:
    """Return ledger and entry id of a message id."""
    return message_id.ledger_id(), message_id.entry_id()
