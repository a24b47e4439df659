"""Fields, names and messages that only clusters may send, from somebody who is none."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from magnetar.wire import varint
from magnetar.wire.entries import markers
from magnetar.wire.entries.entry import assemble, build_entry
from magnetar.wire.entries.origin import SOURCE_POSITION
from magnetar.wire.proto import magnetar_markers_pb2, pulsar_markers_pb2
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.hostile.attacks.publishing import LARGEST, metadata
from tests.hostile.catalogue import ELSEWHERE, behaviour
from tests.hostile.tools import connect, frame, publishing, pump, pump_again, repeatedly, send_frame
from tests.kit.rest import Rest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.message import Message

    from tests.hostile.catalogue import Target
    from tests.kit.raw import RawConnection

REPLICATED = {"replication": ["standalone", ELSEWHERE]}
"""Policies of a namespace that the broker replicates to a cluster where nobody listens."""

POSITIONS = (
    "0:0",
    "-1:-1",
    "1:-5",
    f"{2**63 - 1}:{2**63 - 1}",
    f"{2**64}:{2**64}",
    f"{10**30}:1",
    "\u0661:\u0662",
    "1",
    ":",
    "",
    "1:2:3",
    "1e3:1",
)
NUMBERS = (0, -1, 2**31, 2**63 - 1, -(2**63))
COUNTERS = (0, 1, 2**63 - 1, 2**64 - 1)
RESERVED = (f"pulsar.repl.{ELSEWHERE}", "pulsar.repl", "pulsar.dedup", f"magnetar.progress.{ELSEWHERE}", "")


def link_name(target: Target, source: str | None = None) -> str:
    """Return the producer name of the pipeline's link from ``source``, by default the other cluster."""
    return f"pulsar.repl.{target.place.peer if source is None else source}-->{target.place.cluster}"


@behaviour("replicated_from, marker_type and source positions set by an ordinary producer.")
def fields_of_clusters(target: Target) -> int:
    heads = [
        metadata(replicated_from=target.place.peer),
        metadata(replicated_from=target.place.cluster),
        metadata(marker_type=markers.PROGRESS),
        metadata(marker_type=-1),
        metadata(replicated_from="", properties=[pb.KeyValue(key=SOURCE_POSITION, value="1:1")]),
        metadata(link_place=f"{2**64}:0"),
        metadata(txnid_least_bits=2**64 - 1, txnid_most_bits=1),
    ]
    frames = b"".join(send_frame(build_entry(head, b"x")) for head in heads)
    return pump_again(target, lambda: publishing(target), frames * 30)


@behaviour(
    "A forged link that stamps entries with positions beyond 64 bits, negative ones and non-ASCII digits.",
    seconds=6.0,
    policies=REPLICATED,
)
def stamps(target: Target) -> int:
    def act(count: int) -> None:
        place = f"{POSITIONS[count // 12 % 12]} {POSITIONS[count // 144 % 12]}"
        head = metadata(
            replicated_from=(target.place.peer, "nobody", target.place.cluster, "")[count % 4],
            properties=[pb.KeyValue(key=SOURCE_POSITION, value=POSITIONS[count % 12])],
            link_place=f"{place} start" if count % 2 else place,
        )
        with connect(target) as connection:
            connection.send(
                "PRODUCER",
                topic=target.topic(f"t{count % 7}"),
                producer_id=1,
                request_id=1,
                producer_name=link_name(target),
            )
            connection.socket.sendall(send_frame(build_entry(head, b"x")) * 3)
            connection.is_closed_by_peer(0.05)

    return repeatedly(target, act)


@behaviour(
    "Links from clusters with false names: none, its own, 100 KB, slashes, one per connection.", policies=REPLICATED
)
def false_links(target: Target) -> int:
    names = (
        "pulsar.repl.",
        "pulsar.repl.-->",
        link_name(target, target.place.cluster),
        link_name(target, "x" * 100_000),
        link_name(target, "a/b/../c"),
        link_name(target, "\x00"),
        link_name(target, "unknown"),
        "magnetar.progress.",
        f"magnetar.progress.{target.place.cluster}",
        "magnetar.progress." + "x" * 100_000,
    )

    def act(count: int) -> None:
        name = names[count % len(names)] if count % 2 else link_name(target, f"c{count}")
        with connect(target) as connection:
            connection.send(
                "PRODUCER",
                topic=target.topic(),
                producer_id=1,
                request_id=1,
                producer_name=name,
                metadata=[pb.KeyValue(key="magnetar.life", value="x" * 1000)],
            )
            connection.is_closed_by_peer(0.05)

    return repeatedly(target, act)


