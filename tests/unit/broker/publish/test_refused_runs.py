"""A run of SENDs with an invalid one is checked one by one, in several turns of the loop."""

from __future__ import annotations

from functools import partial

import pytest

from magnetar.broker.session import producers as session_producers
from magnetar.sim.cluster import Client, Cluster
from magnetar.wire import commands
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb
from magnetar.wire.runs import Sends

GOOD = build_entry(pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), b"x")
BAD = GOOD[:-1] + b"y"


@pytest.mark.parametrize(
    ("entries", "parts"),
    [([GOOD] * 250, 1), ([BAD] * 250, 3), ([*[GOOD] * 249, BAD], 3), ([BAD, *[GOOD] * 249], 2)],
    ids=["all intact", "all refused", "the last is refused", "the first is refused"],
)
def test_a_run_is_answered_in_order_and_in_parts(entries: list[bytes], parts: int) -> None:
    client = Cluster().client()
    client.produce()
    rest: Sends | None = Sends(1, [(number, 0, 1) for number in range(250)], entries)
    turns = 0
    while rest is not None:
        rest = client.cluster.do(partial(session_producers.publish, client.session, rest))
        turns += 1
    assert turns == parts
    assert answered(client) == [(number, entry is GOOD) for number, entry in enumerate(entries)]


def test_refusals_that_wait_count_as_publishes_under_way() -> None:
    cluster = Cluster(settings={"maxPendingPublishRequestsPerConnection": 10})
    client = cluster.client()
    client.produce()
    cluster.prompt = False
    client.say(*(commands.send(producer_id=1, sequence_id=each, entry=BAD) for each in range(11)))
    assert not client.reading
    cluster.prompt = True
    cluster.settle()
    assert client.reading
    assert len(answered(client)) == 11


def answered(client: Client) -> list[tuple[int, bool]]:
    """Return the SENDs answered since the last call, in order: the sequence id, and whether it is a receipt."""
    heard = [frame.command for frame in client.heard]
    client.heard.clear()
    return [
        (each.send_receipt.sequence_id, True) if each.HasField("send_receipt") else (each.send_error.sequence_id, False)
        for each in heard
        if each.HasField("send_receipt") or each.HasField("send_error")
    ]


def test_a_refusal_waits_for_the_receipts_of_what_came_before() -> None:
    """A client that gets a receipt for a message other than its oldest one reconnects and resends all of them."""
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    cluster.prompt = False
    client.send("a", "b")
    client.say(commands.send(producer_id=1, sequence_id=2, entry=BAD))
    client.send("c", first=3)
    assert answered(client) == []
    cluster.commit(1)
    assert answered(client) == [(0, True), (1, True)]
    cluster.prompt = True
    cluster.settle()
    assert answered(client) == [(2, False), (3, True)]
