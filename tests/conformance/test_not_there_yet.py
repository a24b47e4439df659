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
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.broker import Broker


@pytest.fixture
def raw(broker: Broker) -> Iterator[RawConnection]:
    """A connection after the handshake."""
    with RawConnection.connected(broker.service_url) as connection:
        yield connection


def test_a_compacted_subscription_is_refused(raw: RawConnection, topic: str) -> None:
    answer = raw.request(
        "SUBSCRIBE",
        "ERROR",
        topic=topic,
        subscription="s",
        subType=pb.CommandSubscribe.Failover,
        consumer_id=1,
        read_compacted=True,
    )
    assert answer.error == pb.NotAllowedError
    assert "topics are not compacted" in answer.message


def test_a_table_view_has_the_latest_value_of_each_key(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    for number, key in enumerate(["a", "b", "a"]):
        producer.send(b"%d" % number, partition_key=key)
    view = client.create_table_view(topic)
    assert {key: view.get(key) for key in ("a", "b")} == {"a": b"2", "b": b"1"}
    producer.send(b"3", partition_key="b")
    wait_until(lambda: view.get("b") == b"3", RECEIVE_TIMEOUT_MS / 1000, what="the new value")


def test_a_compacted_reader_reads_every_message(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    for payload in numbered(3):
        producer.send(payload, partition_key="one")
    reader = client.create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=True)
    assert [reader.read_next(RECEIVE_TIMEOUT_MS).data() for _ in range(3)] == numbered(3)


def test_a_producer_of_transactions_is_refused(raw: RawConnection, topic: str) -> None:
    answer = raw.request("PRODUCER", "ERROR", topic=topic, producer_id=1, txn_enabled=True)
    assert answer.error == pb.NotAllowedError
    assert answer.message == "transactions are not supported by this broker"


@pytest.mark.parametrize(
    "command",
    [
        "TC_CLIENT_CONNECT_REQUEST",
        "NEW_TXN",
        "ADD_PARTITION_TO_TXN",
        "ADD_SUBSCRIPTION_TO_TXN",
        "END_TXN",
        "END_TXN_ON_PARTITION",
        "END_TXN_ON_SUBSCRIPTION",
    ],
)
def test_a_command_of_a_transaction_is_refused(raw: RawConnection, command: str) -> None:
    answer = raw.request(command, "ERROR")
    assert answer.error == pb.NotAllowedError
    assert answer.message == f"{command} is not supported by this broker"


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
