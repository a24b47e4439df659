"""Dispatch takes as many turns of the loop as necessary, despite frequent notifications."""

from __future__ import annotations

from collections import Counter

import pytest

from magnetar.broker.loop import turns
from magnetar.broker.loop.turns import LoopTurns
from magnetar.broker.subscription.subscription import Subscription
from magnetar.sim.cluster import Cluster, Exclusive

SUBSCRIPTIONS = 12


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_ITEMS_MAX", 3)


def test_all_are_sent_what_there_is_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    client = cluster.client()
    for number in range(SUBSCRIPTIONS):
        client.subscribe(consumer_id=number, subscription=f"s{number}", kind=Exclusive)
    client.produce()
    client.names()
    looks_by_turn: Counter[int] = Counter()
    turn, run, dispatch = 0, LoopTurns._run, Subscription.dispatch

    def counted(each: LoopTurns) -> None:
        nonlocal turn
        turn += 1
        run(each)

    def look(subscription: Subscription) -> None:
        looks_by_turn[turn] += 1
        dispatch(subscription)

    monkeypatch.setattr(LoopTurns, "_run", counted)
    monkeypatch.setattr(Subscription, "dispatch", look)
    client.send("a")
    assert len(client.take("MESSAGE")) == SUBSCRIPTIONS
    assert max(looks_by_turn.values()) <= turns.TURN_ITEMS_MAX + 1


def test_news_during_a_look_make_one_more_look(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    client = cluster.client()
    names = [f"s{number}" for number in range(SUBSCRIPTIONS)]
    for number, name in enumerate(names):
        client.subscribe(consumer_id=number, subscription=name, kind=Exclusive)
    topic = cluster.topic()
    looks: list[str] = []

    def look(subscription: Subscription) -> None:
        looks.append(subscription.name)
        if len(looks) <= SUBSCRIPTIONS:
            topic.notify()

    monkeypatch.setattr(Subscription, "dispatch", look)
    cluster.do(topic.notify)
    assert looks == names + names


def test_an_error_of_one_keeps_no_other_from_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    client = cluster.client()
    names = ["a", "b", "c"]
    for number, name in enumerate(names):
        client.subscribe(consumer_id=number, subscription=name, kind=Exclusive)
    topic = cluster.topic()
    looks: list[str] = []

    def look(subscription: Subscription) -> None:
        looks.append(subscription.name)
        assert subscription.name != "a", "a bug"

    monkeypatch.setattr(Subscription, "dispatch", look)
    cluster.loop.call_soon(topic.notify)
    cluster.loop.spin()
    assert looks == names
    assert len(cluster.loop.problems) == 1
    cluster.loop.problems.clear()
    cluster.do(topic.notify)
    assert looks == names + names
    cluster.loop.problems.clear()
