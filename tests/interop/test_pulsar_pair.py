"""Two Apache Pulsars that replicate to each other with their own replicator, configured as in production."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.interop.conftest import replicated_topic
from tests.kit.messages import nothing_comes, numbered, publish, receive_data

if TYPE_CHECKING:
    from tests.kit.pulsar import PulsarClusters

pytestmark = pytest.mark.interop


def test_messages_reach_the_other_cluster_and_go_no_further(pair: PulsarClusters) -> None:
    topic = replicated_topic(pair)
    consumers = {
        name: pair.client(name).subscribe(topic, "all", initial_position=pulsar.InitialPosition.Earliest)
        for name in pair.members
    }
    publish(pair.client("one"), topic, numbered(50))
    for consumer in consumers.values():
        assert receive_data(consumer, 50, acknowledge=True) == numbered(50)
    publish(pair.client("two"), topic, numbered(50, first=50))
    for consumer in consumers.values():
        assert receive_data(consumer, 50, acknowledge=True) == numbered(50, first=50)
    assert all(map(nothing_comes, consumers.values()))


def test_after_a_kill_nothing_is_lost_but_some_comes_twice(pair: PulsarClusters) -> None:
    """The replicator delivers at least once: entries after its persisted cursor are sent and stored again."""
    topic = replicated_topic(pair)
    consumer = pair.client("two").subscribe(topic, "all", initial_position=pulsar.InitialPosition.Earliest)
    publish(pair.client("one"), topic, numbered(50))
    pair.pulsars["one"].restart()
    missing = set(numbered(50))
    while missing:
        missing -= set(receive_data(consumer, 1))
