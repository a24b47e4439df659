"""A refused command is freed at once; waiting for the garbage collector would keep its contents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.limits import ENTRY_METADATA_PADDING, MAX_MESSAGE_SIZE
from magnetar.sim.cluster import Cluster
from magnetar.wire import commands
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from google.protobuf.message import Message


def entry(**fields: int | str) -> bytes:
    required = {"producer_name": "p", "sequence_id": 0, "publish_time": 1}
    return build_entry(pb.MessageMetadata(**{**required, **fields}), b"x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "refused",
    [
        entry()[:-1] + b"y",
        entry()[6:12],
        entry() + bytes(MAX_MESSAGE_SIZE + ENTRY_METADATA_PADDING),
        entry(replicated_from="jfk"),
        entry(num_messages_in_batch=10),
    ],
    ids=["checksum", "metadata", "size", "field of clusters", "count"],
)
def test_a_refused_send_is_freed_at_once(refused: bytes, left_to_the_collector: Callable[[], list[FrameType]]) -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    left_to_the_collector()
    sends = [commands.send(producer_id=1, sequence_id=number, entry=refused, num_messages=1) for number in range(3)]
    client.say(*sends)
    assert client.names()[-3:] == ["SEND_ERROR"] * 3
    assert left_to_the_collector() == []


LONG = "persistent://public/default/" + "x" * 5_000


@pytest.mark.parametrize(
    "body",
    [
        pb.CommandLookupTopic(topic=LONG, request_id=1),
        pb.CommandPartitionedTopicMetadata(topic=LONG, request_id=1),
        pb.CommandProducer(topic=LONG, producer_id=1, request_id=1),
        pb.CommandSubscribe(
            topic=LONG, subscription="s", subType=pb.CommandSubscribe.Shared, consumer_id=1, request_id=1
        ),
        pb.CommandGetTopicsOfNamespace(namespace="nobody/nothing", request_id=1),
        pb.CommandSeek(consumer_id=7, request_id=1),
        pb.CommandUnsubscribe(consumer_id=7, request_id=1),
    ],
    ids=lambda body: type(body).__name__,
)
def test_a_refused_command_is_freed_at_once(
    body: Message, left_to_the_collector: Callable[[], list[FrameType]]
) -> None:
    client = Cluster().client()
    left_to_the_collector()
    client.say(*[commands.encode(body)] * 3)
    assert client.names()
    assert left_to_the_collector() == []
