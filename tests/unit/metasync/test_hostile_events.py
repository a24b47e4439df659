"""No event ends the reception of the others, and what is kept of a refused one is bounded."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from magnetar.metadata.policies import TenantInfo
from magnetar.metasync.places import REFUSED
from magnetar.metasync.store import REASON_LENGTH_MAX, REFUSED_BYTES_MAX, REFUSED_MAX
from tests.unit.metasync.test_store import Cluster
from tests.unit.metasync.test_synchronizer import in_loop, mesh, running, settled

Json = Any

HOSTILE: tuple[Json, ...] = (
    None,
    True,
    -1,
    10**400,
    2**53,
    1.5,
    "",
    "/",
    "~",
    "a/../b",
    "x" * 5_000,
    "\ud800",
    [],
    {},
    [[[]]],
    {"": {"": {}}},
    [0, 0, "ewr"],
    [True, True, "ewr"],
    [10**9, 2**31, "ewr"],
    [1, 1, "no cluster"],
    {"/adminRoles": [["r"], 1, 1, "jfk"], "/adminRoles/x": [1, 1, 1, "jfk"]},
    {"/message_ttl_in_seconds/x": [1, 1, 1, "jfk"]},
    {"/partitions": [-5, 1, 1, "jfk"]},
    {"/partitions": ["many", 1, 1, "jfk"]},
)


def places(value: Json, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in JSON."""
    found = [path]
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        found += places(child, (*path, key))
    return found


def replaced(value: Json, path: tuple[Any, ...], new: Json) -> Json:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def hostile_events(chance: Random, count: int) -> list[bytes]:
    source = Cluster("jfk")
    source.resources.tenants.create("evil", TenantInfo(adminRoles=["r"]))
    source.resources.tenants.update("evil", lambda _: TenantInfo(adminRoles=["s"]))
    events = [json.loads(event.encode()) for event in source.events()]
    found = []
    for _ in range(count):
        event = chance.choice(events)
        for _ in range(chance.choice([1, 1, 2])):
            event = replaced(event, chance.choice(places(event)), chance.choice(HOSTILE))
            if not isinstance(event, dict):
                break
        found.append(json.dumps(event).encode())
    return found


@pytest.mark.parametrize("seed", range(8))
def test_no_event_ends_the_reception(seed: int) -> None:
    @in_loop
    async def receive() -> None:
        (ewr, lga), (synchronizer, other), (topic, source) = mesh("ewr", "lga")
        async with running((synchronizer, topic), (other, source)) as tasks:
            for event in hostile_events(Random(seed), 60):
                topic.arrive(event)
                await settled()
            lga.resources.tenants.create("good", TenantInfo())
            await settled()
            assert not any(task.done() for task in tasks)
        assert ewr.resources.tenants.exists("good")
        assert synchronizer.refused > 0
        ewr.restart()
        assert len(ewr.store.refused()) == min(synchronizer.refused, REFUSED_MAX)

    receive()


@pytest.mark.parametrize(
    "data",
    [
        b"{" * 5_000,
        b"[" * 200_000,
        b"\xff\xfe",
        b"x" * (1 << 21),
        json.dumps({"version": 1, "eventType": "y" * 100_000}).encode(),
        b'{"version": 1, "updateTime": 1e999}',
        b'{"version": NaN}',
    ],
)
def test_what_is_kept_of_a_refused_event_is_bounded(data: bytes) -> None:
    @in_loop
    async def receive() -> None:
        (ewr, _), (synchronizer, _), (topic, _) = mesh("ewr", "lga")
        async with running((synchronizer, topic)):
            topic.arrive(data)
            await settled()
        assert synchronizer.refused == 1
        ((_, kept),) = ewr.inner.below(REFUSED)
        assert len(kept) <= 6 * (REFUSED_BYTES_MAX + REASON_LENGTH_MAX) + 100, "escapes have six characters"

    receive()


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_json_does_not_have_are_refused(text: str) -> None:
    ewr = Cluster("ewr")
    source = Cluster("jfk")
    source.resources.tenants.create("acme", TenantInfo(adminRoles=["r"]))
    (event,) = source.events()
    data = event.encode().replace(b'["r"]', text.encode())
    with pytest.raises(ValueError, match="is no number of JSON"):
        ewr.receive(type(event).decode(data))
