"""A producer moves to another cluster and resends: it gets its last sequence id, and each message is stored once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.geo.helpers import log_of, wait_for_entries
from tests.kit.messages import numbered, send_all

if TYPE_CHECKING:
    import pulsar

    from tests.kit.clusters import Up

MOVER = "tower"


def publish(client: pulsar.Client, topic: str, first: int, last: int) -> int:
    """Send messages ``first`` to ``last`` as the producer MOVER; return the last sequence id that it got."""
    producer = client.create_producer(topic, producer_name=MOVER, block_if_queue_full=True)
    told: int = producer.last_sequence_id()
    send_all(producer, [(b"%d" % number, {"sequence_id": number}) for number in range(first, last + 1)])
    producer.close()
    return told


def test_replicated_messages_are_not_stored_again_after_their_producer_moves(up: Up, namespace: str) -> None:
    topic = f"persistent://{namespace}/moving"
    for name in ("ewr", "jfk", "lga"):
        up.rest(name).post(f"namespaces/{namespace}/deduplication", True)
    wait = partial(wait_for_entries, up, topic)
    assert publish(up.client("ewr"), topic, 1, 40) == -1
    wait(40, ["jfk", "lga"])
    assert publish(up.client("jfk"), topic, 1, 60) == 40
    wait(60, ["ewr", "lga"])
    assert publish(up.client("lga"), topic, 30, 70) == 60
    wait(70, ["ewr", "jfk"])
    assert publish(up.client("ewr"), topic, 1, 70) == 70
    for name in ("ewr", "jfk", "lga"):
        assert log_of(up, name, topic) == numbered(70, first=1)
