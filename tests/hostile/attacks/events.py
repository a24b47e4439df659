"""Floods of the event topic of the metadata synchronizer, to which every client can publish."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from magnetar.metasync.events import EVENT_BYTES_MAX, EVENT_EDITS_MAX, EventType, MetadataChangeEvent
from magnetar.metasync.places import Resource
from magnetar.metasync.records import Edit, Record
from magnetar.metasync.timestamps import Timestamp
from magnetar.metasync.units import ResourceType
from tests.hostile.catalogue import behaviour
from tests.hostile.tools import connect, pump, repeatedly, send_frame
from tests.hostile.victim import EVENT_TOPIC
from tests.kit.raw import entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.hostile.catalogue import Target

DIFFERENT = 5
"""Numbers of resources and of sets of keys of the largest events. Together they reach the limit of a resource."""


def publish(target: Target, events: Iterable[bytes]) -> int:
    """Publish events until the deadline."""
    with connect(target) as connection:
        connection.create_producer(EVENT_TOPIC)
        return pump(target, connection, (send_frame(entry(event, each), each) for each, event in enumerate(events)))


def edited(target: Target, number: int, keys: Iterable[int]) -> bytes:
    """Return an event that edits properties of the namespace of the attack."""
    now_ms = time.time_ns() // 1_000_000
    stamp = Timestamp(now_ms, number, target.place.peer)
    edits = {f"/properties/{key}": Edit(stamp, f"{number}") for key in keys}
    resource = Resource(ResourceType.NAMESPACES, target.namespace)
    record = Record(ResourceType.NAMESPACES, edits=edits)
    return MetadataChangeEvent(EventType.MODIFIED, resource, target.place.peer, now_ms, record).encode()


@behaviour("Metadata events that change one property of a namespace, as many as the topic takes.", seconds=6.0)
def flood(target: Target) -> int:
    return publish(target, (edited(target, number, [0]) for number in itertools.count()))


@behaviour("Metadata events with as many edits as one may have, until the namespace has as many fields as it may.")
def largest(target: Target) -> int:
    def events() -> Iterator[bytes]:
        for number in itertools.count():
            first = number % DIFFERENT * EVENT_EDITS_MAX
            yield edited(target, number, range(first, first + EVENT_EDITS_MAX))

    return publish(target, events())


@behaviour("Metadata events of a megabyte that cannot be read: too many edits, deep nesting, no JSON, large numbers.")
def unreadable(target: Target) -> int:
    many = edited(target, 1, range(12_000))
    deep = b'{"version":1,"data":' + b"[" * (EVENT_BYTES_MAX - 100)
    number = b'{"version":1,"updateTime":' + b"9" * 4_000 + b"}"
    shapes = itertools.cycle([many[:EVENT_BYTES_MAX], many, deep, b"\xff" * EVENT_BYTES_MAX, number, b""])
    return publish(target, shapes)


@behaviour("Metadata events of another cluster for resources with hostile names.")
def names(target: Target) -> int:
    shapes = [
        (kind, name)
        for kind in ResourceType
        for name in ("", "..", "a/../b", "a" * 100_000, "pulsar/system", "persistent://a/b/c\0d", "a/b/c/d/e", "é/ü")
    ]

    def act(number: int) -> None:
        kind, name = shapes[number % len(shapes)]
        stamp = Timestamp(1, number, target.place.peer)
        event = MetadataChangeEvent(
            EventType.CREATED, Resource(kind, name), target.place.peer, 1, Record(kind, stamp, None, {})
        )
        publish_one(target, event.encode())

    return repeatedly(target, act)


def publish_one(target: Target, event: bytes) -> None:
    """Publish one event on a connection of its own."""
    with connect(target) as connection:
        connection.create_producer(EVENT_TOPIC)
        connection.socket.sendall(send_frame(entry(event)))
        connection.is_closed_by_peer(0.01)
