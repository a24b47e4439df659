"""A refused command is freed at once; waiting for the garbage collector would keep its contents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.limits import ENTRY_METADATA_PADDING, MAX_MESSAGE_SIZE
from magnetar.base.position import Position
from magnetar.sim.cluster import Cluster
from magnetar.wire import commands
from magnetar.wire.entries.entry import assemble, build_entry
from magnetar.wire.entries.markers import PROGRESS, build_marker
from magnetar.wire.entries.origin import SOURCE_POSITION, Origin, stamp
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from google.protobuf.message import Message


def entry(**fields: Any) -> bytes:  # noqa: ANN401 - values of fields
    required: dict[str, Any] = {"producer_name": "p", "sequence_id": 0, "publish_time": 1}
    return build_entry(pb.MessageMetadata(**required, **fields), b"x")


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


LINK, PROGRESS_LINK = "pulsar.repl.jfk-->ewr", "magnetar.progress.jfk"


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        (LINK, entry()[:-1] + b"y"),
        (LINK, assemble(b"", b"x")),
        (LINK, assemble(b"\xff\xff", b"x")),
        (LINK, entry()),
        (LINK, entry(replicated_from="jfk")),
        (LINK, stamp(entry(), Origin("lga", Position(1, 0)))),
        (LINK, stamp(entry(), Origin("jfk", Position(1, 7), Position(1, 6), Position(1, 6)))),
        (LINK, entry(replicated_from="jfk", properties=[pb.KeyValue(key=SOURCE_POSITION, value="1:x")])),
        (PROGRESS_LINK, entry()[:-1] + b"y"),
        (PROGRESS_LINK, entry()),
        (PROGRESS_LINK, build_marker(PROGRESS, b"\xff\xff", publish_time_ms=1)),
    ],
    ids=[
        "checksum",
        "no metadata",
        "metadata",
        "no origin",
        "no source position",
        "other cluster",
        "gap",
        "position",
        "checksum of progress",
        "no progress marker",
        "progress",
    ],
)
def test_a_refused_send_of_a_link_is_freed_at_once(
    name: str, refused: bytes, left_to_the_collector: Callable[[], list[FrameType]]
) -> None:
    client = Cluster(targets=["jfk"]).client()
    client.produce(name=name)
    left_to_the_collector()
    client.say(*(commands.send(producer_id=1, sequence_id=number, entry=refused) for number in range(3)))
    assert client.names()[-3:] == ["SEND_ERROR"] * 3
    assert left_to_the_collector() == []
    kept = getattr(client.session.producers[1], "_refusal", None)
    assert kept is None or (kept.__traceback__, kept.__cause__, kept.__context__) == (None, None, None)


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
