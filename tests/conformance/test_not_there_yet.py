"""Features that README lists as missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulsar
import pytest

from magnetar.sim.cluster import entry
from magnetar.wire.frame import encode_command
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.messages import RECEIVE_TIMEOUT_MS, numbered
from tests.kit.raw import RawConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.broker import Broker


@pytest.fixture
def raw(broker: Broker) -> Iterator[RawConnection]:
    """A connection after the handshake."""
    with RawConnection.connected(broker.service_url) as connection:
        yield connection


def test_a_compacted_reader_of_a_topic_that_was_never_compacted_reads_every_message(
    client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    for payload in numbered(3):
        producer.send(payload, partition_key="one")
    reader = client.create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=True)
    assert [reader.read_next(RECEIVE_TIMEOUT_MS).data() for _ in range(3)] == numbered(3)


def test_a_message_of_a_transaction_is_refused(raw: RawConnection, topic: str) -> None:
    raw.create_producer(topic)
    send = pb.CommandSend(producer_id=1, sequence_id=0, txnid_most_bits=0, txnid_least_bits=1)
    raw.socket.sendall(encode_command(pb.BaseCommand(type=pb.BaseCommand.SEND, send=send), entry("within")))
    assert raw.expect("SEND_ERROR").error == pb.NotAllowedError


def test_a_reader_that_starts_a_duration_ago_is_refused(raw: RawConnection, topic: str) -> None:
    answer = raw.request(
        "SUBSCRIBE",
        "ERROR",
        topic=topic,
        subscription="s",
        subType=pb.CommandSubscribe.Exclusive,
        consumer_id=1,
        durable=False,
        start_message_rollback_duration_sec=60,
    )
    assert answer.error == pb.NotAllowedError
