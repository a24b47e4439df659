"""Commands equal protobuf's encoding, also if prepared messages are filled."""

from __future__ import annotations

import inspect
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import ServerError
from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.wire import commands
from magnetar.wire.commands import Delivery, per_message
from magnetar.wire.frame import Frame, FrameDecoder, encode_command
from magnetar.wire.message_id import Link, link_of, message_id, position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

ids = st.integers(0, 2**64 - 1)
positions = st.builds(Position, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)) | st.sampled_from(
    [EARLIEST, LATEST],
)
ack_sets = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)
deliveries = st.just(commands.FIRST_DELIVERY) | st.builds(
    Delivery,
    st.integers(0, 2**32 - 1),
    ack_sets,
    st.none() | st.integers(0, 2**64 - 1),
)


def decode(frame: bytes) -> Frame:
    (decoded,) = FrameDecoder().feed(frame)
    return decoded


def split(frames: bytes) -> list[bytes]:
    """Return each of the joined frames."""
    return [encode_command(frame.command, frame.body) for frame in FrameDecoder().feed(frames)]


def body_of(frame: bytes) -> tuple[str, dict[str, object]]:
    """Return the name of the command and its fields, with nested messages as text."""
    command = decode(frame).command
    (field,) = (field for field, _ in command.ListFields() if field.name != "type")
    assert field.number == command.type
    return field.name, {inner.name: value for inner, value in getattr(command, field.name).ListFields()}


@given(ids, positions, st.binary(max_size=9), st.integers(-1, 9), deliveries)
def test_message(consumer_id: int, position: Position, entry: bytes, partition: int, delivery: Delivery) -> None:
    frame = commands.message(
        consumer_id=consumer_id, position=position, entry=entry, partition=partition, delivery=delivery
    )
    command, body = decode(frame)
    assert (command.type, body) == (pb.BaseCommand.MESSAGE, entry)
    assert command.message.consumer_id == consumer_id
    assert command.message.message_id == message_id(position, partition=partition)
    assert command.message.redelivery_count == delivery.redelivery_count
    assert command.message.ack_set == list(delivery.ack_set)
    assert command.message.HasField("consumer_epoch") == (delivery.consumer_epoch is not None)
    assert command.message.consumer_epoch == (delivery.consumer_epoch or 0)


@given(
    ids,
    ids,
    st.lists(st.integers(0, 2**63 - 1)) | st.builds(lambda first: range(first, first + 300), st.integers(0, 20_000)),
    st.integers(-1, 9),
    st.none() | ids,
)
def test_messages_are_those_of_each_entry(
    consumer_id: int, ledger_id: int, entry_ids: Sequence[int], partition: int, epoch: int | None
) -> None:
    entries = [b"x" * (entry_id % 5) for entry_id in entry_ids]
    joined = commands.messages(
        consumer_id=consumer_id,
        ledger_id=ledger_id,
        entry_ids=entry_ids,
        entries=entries,
        partition=partition,
        consumer_epoch=epoch,
    )
    one_by_one = [
        commands.message(
            consumer_id=consumer_id,
            position=Position(ledger_id, entry_id),
            entry=entry,
            partition=partition,
            delivery=commands.FIRST_DELIVERY if epoch is None else commands.Delivery(consumer_epoch=epoch),
        )
        for entry_id, entry in zip(entry_ids, entries, strict=True)
    ]
    assert joined == b"".join(one_by_one)


@given(ids, positions, st.builds(Link, positions, positions, st.booleans()))
def test_message_on_a_link(consumer_id: int, position: Position, link: Link) -> None:
    frame = commands.message_on_link(consumer_id=consumer_id, position=position, entry=b"entry", link=link)
    command, body = decode(frame)
    assert (command.message.consumer_id, position_of(command.message.message_id)) == (consumer_id, position)
    assert link_of(command.message) == link
    assert body == b"entry"


@given(ids, ids, st.integers(1, 99), st.booleans(), st.booleans())
def test_send(producer_id: int, sequence_id: int, num_messages: int, marker: bool, is_chunk: bool) -> None:
    frame = commands.send(
        producer_id=producer_id,
        sequence_id=sequence_id,
        entry=b"entry",
        num_messages=num_messages,
        marker=marker,
        is_chunk=is_chunk,
    )
    body = pb.CommandSend(
        producer_id=producer_id,
        sequence_id=sequence_id,
        num_messages=num_messages,
        is_chunk=is_chunk,
        marker=marker,
    )
    assert frame == encode_command(pb.BaseCommand(type=pb.BaseCommand.SEND, send=body), b"entry")


