"""The metadata of messages is limited, and that of replicated ones, which may have two stamps more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.limits import REPLICATED_METADATA_PADDING, REPLICATION_CLUSTERS_MAX, Limit
from magnetar.base.position import EARLIEST, Position
from magnetar.sim.cluster import Cluster, Key_Shared, entry
from magnetar.wire import commands
from magnetar.wire.entries.entry import metadata_size
from magnetar.wire.entries.markers import PROGRESS
from magnetar.wire.entries.origin import Origin, stamp, stamp_again
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from typing import Any

    from magnetar.sim.cluster import Client

LIMIT = 1000


def with_metadata_of(size: int, **metadata: Any) -> bytes:  # noqa: ANN401 - values of fields
    """Return an entry with ``size`` bytes of metadata."""

    def padded(count: int) -> bytes:
        return entry("text", properties=[pb.KeyValue(key="k", value="x" * count)], **metadata)

    made = padded(size - (metadata_size(padded(size)) - size))
    assert metadata_size(made) == size
    return made


def publisher(**settings: Any) -> Client:  # noqa: ANN401 - values of settings
    client = Cluster(settings={"maxMessageMetadataSize": LIMIT, **settings}).client()
    client.produce()
    return client


def send(client: Client, *entries: bytes, is_chunk: bool = False) -> None:
    for number, each in enumerate(entries):
        client.say(commands.send(producer_id=1, sequence_id=number, entry=each, is_chunk=is_chunk))


def refusals(client: Client) -> list[tuple[int, int, str]]:
    return [(error.sequence_id, error.error, error.message) for error in client.take("SEND_ERROR")]


REFUSAL = (
    "Exceed maximum size of message metadata: 1001 bytes, 1000 are allowed (maxMessageMetadataSize). Put large values"
    " into the payload"
)


def test_too_large_metadata_are_refused_and_the_messages_around_them_stored() -> None:
    client = publisher()
    send(client, with_metadata_of(LIMIT), with_metadata_of(LIMIT + 1), entry("x" * 10 * LIMIT))
    assert refusals(client) == [(1, pb.NotAllowedError, REFUSAL)]
    assert [sequence_id for sequence_id, _ in client.receipts()] == [0, 2]


def test_so_are_those_of_the_last_chunk_of_a_message() -> None:
    client = publisher()
    last = with_metadata_of(LIMIT + 1, uuid="u", chunk_id=1, num_chunks_from_msg=2, total_chunk_msg_size=8)
    send(client, last, is_chunk=True)
    assert refusals(client) == [(0, pb.NotAllowedError, REFUSAL)]


def test_a_wrong_checksum_is_reported_first() -> None:
    client = publisher()
    damaged = with_metadata_of(LIMIT + 1)[:-1] + b"?"
    send(client, damaged)
    assert [code for _, code, _ in refusals(client)] == [pb.ChecksumError]


def test_a_message_to_too_many_clusters_is_refused() -> None:
    client = publisher(maxMessageMetadataSize=1 << 20)
    names = [f"c{each}" for each in range(REPLICATION_CLUSTERS_MAX + 1)]
    send(client, entry("few", replicate_to=names[1:]), entry("many", replicate_to=names))
    message = "replication to 1001 clusters, 1000 are allowed (maxReplicationClustersPerMessage)"
    assert refusals(client) == [(1, pb.NotAllowedError, message)]
    assert len(client.receipts()) == 1


def link(**settings: Any) -> Client:  # noqa: ANN401 - values of settings
    client = Cluster(targets=["jfk"], settings={"maxMessageMetadataSize": LIMIT, **settings}).client()
    client.produce(name="pulsar.repl.jfk-->ewr")
    return client


def stamped(number: int, made: bytes) -> bytes:
    previous = Position(1, number - 1) if number else EARLIEST
    return stamp(made, Origin("jfk", Position(1, number), previous, previous))


@pytest.mark.parametrize("kind", [Key_Shared, pb.CommandSubscribe.Shared, pb.CommandSubscribe.Failover])
def test_entries_of_other_clusters_are_stored_and_dispatched(kind: pb.CommandSubscribe.SubType.ValueType) -> None:
    pipeline = link()
    send(pipeline, stamp_again(stamped(0, with_metadata_of(LIMIT, partition_key="k")), Origin("jfk", Position(1, 0))))
    assert len(pipeline.receipts()) == 1
    consumer = pipeline.cluster.client()
    consumer.subscribe(kind=kind, permits=10)
    assert len(consumer.take("MESSAGE")) == 1


def test_a_link_stops_at_an_entry_with_too_large_metadata_and_goes_on_with_a_larger_limit() -> None:
    pipeline, limit = link(), LIMIT + REPLICATED_METADATA_PADDING
    sent = [stamped(number, entry(str(number))) for number in range(3)]
    sent[1] = stamped(1, with_metadata_of(limit))
    size = metadata_size(sent[1])
    send(pipeline, *sent)
    refusal = (
        f"Exceed maximum size of message metadata: {size} bytes, {limit} are allowed (maxMessageMetadataSize)."
        " Set a larger limit in this cluster"
    )
    assert refusals(pipeline) == [(1, pb.PersistenceError, refusal), (2, pb.PersistenceError, refusal)]
    assert len(pipeline.receipts()) == 1
    assert pipeline.cluster.environment.limit_hits.counts()[Limit.METADATA_SIZE] == 1
    patient = link(maxMessageMetadataSize=size)
    send(patient, *sent)
    assert len(patient.receipts()) == 3


def test_the_metadata_of_progress_markers_are_limited() -> None:
    cluster = Cluster(targets=["jfk"], settings={"maxMessageMetadataSize": LIMIT})
    peer = cluster.client()
    peer.produce(name="magnetar.progress.jfk")
    send(peer, with_metadata_of(LIMIT + REPLICATED_METADATA_PADDING + 1, marker_type=PROGRESS))
    ((_, code, message),) = refusals(peer)
    assert (code, "(maxMessageMetadataSize)" in message) == (pb.NotAllowedError, True)
