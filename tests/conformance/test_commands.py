"""Commands whose responses the official client hides, or that it never sends; with Pulsar's response to each."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import google_crc32c
import pytest

from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.messages import numbered, publish
from tests.kit.raw import BROKER_REQUEST_ID, Part, RawConnection
from tests.kit.rest import topic_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pulsar

    from tests.kit.broker import Broker


@pytest.fixture
def raw(broker: Broker) -> Iterator[RawConnection]:
    """A connection after the handshake."""
    with RawConnection.connected(broker.service_url) as connection:
        yield connection


def test_connected_names_server_version_and_limit(broker: Broker) -> None:
    with RawConnection(broker.service_url) as connection:
        connection.send("CONNECT", client_version="raw", protocol_version=20)
        answer = connection.expect("CONNECTED")
    assert answer.server_version
    assert answer.max_message_size == 5 * 1024 * 1024


@pytest.mark.parametrize(("asked", "answered"), [(12, [12]), (20, [20]), (1000, [20, 21])])
def test_protocol_version_is_the_lower_of_both(broker: Broker, asked: int, answered: list[int]) -> None:
    with RawConnection(broker.service_url) as connection:
        connection.send("CONNECT", client_version="raw", protocol_version=asked)
        assert connection.expect("CONNECTED").protocol_version in answered


def test_ping_is_answered(raw: RawConnection) -> None:
    assert raw.is_answering()


def test_lookup_connects_to_this_broker(raw: RawConnection, broker: Broker, topic: str) -> None:
    answer = raw.request("LOOKUP", "LOOKUP_RESPONSE", topic=topic)
    assert answer.response == pb.CommandLookupTopicResponse.Connect
    assert (answer.brokerServiceUrl, answer.authoritative) == (broker.service_url, True)


def test_lookup_in_a_namespace_that_is_not_there(raw: RawConnection) -> None:
    answer = raw.request("LOOKUP", "LOOKUP_RESPONSE", topic="persistent://public/nowhere/t")
    assert answer.response == pb.CommandLookupTopicResponse.Failed
    assert answer.HasField("error")


def test_partitioned_metadata_of_a_bad_name(raw: RawConnection) -> None:
    answer = raw.request("PARTITIONED_METADATA", "PARTITIONED_METADATA_RESPONSE", topic="persistent://not-a-topic")
    assert answer.response == pb.CommandPartitionedTopicMetadataResponse.Failed
    assert answer.error == pb.InvalidTopicName


def test_partitioned_metadata_without_creating(raw: RawConnection, broker: Broker, topic: str) -> None:
    answer = raw.request(
        "PARTITIONED_METADATA", "PARTITIONED_METADATA_RESPONSE", topic=topic, metadata_auto_creation_enabled=False
    )
    assert answer.response == pb.CommandPartitionedTopicMetadataResponse.Failed
    assert answer.error == pb.TopicNotFound
    assert topic not in broker.rest.get("persistent/public/default")


def test_partitioned_metadata_counts_partitions(raw: RawConnection, broker: Broker, topic: str) -> None:
    broker.rest.put(f"{topic_path(topic)}/partitions", 5)
    ask = {"name": "PARTITIONED_METADATA", "answer": "PARTITIONED_METADATA_RESPONSE"}
    assert raw.request(**ask, topic=topic).partitions == 5
    partition = raw.request(**ask, topic=f"{topic}-partition-3")
    assert partition.HasField("partitions")
    assert partition.partitions == 0


def test_topics_of_a_namespace_and_their_hash(raw: RawConnection, client: pulsar.Client, topic: str) -> None:
    publish(client, topic, [b"x"])

    def ask(**fields: str) -> Part:
        return raw.request(
            "GET_TOPICS_OF_NAMESPACE", "GET_TOPICS_OF_NAMESPACE_RESPONSE", namespace="public/default", **fields
        )

    answer = ask()
    assert topic in answer.topics
    names = ",".join(sorted(answer.topics)).encode()
    assert answer.topics_hash == google_crc32c.value(names).to_bytes(4, "little").hex()
    unchanged = ask(topics_hash=answer.topics_hash)
    assert (unchanged.changed, list(unchanged.topics)) == (False, [])
    filtered = ask(topics_pattern=f"public/default/.*{topic[-6:]}")
    assert (filtered.filtered, list(filtered.topics)) == (True, [topic])


@pytest.mark.parametrize("pattern", ["public/(?=default/).*", "(", "public/default/" + "." * 36])
def test_a_pattern_that_the_broker_does_not_apply_is_left_to_the_client(
    raw: RawConnection, client: pulsar.Client, topic: str, pattern: str
) -> None:
    """Patterns with look-ahead, which takes unbounded time; no pattern; a pattern of more than 50 characters."""
    publish(client, topic, [b"x"])
    answer = raw.request(
        "GET_TOPICS_OF_NAMESPACE",
        "GET_TOPICS_OF_NAMESPACE_RESPONSE",
        namespace="public/default",
        topics_pattern=pattern,
    )
    assert not answer.filtered
    assert topic in answer.topics


def test_producer_success_names_the_producer(raw: RawConnection, topic: str) -> None:
    first = raw.create_producer(topic, producer_id=1)
    second = raw.create_producer(topic, producer_id=2, producer_name="mine")
    assert first.producer_name
    assert (second.producer_name, second.last_sequence_id, second.producer_ready) == ("mine", -1, True)


def test_producer_asked_for_twice_is_the_same(raw: RawConnection, topic: str) -> None:
    first = raw.create_producer(topic)
    assert raw.create_producer(topic).producer_name == first.producer_name


def test_receipts_follow_the_sends(raw: RawConnection, topic: str) -> None:
    raw.create_producer(topic)
    receipts = [raw.publish(payload, sequence_id=number) for number, payload in enumerate(numbered(5))]
    assert [receipt.sequence_id for receipt in receipts] == [0, 1, 2, 3, 4]
    assert [receipt.message_id.entryId for receipt in receipts] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("command", "part"), [("CLOSE_PRODUCER", "producer_id"), ("CLOSE_CONSUMER", "consumer_id")])
def test_closing_what_is_not_there_succeeds(raw: RawConnection, command: str, part: str) -> None:
    raw.request(command, "SUCCESS", **{part: 77})


def test_unsubscribing_an_unknown_consumer(raw: RawConnection) -> None:
    assert raw.request("UNSUBSCRIBE", "ERROR", consumer_id=77).error == pb.MetadataError


def test_last_message_id_of_an_unknown_consumer(raw: RawConnection) -> None:
    assert raw.request("GET_LAST_MESSAGE_ID", "ERROR", consumer_id=77).error == pb.MetadataError


def test_stats_of_an_unknown_consumer(raw: RawConnection) -> None:
    answer = raw.request("CONSUMER_STATS", "CONSUMER_STATS_RESPONSE", consumer_id=77)
    assert answer.error_code == pb.ConsumerNotFound


def test_consumer_stats(raw: RawConnection, topic: str) -> None:
    raw.subscribe(topic, "s", consumer_name="gate")
    raw.flow(10)
    raw.create_producer(topic)
    raw.publish(b"x")
    raw.expect("MESSAGE")
    answer = raw.request("CONSUMER_STATS", "CONSUMER_STATS_RESPONSE", consumer_id=1)
    assert (answer.consumerName, answer.type) == ("gate", "Shared")
    assert (answer.unackedMessages, answer.msgBacklog, answer.availablePermits) == (1, 1, 9)


def test_seek_closes_the_consumer_before_it_answers(raw: RawConnection, topic: str) -> None:
    raw.subscribe(topic, "s")
    raw.create_producer(topic)
    raw.publish(b"x")
    earliest = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
    raw.request("SEEK", "SUCCESS", consumer_id=1, message_id=earliest)
    (closed,) = raw.received("CLOSE_CONSUMER")
    assert (closed.consumer_id, closed.request_id) == (1, BROKER_REQUEST_ID)


def test_seek_to_nowhere(raw: RawConnection, topic: str) -> None:
    raw.subscribe(topic, "s")
    assert raw.request("SEEK", "ERROR", consumer_id=1).error == pb.MetadataError


def test_last_message_id_tells_the_mark_delete_position(raw: RawConnection, topic: str) -> None:
    raw.subscribe(topic, "s")
    raw.create_producer(topic)
    ids = [raw.publish(payload, sequence_id=number).message_id for number, payload in enumerate(numbered(4))]
    raw.flow(4)
    raw.acknowledge(ids[0], ids[1])
    answer = raw.request("GET_LAST_MESSAGE_ID", "GET_LAST_MESSAGE_ID_RESPONSE", consumer_id=1)
    assert (answer.last_message_id.entryId, answer.consumer_mark_delete_position.entryId) == (3, 1)


def test_redelivery_of_chosen_messages(raw: RawConnection, topic: str) -> None:
    raw.subscribe(topic, "s")
    raw.create_producer(topic)
    for number, payload in enumerate(numbered(4)):
        raw.publish(payload, sequence_id=number)
    raw.flow(10)
    ids = [raw.expect("MESSAGE").message_id for _ in range(4)]
    raw.send("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1, message_ids=[ids[1], ids[3]])
    again = [raw.expect("MESSAGE") for _ in range(2)]
    assert [(message.message_id.entryId, message.redelivery_count) for message in again] == [(1, 1), (3, 1)]


def test_message_of_a_partition_names_it(raw: RawConnection, broker: Broker, topic: str) -> None:
    broker.rest.put(f"{topic_path(topic)}/partitions", 3)
    raw.subscribe(f"{topic}-partition-2", "s")
    raw.create_producer(f"{topic}-partition-2")
    raw.publish(b"x")
    raw.flow(1)
    assert raw.expect("MESSAGE").message_id.partition == 2


def test_consumer_on_a_topic_that_it_may_not_create(raw: RawConnection, topic: str) -> None:
    answer = raw.request(
        "SUBSCRIBE",
        "ERROR",
        topic=topic,
        subscription="s",
        subType=pb.CommandSubscribe.Shared,
        consumer_id=1,
        force_topic_creation=False,
    )
    assert answer.error == pb.TopicNotFound


@pytest.mark.parametrize("type_number", [50, 62], ids=["NEW_TXN", "TC_CLIENT_CONNECT_REQUEST"])
def test_transactions_are_refused_by_name(raw: RawConnection, type_number: int) -> None:
    """Commands that are missing in our protocol file: type and body in protobuf's encoding, request id 77."""
    body = b"\x08\x4d\x10\x00"
    tag = (type_number << 3) | 2
    serialized = bytes([0x08, type_number, tag & 0x7F | 0x80, tag >> 7, len(body)]) + body
    raw.socket.sendall(struct.pack(">II", len(serialized) + 4, len(serialized)) + serialized)
    answer = raw.expect("ERROR", lambda part: part.request_id == 77)
    assert answer.error == pb.NotAllowedError