@given(ids, ids, positions, ids)
def test_send_receipt(producer_id: int, sequence_id: int, position: Position, highest: int) -> None:
    frame = commands.send_receipt(
        producer_id=producer_id, sequence_id=sequence_id, position=position, highest_sequence_id=highest
    )
    body = pb.CommandSendReceipt(
        producer_id=producer_id,
        sequence_id=sequence_id,
        message_id=message_id(position),
        highest_sequence_id=highest,
    )
    assert frame == encode_command(pb.BaseCommand(type=pb.BaseCommand.SEND_RECEIPT, send_receipt=body))


def test_threads_do_not_share_prepared_commands() -> None:
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(id(per_message._prepared.send[1])))
    thread.start()
    thread.join()
    assert seen != [id(per_message._prepared.send[1])]


@given(ids, st.lists(st.tuples(ids, ids | st.just(0), st.just(1)), max_size=9), ids, st.integers(0, 2**62))
def test_send_receipts_are_those_of_each_send(
    producer_id: int, heads: list[tuple[int, int, int]], ledger_id: int, first: int
) -> None:
    one_by_one = [
        commands.send_receipt(
            producer_id=producer_id,
            sequence_id=sequence_id,
            highest_sequence_id=highest,
            position=Position(ledger_id, first + index),
        )
        for index, (sequence_id, highest, _) in enumerate(heads)
    ]
    joined = commands.send_receipts(producer_id=producer_id, heads=heads, first=Position(ledger_id, first))
    assert joined == b"".join(one_by_one)


@given(ids, st.lists(st.tuples(ids, ids | st.just(0), st.just(1)), max_size=9), positions | st.just(EARLIEST))
def test_send_receipts_at_one_position_are_those_of_each_send(
    producer_id: int, heads: list[tuple[int, int, int]], position: Position
) -> None:
    one_by_one = [
        commands.send_receipt(
            producer_id=producer_id, sequence_id=sequence_id, highest_sequence_id=highest, position=position
        )
        for sequence_id, highest, _ in heads
    ]
    joined = commands.send_receipts_at(producer_id=producer_id, heads=heads, position=position)
    assert joined == b"".join(one_by_one)


def test_send_receipts_of_duplicates_of_a_producer_that_counts() -> None:
    heads = [(sequence_id, 0, 1) for sequence_id in range(200, 300)]
    joined = commands.send_receipts_at(producer_id=1, heads=heads, position=EARLIEST)
    receipts = [decode(frame).command.send_receipt for frame in split(joined)]
    assert [receipt.sequence_id for receipt in receipts] == list(range(200, 300))
    assert {position_of(receipt.message_id) for receipt in receipts} == {EARLIEST}


@pytest.mark.parametrize(("count", "highest"), [(1, 0), (50, 0), (50, 3), (300, 0)])
@pytest.mark.parametrize("first", [0, 100, 128, 2**21 - 5])
def test_send_receipts_of_a_producer_that_counts(count: int, highest: int, first: int) -> None:
    heads = [(first + index, highest and first + index + highest, 1) for index in range(count)]
    joined = commands.send_receipts(producer_id=1, heads=heads, first=Position(5, 2 * first))
    receipts = [decode(frame).command.send_receipt for frame in split(joined)]
    assert [(receipt.sequence_id, receipt.highest_sequence_id) for receipt in receipts] == [head[:2] for head in heads]
    assert [position_of(receipt.message_id) for receipt in receipts] == [
        Position(5, 2 * first + index) for index in range(count)
    ]


@given(positions)
def test_positions_survive_as_message_ids(position: Position) -> None:
    assert position_of(message_id(position)) == position


def test_a_message_id_leaves_defaults_out() -> None:
    assert [field.name for field, _ in message_id(Position(1, 2)).ListFields()] == ["ledgerId", "entryId"]
    full = message_id(Position(1, 2), partition=0, batch_index=0, batch_size=3, ack_set=[5])
    assert (full.partition, full.batch_index, full.batch_size, list(full.ack_set)) == (0, 0, 3, [5])


def test_a_link_that_the_broker_does_not_describe_begins_at_the_start() -> None:
    assert link_of(pb.CommandMessage()) == Link(EARLIEST, EARLIEST, link_start=False)
    assert link_of(pb.CommandMessage(previous_message_id=message_id(Position(1, 2)))).floor == Position(1, 2)


