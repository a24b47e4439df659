"""A run of SENDs in which something is wrong is checked one by one, a part of it in each turn of the loop."""

from __future__ import annotations

from functools import partial

import pytest

from magnetar.broker import session_producers
from magnetar.sim.cluster import Cluster
from magnetar.wire.entry import build_entry
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
    errors = [each.sequence_id for each in client.take("SEND_ERROR")]
    assert turns == parts
    assert errors == [number for number, entry in enumerate(entries) if entry is BAD]
    assert sorted([*errors, *(number for number, _ in client.receipts())]) == list(range(250))
