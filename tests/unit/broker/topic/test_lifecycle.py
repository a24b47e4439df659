"""The transition table of a topic's lifecycle, and the meaning of each state for clients."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import StorageError
from magnetar.broker.topic import lifecycle
from magnetar.broker.topic.lifecycle import NEXT, SHUT, Event, Lifecycle, State
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.resources import managed_ledger_path
from magnetar.sim.cluster import TOPIC, Cluster
from tests.kit.stored import put

if TYPE_CHECKING:
    from magnetar.sim.cluster import Client

PATHS = {
    State.UNLOADED: [],
    State.LOADING: [Event.LOAD],
    State.OPEN: [Event.LOAD, Event.LOADED],
    State.DISMISSING: [Event.LOAD, Event.LOADED, Event.DISMISS],
    State.DRAINING: [Event.LOAD, Event.LOADED, Event.UNLOAD],
    State.FENCED: [Event.LOAD, Event.LOADED, Event.FENCE],
    State.CLOSING: [Event.LOAD, Event.LOADED, Event.FENCE, Event.DRAINED],
    State.DELETING: [Event.LOAD, Event.LOADED, Event.DELETE],
    State.SETTLING: [Event.LOAD, Event.LOADED, Event.UNLOAD, Event.DRAINED, Event.CLOSED],
    State.STOPPED: [Event.LOAD, Event.LOADED, Event.STOP],
}


def reached(state: State) -> tuple[Lifecycle, list[Event]]:
    seen: list[Event] = []
    found = Lifecycle(lambda _lifecycle, _before, event: seen.append(event))
    for event in PATHS[state]:
        assert found.apply(event)
    assert found.state is state
    assert seen == PATHS[state]
    seen.clear()
    return found, seen


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_each_event_in_each_state_leads_on_or_comes_too_late_or_is_a_bug(state: State, event: Event) -> None:
    found, seen = reached(state)
    following = NEXT.get((state, event))
    if following is not None:
        assert found.apply(event)
        assert (found.state, seen) == (following, [event])
    elif state in lifecycle._WITHOUT_EFFECT.get(event, ()):
        assert not found.apply(event)
        assert (found.state, seen) == (state, [])
    else:
        with pytest.raises(ValueError, match=f"a topic that is {state.value} cannot take the event '{event.value}'"):
            found.apply(event)
        assert (found.state, seen) == (state, [])


def test_no_row_of_the_table_is_without_effect_too() -> None:
    late = {(state, event) for event, states in lifecycle._WITHOUT_EFFECT.items() for state in states}
    assert not late & set(NEXT)


@pytest.mark.parametrize("state", State)
def test_entries_are_taken_by_a_topic_that_is_loading_or_open_only(state: State) -> None:
    assert reached(state)[0].drops_entries == (state not in (State.LOADING, State.OPEN))


def test_each_state_that_is_shut_is_left_without_a_client() -> None:
    def ends(state: State, met: frozenset[State]) -> bool:
        if state not in SHUT:
            return True
        following = {after for (before, event), after in NEXT.items() if before is state and event is not Event.STOP}
        return any(ends(each, met | {state}) for each in following - met)

    assert all(ends(state, frozenset()) for state in SHUT)


# -- a fenced topic ---------------------------------------------------------------------------------------------------


def stage() -> tuple[Cluster, Client]:
    cluster = Cluster(ledger_config=ManagedLedgerConfig(max_entries_per_ledger=2, min_rollover_ms=0))
    cluster.client().subscribe(permits=0)
    producer = cluster.client()
    producer.produce(name="p")
    producer.send("a", "b", first=0)
    assert producer.names() == ["PRODUCER_SUCCESS", "SEND_RECEIPT", "SEND_RECEIPT"]
    return cluster, producer


def states(cluster: Cluster) -> list[State]:
    """Return a list to which the states of topics are appended from now on."""
    seen: list[State] = []
    cluster.topics.observe(changed=lambda each, _before, _event: seen.append(each.state))
    return seen


FENCED = [State.FENCED, State.CLOSING, State.SETTLING, State.UNLOADED]


def test_a_write_of_the_log_that_fails_fences_the_topic() -> None:
    cluster, producer = stage()
    topic, seen = cluster.topic(), states(cluster)
    cluster.prompt = False
    producer.send("c", first=2)
    cluster.fail()
    cluster.prompt = True
    cluster.settle()
    assert seen == FENCED
    assert producer.names() == ["SEND_ERROR", "CLOSE_PRODUCER"]
    assert cluster.topic() is not topic
    producer.produce(name="p")
    producer.send("c", first=2)
    assert producer.names() == ["PRODUCER_SUCCESS", "SEND_RECEIPT"]
    assert cluster.subscription().backlog == 3


def test_a_fenced_topic_confirms_nothing() -> None:
    cluster, _ = stage()
    topic, outcomes = cluster.topic(), list[StorageError | None]()
    cluster.prompt = False
    topic.log.barrier(outcomes.append)
    topic.fence(StorageError("a new cursor is not durable"))
    topic.log.barrier(outcomes.append)
    assert not outcomes
    cluster.prompt = True
    cluster.settle()
    assert [str(outcome) for outcome in outcomes] == ["a new cursor is not durable"] * 2


def test_a_lost_compare_and_set_of_the_list_of_ledgers_fences_the_topic() -> None:
    cluster, producer = stage()
    topic, seen = cluster.topic(), states(cluster)
    path = managed_ledger_path(TOPIC)
    stored = cluster.metadata.get(path)
    assert stored is not None
    put(cluster.metadata, path, stored.value)  # like another broker that owns the topic now
    producer.send("c", first=2)  # begins a ledger
    assert seen == FENCED
    assert "CLOSE_PRODUCER" in producer.names()
    assert cluster.topic() is not topic
    producer.produce(name="p")
    producer.send("c", first=2)
    assert producer.names() == ["PRODUCER_SUCCESS", "SEND_RECEIPT"]
    assert cluster.subscription().backlog == 3


def test_a_compare_and_set_that_a_trim_loses_fences_the_topic() -> None:
    cluster, producer = stage()
    producer.send("c", first=2)
    subscription = cluster.subscription()
    cluster.do(partial(cluster.loop.create_task, subscription.skip(3)))
    topic, seen = cluster.topic(), states(cluster)
    path = managed_ledger_path(TOPIC)
    stored = cluster.metadata.get(path)
    assert stored is not None
    put(cluster.metadata, path, stored.value)
    cluster.trim()
    assert seen == FENCED
    assert cluster.topic() is not topic
    assert cluster.loop.problems == []
