"""The active consumer of a Failover subscription, and the notifications about it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mmh3
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.names import TopicName
from magnetar.broker.dispatch.election import Candidates
from magnetar.sim.cluster import TOPIC, Cluster, Failover
from magnetar.wire import commands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.sim.cluster import Client

TOPICS = [f"persistent://public/default/{number}" for number in range(1000)]


@dataclass(frozen=True, eq=False)
class Candidate:
    name: str
    priority_level: int = 0


def candidates_of(text: str, partition_index: int, *candidates: Candidate) -> Candidates[Candidate]:
    found: Candidates[Candidate] = Candidates(text, partition_index)
    for candidate in candidates:
        found.add(candidate)
    return found


def elected(topic: TopicName, *candidates: Candidate) -> str:
    chosen = candidates_of(str(topic), topic.partition_index, *candidates).elected()
    assert chosen is not None
    return chosen.name


def place_on_ring(text: str, names: Sequence[str]) -> int:
    candidates = [Candidate(name) for name in names]
    chosen = candidates_of(text, -1, *candidates).elected()
    return next(index for index, candidate in enumerate(candidates) if candidate is chosen)


@given(st.text(), st.lists(st.text(), min_size=1, max_size=4, unique=True))
def test_the_place_on_the_ring_is_the_nearest_point_going_up(text: str, names: list[str]) -> None:
    size = 1 << 31
    here = mmh3.hash(text, signed=False) % size
    owners = {mmh3.hash(f"{name}{point}", signed=False) % size: name for name in names for point in range(100)}
    nearest = min(owners, key=lambda point: (point - here) % size)
    assert names[place_on_ring(text, names)] == owners[nearest]


def elected_by_rule(text: str, partition_index: int, candidates: Sequence[Candidate]) -> Candidate:
    """The election rule in its literal form, over all candidates in the order of their arrival."""
    level = min(candidate.priority_level for candidate in candidates)
    best = sorted([each for each in candidates if each.priority_level == level], key=lambda each: each.name)
    if partition_index >= 0:
        return best[partition_index % len(best)]
    size = 1 << 31
    here = mmh3.hash(text, signed=False) % size
    distances = [
        min((mmh3.hash(f"{each.name}{point}", signed=False) - here) % size for point in range(100)) for each in best
    ]
    return max(zip(distances, range(len(best)), best, strict=True), key=lambda found: (-found[0], found[1]))[2]


@given(
    st.text(),
    st.integers(-1, 3),
    st.lists(st.tuples(st.sampled_from("aab"), st.integers(0, 1), st.booleans(), st.integers(0, 99)), max_size=30),
)
def test_candidates_that_come_and_go_are_elected_by_the_rule(
    text: str, partition_index: int, steps: list[tuple[str, int, bool, int]]
) -> None:
    candidates = candidates_of(text, partition_index)
    there: list[Candidate] = []
    for name, level, leaves, which in steps:
        if leaves and there:
            candidates.remove(there.pop(which % len(there)))
        else:
            there.append(Candidate(name, level))
            candidates.add(there[-1])
        assert candidates.elected() is (elected_by_rule(text, partition_index, there) if there else None)


def test_topics_spread_over_consumers() -> None:
    taken = Counter(place_on_ring(topic, ["a", "b", "c"]) for topic in TOPICS)
    assert min(taken[index] for index in range(3)) > len(TOPICS) // 6


def test_a_leaving_consumer_does_not_change_the_topics_of_others() -> None:
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


def told(client: Client) -> list[bool]:
    return [change.is_active for change in client.take("ACTIVE_CONSUMER_CHANGE")]


def test_a_client_is_told_when_it_knows_its_consumer() -> None:
    """The Go client drops what comes with the answer to SUBSCRIBE."""
    cluster = Cluster(settings={"activeConsumerFailoverDelayTimeMillis": 1000})
    first, better, silent = (cluster.client() for _ in range(3))
    first.subscribe(kind=Failover, priority_level=2, permits=0)
    assert first.names() == ["SUCCESS"]
    first.say(commands.flow(consumer_id=1, message_permits=1))
    assert told(first) == [True]
    better.subscribe(kind=Failover, priority_level=1, permits=0)
    assert (told(better), told(first)) == ([], [False])
    better.say(commands.flow(consumer_id=1, message_permits=1), commands.flow(consumer_id=1, message_permits=1))
    assert told(better) == [True]
    silent.subscribe(kind=Failover, priority_level=3, permits=0)
    better.leave()
    assert (told(first), told(silent)) == ([True], [])
    first.leave()
    assert told(silent) == []
    cluster.loop.advance(1)
    assert told(silent) == [True], "told the latest change, also without a FLOW"
    silent.say(commands.flow(consumer_id=1, message_permits=1))
    assert told(silent) == []


def test_a_consumer_that_left_is_not_told() -> None:
    cluster = Cluster(settings={"activeConsumerFailoverDelayTimeMillis": 1000})
    client = cluster.client()
    client.subscribe(kind=Failover, permits=0)
    client.say(commands.close_consumer(consumer_id=1, request_id=client.request_id()))
    cluster.loop.advance(1)
    assert told(client) == []
