"""Who is active on a Failover subscription, and who is told."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import mmh3
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.names import TopicName
from magnetar.broker.dispatchers.election import elect, place_on_ring
from magnetar.sim.cluster import TOPIC, Cluster, Failover

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.broker.consumer import Consumer

TOPICS = [f"persistent://public/default/{number}" for number in range(1000)]


@dataclass(frozen=True)
class Candidate:
    name: str
    priority_level: int = 0


def elected(topic: TopicName, *candidates: Candidate) -> str:
    return elect(cast("Sequence[Consumer]", candidates), topic).name


@given(st.text(), st.lists(st.text(), min_size=1, max_size=4, unique=True))
def test_the_place_on_the_ring_is_the_nearest_point_going_up(text: str, names: list[str]) -> None:
    size = 1 << 31
    here = mmh3.hash(text, signed=False) % size
    owners = {mmh3.hash(f"{name}{point}", signed=False) % size: name for name in names for point in range(100)}
    nearest = min(owners, key=lambda point: (point - here) % size)
    assert names[place_on_ring(text, names)] == owners[nearest]


def test_topics_spread_over_consumers() -> None:
    taken = Counter(place_on_ring(topic, ["a", "b", "c"]) for topic in TOPICS)
    assert min(taken[index] for index in range(3)) > len(TOPICS) // 6


def test_who_leaves_changes_nothing_for_the_topics_of_others() -> None:
    before = [["a", "b", "c"][place_on_ring(topic, ["a", "b", "c"])] for topic in TOPICS]
    after = [["a", "b"][place_on_ring(topic, ["a", "b"])] for topic in TOPICS]
    assert [now for was, now in zip(before, after, strict=True) if was != "c"] == [was for was in before if was != "c"]


def test_partitions_take_turns_by_name() -> None:
    candidates = Candidate("b"), Candidate("c"), Candidate("a")
    assert [elected(TOPIC.partition(index), *candidates) for index in range(4)] == ["a", "b", "c", "a"]


def test_a_worse_priority_level_is_for_when_there_is_no_better_one() -> None:
    better, worse = Candidate("z", priority_level=1), Candidate("a", priority_level=2)
    assert {elected(TopicName.parse(topic), worse, better) for topic in TOPICS} == {"z"}
    assert elected(TOPIC.partition(0), worse, better) == "z"


def test_only_the_newcomer_is_told_when_nothing_changes() -> None:
    cluster = Cluster(settings={"activeConsumerFailoverDelayTimeMillis": 0})
    first, second = cluster.client(), cluster.client()
    first.subscribe(kind=Failover, priority_level=1)
    assert [change.is_active for change in first.take("ACTIVE_CONSUMER_CHANGE")] == [True]
    second.subscribe(kind=Failover, priority_level=2)
    assert [change.is_active for change in second.take("ACTIVE_CONSUMER_CHANGE")] == [False]
    assert first.take("ACTIVE_CONSUMER_CHANGE") == []
    first.leave()
    assert [change.is_active for change in second.take("ACTIVE_CONSUMER_CHANGE")] == [True]


def test_all_are_told_when_a_better_one_comes() -> None:
    cluster = Cluster(settings={"activeConsumerFailoverDelayTimeMillis": 0})
    first, better = cluster.client(), cluster.client()
    first.subscribe(kind=Failover, priority_level=1)
    first.names()
    better.subscribe(kind=Failover, priority_level=0)
    assert [change.is_active for change in better.take("ACTIVE_CONSUMER_CHANGE")] == [True]
    assert [change.is_active for change in first.take("ACTIVE_CONSUMER_CHANGE")] == [False]