def test_schema_that_is_not_there(raw: RawConnection, topic: str) -> None:
    raw.create_producer(topic)
    assert raw.request("GET_SCHEMA", "GET_SCHEMA_RESPONSE", topic=topic).error_code == pb.TopicNotFound


def test_cumulative_acknowledgement_of_a_shared_subscription_is_ignored(raw: RawConnection, topic: str) -> None:
    raw.subscribe(topic, "s")
    raw.create_producer(topic)
    for number, payload in enumerate(numbered(3)):
        raw.publish(payload, sequence_id=number)
    raw.flow(3)
    last = [raw.expect("MESSAGE").message_id for _ in range(3)][-1]
    raw.send("ACK", consumer_id=1, ack_type=pb.CommandAck.Cumulative, message_id=[last])
    stats = raw.request("CONSUMER_STATS", "CONSUMER_STATS_RESPONSE", consumer_id=1)
    assert stats.msgBacklog == 3


def test_connection_that_goes_frees_what_it_held(broker: Broker, raw: RawConnection, topic: str) -> None:
    with RawConnection.connected(broker.service_url) as other:
        other.subscribe(topic, "s", subType=pb.CommandSubscribe.Exclusive)
        other.create_producer(topic, producer_name="p")
    raw.subscribe(topic, "s", subType=pb.CommandSubscribe.Exclusive)
    assert raw.create_producer(topic, producer_name="p").producer_name == "p"
