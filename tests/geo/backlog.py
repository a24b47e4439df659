"""Progress on one topic during the replication of a backlog of another."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pulsar import ConsumerType

from tests.geo.helpers import backlog, entries, wait_for_backlog, wait_for_entries
from tests.kit.clusters import NAMES
from tests.kit.messages import connect, numbered, publish, publish_in_batches, receive
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.kit.clusters import Group, Up

MESSAGE_BYTES = 1_000


class ProgressProbe:
    """Measures the time from an acknowledgement in one cluster to its application in another."""

    def __init__(self, group: Group, topic: str, here: str, there: str, count: int) -> None:
        """Publish ``count`` messages in ``here``, and wait until both clusters have them."""
        self._group, self._topic, self._there = group, topic, there
        self._client = connect(group.members[here].service_url)
        self._consumer = self._client.subscribe(
            topic, "probe", ConsumerType.Shared, replicate_subscription_state_enabled=True
        )
        publish(self._client, topic, numbered(count))
        wait_for_entries(group, topic, count, [there])
        wait_for_backlog(group, topic, "probe", count, [there])
        self._messages = receive(self._consumer, count)
        self._left = count

    def measure(self) -> float:
        """Acknowledge one message; return the seconds until the other cluster shows it, up to 0.1 of them in the
        client.
        """
        started = time.monotonic()
        self._left -= 1
        self._consumer.acknowledge(self._messages.pop())
        wait_until(
            lambda: backlog(self._group, self._there, self._topic, "probe") == self._left,
            what=f"acknowledgement applied in {self._there}",
            interval_s=0.005,
        )
        return time.monotonic() - started

    def has_more(self) -> bool:
        """Return whether there is another message to acknowledge."""
        return self._left > 0

    def close(self) -> None:
        """Close the consumer."""
        self._client.close()


def ages_during_backlog(up: Up, namespace: str, count: int, probes: int = 200) -> list[float]:
    """Replicate a backlog of ``count`` messages from ewr; return the delays of acknowledgements during that, in
    seconds.

    At most ``probes`` are made, one after the other, until jfk has the whole backlog. All clusters have it on return.
    """
    loaded = f"{namespace}-loaded"
    for name in NAMES:
        up.make_local_namespace(name, loaded)
    topic = f"persistent://{loaded}/backlog"
    client = up.client("ewr")
    client.subscribe(topic, "keeps").close()
    publish_in_batches(client, topic, [bytes(MESSAGE_BYTES)] * 100, per_batch=100)
    producer = client.create_producer(topic, block_if_queue_full=True, max_pending_messages=5_000)
    for number in range(count):
        producer.send_async(b"%d" % number + bytes(MESSAGE_BYTES), lambda *_: None)
    producer.flush()
    probe = ProgressProbe(up, f"persistent://{namespace}/probe", "ewr", "jfk", probes)
    for name in NAMES:
        up.rest(name).post(f"namespaces/{loaded}/replication", list(NAMES))
    ages = []
    while entries(up, "jfk", topic) < count + 1 and probe.has_more():
        ages.append(probe.measure())
    probe.close()
    wait_for_entries(up, topic, count + 1, NAMES)
    return ages