@behaviour(
    "Progress markers with epochs of 2^64-1, false positions, and subscriptions that nobody has.",
    seconds=6.0,
    policies=REPLICATED,
)
def progress(target: Target) -> int:
    def act(count: int) -> None:
        with _progress_connection(target) as connection:
            for state in _false_states(target, count):
                marker = magnetar_markers_pb2.ProgressMarker(source_cluster=target.place.peer, subscriptions=[state])
                marker.oldest_acknowledged_at_ms = COUNTERS[count % 4]
                connection.socket.sendall(_marker(markers.PROGRESS, marker.SerializeToString()))
            connection.is_closed_by_peer(0.05)

    return repeatedly(target, act)


def _progress_connection(target: Target, topic: str = "t") -> RawConnection:
    connection = connect(target)
    connection.subscribe(target.topic(topic), "s", replicate_subscription_state=True)
    connection.send(
        "PRODUCER",
        topic=target.topic(topic),
        producer_id=1,
        request_id=99,
        producer_name=f"magnetar.progress.{target.place.peer}",
    )
    return connection


def _marker(kind: int, payload: bytes) -> bytes:
    return send_frame(markers.build_marker(kind, payload, publish_time_ms=time.time_ns() // 1_000_000))


def _false_states(target: Target, count: int) -> Iterator[magnetar_markers_pb2.SubscriptionProgress]:
    for ledger, entry_id in itertools.product(NUMBERS, NUMBERS):
        position = magnetar_markers_pb2.OriginPosition(ledger_id=ledger, entry_id=entry_id)
        origin = magnetar_markers_pb2.OriginProgress(
            cluster=(target.place.cluster, target.place.peer, "unknown", "")[count % 4],
            start=position,
            acknowledged=[magnetar_markers_pb2.LedgerBounds(ledger_id=ledger, entry_steps=[0, 2**64 - 1, 1, 2**63])],
            partial=[magnetar_markers_pb2.PartialBatch(position=position, remaining=[-1] * 1000)],
        )
        yield magnetar_markers_pb2.SubscriptionProgress(
            subscription=("s", "", "nobody", *RESERVED)[count % 8],
            epoch=magnetar_markers_pb2.Epoch(counter=COUNTERS[count // 4 % 4], cluster=target.place.peer),
            full=count % 2 == 0,
            deleted=count % 3 == 0,
            origins=[origin],
        )


@behaviour("Progress markers that create a new replicated subscription each.", seconds=6.0, policies=REPLICATED)
def subscriptions_from_progress(target: Target) -> int:
    def frames() -> Iterator[bytes]:
        for number in itertools.count():
            states = [
                magnetar_markers_pb2.SubscriptionProgress(
                    subscription=f"s{number}-{each}",
                    epoch=magnetar_markers_pb2.Epoch(counter=0, cluster=target.place.peer),
                    full=True,
                )
                for each in range(10)
            ]
            marker = magnetar_markers_pb2.ProgressMarker(source_cluster=target.place.peer, subscriptions=states)
            yield _marker(markers.PROGRESS, marker.SerializeToString())

    with _progress_connection(target) as connection:
        return pump(target, connection, itertools.islice(frames(), 300))


@behaviour("Progress markers with 100,000 intervals each.", seconds=6.0, policies=REPLICATED)
def large_progress(target: Target) -> int:
    bounds = magnetar_markers_pb2.LedgerBounds(ledger_id=1, entry_steps=[1] * 200_000)
    state = magnetar_markers_pb2.SubscriptionProgress(
        subscription="s",
        epoch=magnetar_markers_pb2.Epoch(counter=0, cluster=target.place.peer),
        full=True,
        origins=[magnetar_markers_pb2.OriginProgress(cluster=target.place.cluster, acknowledged=[bounds])],
    )
    marker = magnetar_markers_pb2.ProgressMarker(source_cluster=target.place.peer, subscriptions=[state])
    data = _marker(markers.PROGRESS, marker.SerializeToString())
    return pump_again(target, lambda: _progress_connection(target), data)


@behaviour(
    "Entries and progress markers of forged links with 250 KB and 5 MB of properties, some of them empty.",
    seconds=6.0,
    policies=REPLICATED,
)
def large_metadata(target: Target) -> int:
    source = pb.KeyValue(key=SOURCE_POSITION, value="1:0")
    end = pb.MessageMetadata(
        replicated_from=target.place.peer, properties=[source], link_place="-1:-1"
    ).SerializePartialToString()
    marked = metadata(marker_type=markers.PROGRESS)
    frames = []
    for head, element, scale in itertools.product(
        (metadata(), marked), (b"\x22\x00", b"\x22\x04\x0a\x00\x12\x00"), (1, 20)
    ):
        properties = element * (scale * 250_000 // len(element))
        frames.append(send_frame(assemble(head.SerializeToString() + properties + end, b"x")))

    def act(count: int) -> None:
        name = link_name(target) if count % 2 else f"magnetar.progress.{target.place.peer}"
        with publishing(target, f"t{count}", producer_name=name) as connection:
            pump(target, connection, frames)

    return repeatedly(target, act)


def _in_field(message: Message, field: str, body: bytes) -> bytes:
    """Return ``body`` as an element of a list of messages, serialized."""
    number = message.DESCRIPTOR.fields_by_name[field].number
    return varint.write(number << 3 | 2) + varint.write(len(body)) + body


@behaviour(
    "Progress and snapshot markers with as many empty elements as fit, in each list.", seconds=6.0, policies=REPLICATED
)
def markers_of_empty_elements(target: Target) -> int:
    marker = magnetar_markers_pb2.ProgressMarker(source_cluster=target.place.peer)
    state = magnetar_markers_pb2.SubscriptionProgress(
        subscription="s", epoch=magnetar_markers_pb2.Epoch(counter=0, cluster=target.place.peer), full=True
    )
    origin = magnetar_markers_pb2.OriginProgress(cluster=target.place.cluster)
    messages, fields = (marker, state, origin), ("subscriptions", "origins", "acknowledged")
    frames = []
    for depth, size in itertools.product(range(3), (500_000, LARGEST // 2 - 1000)):
        body = messages[depth].SerializeToString() + _in_field(messages[depth], fields[depth], b"") * size
        for message, field in reversed(tuple(zip(messages[:depth], fields[:depth], strict=True))):
            body = message.SerializeToString() + _in_field(message, field, body)
        frames.append(_marker(markers.PROGRESS, body))
        update = pulsar_markers_pb2.ReplicatedSubscriptionsUpdate(subscription_name="s")
        frames.append(_marker(markers.UPDATE, update.SerializeToString() + _in_field(update, "clusters", b"") * size))

    def act(count: int) -> None:
        name = link_name(target) if count % 2 else f"magnetar.progress.{target.place.peer}"
        with publishing(target, f"t{count % 10}", producer_name=name) as connection:
            pump(target, connection, frames)

    return repeatedly(target, act)


@behaviour("Snapshot markers of PIP-33 with false ids and positions, on a forged link.", policies=REPLICATED)
def snapshot_markers(target: Target) -> int:
    kinds = (markers.SNAPSHOT_REQUEST, markers.SNAPSHOT_RESPONSE, markers.SNAPSHOT, markers.UPDATE)
    far = pulsar_markers_pb2.MarkersMessageIdData(ledger_id=2**64 - 1, entry_id=2**64 - 1)
    payloads = (
        pulsar_markers_pb2.ReplicatedSubscriptionsSnapshotRequest(
            snapshot_id="x" * 1000, source_cluster=target.place.peer
        ),
        pulsar_markers_pb2.ReplicatedSubscriptionsSnapshotResponse(
            snapshot_id="", cluster=pulsar_markers_pb2.ClusterMessageId(cluster=target.place.peer, message_id=far)
        ),
        pulsar_markers_pb2.ReplicatedSubscriptionsSnapshot(snapshot_id="s", local_message_id=far),
    )
    bodies = [*(payload.SerializeToString() for payload in payloads), b"\xff" * 100, b""]
    frames = b"".join(_marker(kind, body) for kind in kinds for body in bodies)
    return pump_again(target, lambda: publishing(target, producer_name=link_name(target)), frames * 10)


@behaviour("Reserved subscription names: SUBSCRIBE, initial_subscription_name and REST.", policies=REPLICATED)
def reserved_names(target: Target) -> int:
    path = target.topic().replace("://", "/")

    def act(count: int) -> None:
        name = RESERVED[count % len(RESERVED)]
        with connect(target) as connection, Rest(target.admin_url) as rest:
            connection.send(
                "SUBSCRIBE", topic=target.topic(), subscription=name, subType=1, consumer_id=1, request_id=1
            )
            connection.send(
                "PRODUCER", topic=target.topic(), producer_id=1, request_id=2, initial_subscription_name=name
            )
            rest.request("PUT", f"{path}/subscription/{name}")
            rest.request("POST", f"{path}/subscription/{name}/skip_all")
            rest.request("DELETE", f"{path}/subscription/{name}?force=true")

    return repeatedly(target, act)


@behaviour(
    "A client takes the link of a topic over and over, under growing lease numbers, and reads nothing.",
    policies=REPLICATED,
)
def stolen_links(target: Target) -> int:
    def act(count: int) -> None:
        with connect(target) as connection:
            connection.send(
                "SUBSCRIBE",
                topic=target.topic(),
                subscription=f"pulsar.repl.{target.place.peer}",
                subType=0,
                consumer_id=1,
                request_id=1,
                metadata=[pb.KeyValue(key="magnetar.lease", value=str((count, 10**30, -1, "x")[count % 4]))],
            )
            connection.flow(1000)
            connection.is_closed_by_peer(0.05)

    return repeatedly(target, act)


@behaviour("Commands of transactions.")
def transactions(target: Target) -> int:
    names = ("NEW_TXN", "ADD_PARTITION_TO_TXN", "END_TXN", "TC_CLIENT_CONNECT_REQUEST")
    return pump_again(
        target, lambda: connect(target), b"".join(frame(name, request_id=2**64 - 1) for name in names) * 200
    )
