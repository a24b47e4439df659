"""Producers: thousands of them, with false names, and in each other's way."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.hostile.catalogue import behaviour
from tests.hostile.tools import answer_pings, connect, frame, open_many, pump, pump_again, repeatedly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hostile.catalogue import Target

PRODUCERS = 10_000
LONG = "x" * 100_000
NAMES = (
    LONG,
    "x" * 5_000_000,
    "nul\x00nul",
    "a/b/c/../../d",
    "..",
    ".",
    "",
    "%2F%00",
    "\u202e\U0001f4a5\u0301" * 100,
    "line\r\nbreak",
    "'; DROP TABLE metadata; --",
    "a-partition-2147483647",
    "a-partition--1",
    "__change_events",
)


@behaviour("10,000 producers on one topic and one connection, which then closes.", seconds=8.0)
def ten_thousand_on_one_topic(target: Target) -> int:
    topic = target.topic()
    frames = (frame("PRODUCER", topic=topic, producer_id=each, request_id=each) for each in range(PRODUCERS))
    with connect(target) as connection:
        return pump(target, connection, frames)


@behaviour("10,000 producers on one connection, each on a topic of its own.", seconds=15.0)
def ten_thousand_topics(target: Target) -> int:
    frames = (
        frame("PRODUCER", topic=target.topic(f"t{each}"), producer_id=each, request_id=each)
        for each in range(PRODUCERS)
    )
    with connect(target) as connection:
        return pump(target, connection, frames)


@behaviour("PRODUCER and CLOSE_PRODUCER in turn, as fast as it goes.")
def created_and_closed(target: Target) -> int:
    pair = frame("PRODUCER", topic=target.topic(), producer_id=1, request_id=1) + frame(
        "CLOSE_PRODUCER", producer_id=1, request_id=2
    )
    return pump_again(target, lambda: connect(target), pair * 200)


@behaviour("1,000 producers wait for exclusive access to one topic.", seconds=6.0)
def waiting_for_access(target: Target) -> int:
    topic = target.topic()
    frames = (
        frame("PRODUCER", topic=topic, producer_id=each, request_id=each, producer_access_mode=pb.WaitForExclusive)
        for each in range(1000)
    )
    with connect(target) as connection:
        return pump(target, connection, frames)


@behaviour("Two connections take one producer name and exclusive access from each other.")
def fencing(target: Target) -> int:
    connections = open_many(target, 2, lambda: connect(target))

    def act(count: int) -> None:
        connections[count % 2].send(
            "PRODUCER",
            topic=target.topic(),
            producer_id=count,
            request_id=count,
            producer_name="p",
            epoch=count,
            producer_access_mode=pb.ExclusiveWithFencing,
        )

    acts = repeatedly(target, act)
    for connection in connections:
        connection.close()
    return acts


@behaviour("Producer names that a connected client holds, on 200 connections.", seconds=5.0)
def busy_names(target: Target) -> int:
    with connect(target) as owner:
        owner.create_producer(target.topic(), producer_name="p")

        def act(count: int) -> None:
            with connect(target) as other:
                other.send("PRODUCER", topic=target.topic(), producer_id=1, request_id=1, producer_name="p")

        acts = repeatedly(target, act)
        answer_pings(target, [owner])
    return acts


@behaviour(
    "Names of topics, subscriptions, producers and consumers of 100 KB and 5 MB, with NUL, slashes, line breaks."
)
def false_names(target: Target) -> int:
    def act(count: int) -> None:
        name = NAMES[count % len(NAMES)]
        topics = (target.topic(name), name, f"persistent://{name}/{name}/t", target.topic("t"))
        with connect(target) as connection:
            topic = topics[count // len(NAMES) % len(topics)]
            connection.send("PRODUCER", topic=topic, producer_id=1, request_id=1, producer_name=name)
            connection.send("PARTITIONED_METADATA", topic=topic, request_id=2)
            connection.send("LOOKUP", topic=topic, request_id=3)
            connection.send(
                "SUBSCRIBE",
                topic=topic,
                subscription=name,
                subType=1,
                consumer_id=1,
                request_id=4,
                consumer_name=name,
            )
            connection.send("GET_TOPICS_OF_NAMESPACE", namespace=name, topics_pattern=name, request_id=5)
            connection.is_closed_by_peer(0.1)

    return repeatedly(target, act)


@behaviour("Producers and consumers with 1 MB of metadata and properties.", seconds=6.0)
def large_descriptions(target: Target) -> int:
    large = [pb.KeyValue(key="k", value="x" * (1 << 20))]
    many = [pb.KeyValue(key=str(each), value="x" * 10) for each in range(50_000)]

    def frames() -> Iterator[bytes]:
        for each in itertools.count(1):
            description = large if each % 2 else many
            yield frame("PRODUCER", topic=target.topic(), producer_id=each, request_id=each, metadata=description)
            yield frame(
                "SUBSCRIBE",
                topic=target.topic(),
                subscription="s",
                subType=1,
                consumer_id=each,
                request_id=each,
                metadata=description,
            )
            yield frame(
                "SUBSCRIBE",
                topic=target.topic(),
                subscription=f"s{each}",
                subType=1,
                consumer_id=each,
                request_id=each,
                subscription_properties=description,
            )

    def act(_count: int) -> None:
        with connect(target) as connection:
            pump(target, connection, frames())

    return repeatedly(target, act)


@behaviour("Producers with schemas of almost 2 MiB, and requests for them.", seconds=5.0)
def large_schemas(target: Target) -> int:
    schema = pb.Schema(name="s", schema_data=bytes((2 << 20) - 1000), type=pb.Schema.Avro)
    data = frame("PRODUCER", topic=target.topic(), producer_id=1, request_id=1, schema=schema) + frame(
        "GET_SCHEMA", topic=target.topic(), request_id=2
    )
    return pump_again(target, lambda: connect(target), data)