CODE = ServerError.TopicNotFound
CASES = [
    (commands.connect(client_version="v"), "connect", {"client_version": "v", "protocol_version": 20}),
    (
        commands.connected(server_version="s", protocol_version=19, max_message_size=5),
        "connected",
        {"server_version": "s", "protocol_version": 19, "max_message_size": 5},
    ),
    (commands.ping(), "ping", {}),
    (commands.pong(), "pong", {}),
    (commands.success(request_id=1), "success", {"request_id": 1}),
    (commands.error(request_id=1, code=CODE, message="m"), "error", {"request_id": 1, "error": 11, "message": "m"}),
    (
        commands.partitioned_metadata(topic="t", request_id=1, metadata_auto_creation_enabled=False),
        "partitionMetadata",
        {"topic": "t", "request_id": 1, "metadata_auto_creation_enabled": False},
    ),
    (
        commands.partitioned_metadata_response(request_id=1, partitions=0),
        "partitionMetadataResponse",
        {"request_id": 1, "partitions": 0, "response": 0},
    ),
    (
        commands.partitioned_metadata_failed(request_id=1, code=CODE, message="m"),
        "partitionMetadataResponse",
        {"request_id": 1, "response": 1, "error": 11, "message": "m"},
    ),
    (
        commands.lookup(topic="t", request_id=1, authoritative=True),
        "lookupTopic",
        {"topic": "t", "request_id": 1, "authoritative": True},
    ),
    (
        commands.lookup_response(request_id=1, broker_service_url="pulsar://b"),
        "lookupTopicResponse",
        {"request_id": 1, "brokerServiceUrl": "pulsar://b", "response": 1, "authoritative": True},
    ),
    (
        commands.lookup_response(request_id=1, broker_service_url="pulsar://b", redirect=True, authoritative=False),
        "lookupTopicResponse",
        {"request_id": 1, "brokerServiceUrl": "pulsar://b", "response": 0, "authoritative": False},
    ),
    (
        commands.lookup_failed(request_id=1, code=CODE, message="m"),
        "lookupTopicResponse",
        {"request_id": 1, "response": 2, "error": 11, "message": "m"},
    ),
    (
        commands.get_topics_of_namespace(request_id=1, namespace="n"),
        "getTopicsOfNamespace",
        {"request_id": 1, "namespace": "n", "mode": 0},
    ),
    (
        commands.get_topics_of_namespace_response(request_id=1, topics=["t"], topics_hash="h"),
        "getTopicsOfNamespaceResponse",
        {"request_id": 1, "topics": ["t"], "topics_hash": "h", "filtered": False, "changed": True},
    ),
    (commands.watch_links(request_id=1, target="jfk"), "watchLinks", {"request_id": 1, "target": "jfk"}),
    (
        commands.links_changed(added=["a/b"], removed=["a/c"], topics_changed=["a/d"], has_more=True),
        "linksChanged",
        {"added": ["a/b"], "removed": ["a/c"], "topics_changed": ["a/d"], "has_more": True},
    ),
    (
        commands.producer(topic="t", producer_id=2, request_id=1, producer_name="p", epoch=3),
        "producer",
        {
            "topic": "t",
            "producer_id": 2,
            "request_id": 1,
            "producer_name": "p",
            "user_provided_producer_name": True,
            "epoch": 3,
        },
    ),
    (
        commands.producer_success(request_id=1, producer_name="p", last_origin=Position(3, 4)),
        "producer_success",
        {
            "request_id": 1,
            "producer_name": "p",
            "last_sequence_id": -1,
            "schema_version": b"",
            "producer_ready": True,
            "last_origin_message_id": message_id(Position(3, 4)),
        },
    ),
    (
        commands.send_error(producer_id=2, sequence_id=3, code=CODE, message="m"),
        "send_error",
        {"producer_id": 2, "sequence_id": 3, "error": 11, "message": "m"},
    ),
    (commands.close_producer(producer_id=2), "close_producer", {"producer_id": 2, "request_id": 2**64 - 1}),
    (
        commands.subscribe(
            pb.CommandSubscribe(
                topic="t",
                subscription="s",
                subType=pb.CommandSubscribe.Shared,
                consumer_id=2,
                request_id=1,
            ),
        ),
        "subscribe",
        {"topic": "t", "subscription": "s", "subType": 1, "consumer_id": 2, "request_id": 1},
    ),
    (commands.flow(consumer_id=2, message_permits=3), "flow", {"consumer_id": 2, "messagePermits": 3}),
    (
        commands.ack(consumer_id=2, message_ids=[message_id(Position(3, 4))], cumulative=True, request_id=1),
        "ack",
        {"consumer_id": 2, "ack_type": 1, "message_id": [message_id(Position(3, 4))], "request_id": 1},
    ),
    (commands.ack_response(consumer_id=2, request_id=1), "ackResponse", {"consumer_id": 2, "request_id": 1}),
    (
        commands.ack_response_failed(consumer_id=2, request_id=1, code=CODE, message="m"),
        "ackResponse",
        {"consumer_id": 2, "request_id": 1, "error": 11, "message": "m"},
    ),
    (
        commands.redeliver_unacknowledged_messages(consumer_id=2),
        "redeliverUnacknowledgedMessages",
        {"consumer_id": 2},
    ),
    (
        commands.unsubscribe(consumer_id=2, request_id=1),
        "unsubscribe",
        {"consumer_id": 2, "request_id": 1, "force": False},
    ),
    (
        commands.seek(consumer_id=2, request_id=1, position=Position(3, 4)),
        "seek",
        {"consumer_id": 2, "request_id": 1, "message_id": message_id(Position(3, 4))},
    ),
    (
        commands.seek(consumer_id=2, request_id=1, publish_time_ms=5),
        "seek",
        {"consumer_id": 2, "request_id": 1, "message_publish_time": 5},
    ),
    (
        commands.get_last_message_id(consumer_id=2, request_id=1),
        "getLastMessageId",
        {"consumer_id": 2, "request_id": 1},
    ),
    (
        commands.get_last_message_id_response(request_id=1, last_message_id=message_id(EARLIEST)),
        "getLastMessageIdResponse",
        {"request_id": 1, "last_message_id": message_id(EARLIEST)},
    ),
    (commands.close_consumer(consumer_id=2, request_id=1), "close_consumer", {"consumer_id": 2, "request_id": 1}),
    (
        commands.active_consumer_change(consumer_id=2, is_active=True),
        "active_consumer_change",
        {"consumer_id": 2, "is_active": True},
    ),
    (commands.reached_end_of_topic(consumer_id=2), "reachedEndOfTopic", {"consumer_id": 2}),
    (
        commands.consumer_stats_response(pb.CommandConsumerStatsResponse(request_id=1)),
        "consumerStatsResponse",
        {"request_id": 1},
    ),
    (
        commands.get_schema_response(
            request_id=1,
            schema=pb.Schema(name="n", schema_data=b"", type=pb.Schema.String),
            schema_version=b"v",
        ),
        "getSchemaResponse",
        {
            "request_id": 1,
            "schema": pb.Schema(name="n", schema_data=b"", type=pb.Schema.String),
            "schema_version": b"v",
        },
    ),
    (
        commands.get_schema(request_id=1, topic="t", schema_version=b"v"),
        "getSchema",
        {"request_id": 1, "topic": "t", "schema_version": b"v"},
    ),
    (
        commands.get_or_create_schema(
            request_id=1,
            topic="t",
            schema=pb.Schema(name="n", schema_data=b"", type=pb.Schema.String),
            producer_name="p",
        ),
        "getOrCreateSchema",
        {
            "request_id": 1,
            "topic": "t",
            "schema": pb.Schema(name="n", schema_data=b"", type=pb.Schema.String),
            "producerName": "p",
        },
    ),
    (
        commands.get_schema_failed(request_id=1, code=CODE, message="m"),
        "getSchemaResponse",
        {"request_id": 1, "error_code": 11, "error_message": "m"},
    ),
    (
        commands.get_or_create_schema_response(request_id=1, schema_version=b""),
        "getOrCreateSchemaResponse",
        {"request_id": 1, "schema_version": b""},
    ),
    (
        commands.get_or_create_schema_failed(request_id=1, code=CODE, message="m"),
        "getOrCreateSchemaResponse",
        {"request_id": 1, "error_code": 11, "error_message": "m"},
    ),
]


@pytest.mark.parametrize(("frame", "name", "fields"), CASES)
def test_fields(frame: bytes, name: str, fields: dict[str, object]) -> None:
    assert body_of(frame) == (name, fields)


def test_every_command_takes_its_fields_by_name_or_its_body() -> None:
    for name, function in inspect.getmembers(commands, inspect.isfunction):
        if function.__module__ == commands.__name__ and not name.startswith("_") and name != "key_values":
            parameters = inspect.signature(function).parameters.values()
            named = all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in parameters)
            assert named or [parameter.name for parameter in parameters] == ["body"], name


def test_server_errors_have_the_numbers_of_the_wire() -> None:
    assert {code.name: int(code) for code in ServerError} == dict(pb.ServerError.items())
