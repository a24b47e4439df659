"""What is still missing in the other cluster, by the answer of a broker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.migration.switching.fence import (
    Fence,
    Link,
    Phase,
    Subscription,
    TopicState,
    difference,
    not_carried,
    topic_state,
)

EQUAL = Subscription(digest="a1", unconfirmed={"jfk": 0}, age_s={"jfk": 0.0})
ONLY_ONE = "only one of the clusters has the subscription"
STATE = TopicState(Fence("m", 3, Phase.CLOSED), {"audit": EQUAL, "billing": EQUAL}, {"jfk": Link(0), "lga": Link(7)})


def with_link(link: Link | None) -> TopicState:
    return replace(STATE, links={} if link is None else {"jfk": link})


def with_billing(**changes: object) -> TopicState:
    return replace(STATE, subscriptions={"audit": EQUAL, "billing": replace(EQUAL, **changes)})  # type: ignore[arg-type]


def test_the_answer_of_a_broker() -> None:
    subscription = {"unacknowledgedMessages": 4, "unacknowledgedEntries": 9, "digest": "a1", "isReplicated": False}
    subscription |= {"progressUnconfirmed": {"jfk": None}, "progressAgeSeconds": {"jfk": 0.5}}
    link = {"backlog": None, "connected": True, "parkedReason": "too large"}
    fence = {"migration": "m", "epoch": 3, "phase": "settling", "leaseSeconds": 10, "leaseEndsInSeconds": 8.1}
    answer = {"fence": fence, "lastPosition": "3:4", "subscriptions": {"billing": subscription}, "links": {"jfk": link}}
    expected = Subscription(
        unacknowledged=4, digest="a1", is_replicated=False, unconfirmed={"jfk": None}, age_s={"jfk": 0.5}
    )
    found = topic_state(answer)
    assert found.fence == Fence("m", 3, Phase.SETTLING)
    assert (found.subscriptions, found.links) == ({"billing": expected}, {"jfk": Link(None, "too large")})
    assert found.unacknowledged == 4
    assert topic_state(answer | {"fence": None}).fence is None


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (STATE, ""),
        (with_link(None), "it has no link to jfk"),
        (with_link(Link(0, "too large")), "its link is parked: too large"),
        (with_link(Link(1_200)), "1,200 entries are not confirmed by jfk"),
        (with_link(Link(None)), "an unknown number of entries are not confirmed by jfk"),
        (with_billing(unconfirmed={"jfk": 3}), "jfk has not confirmed 3 acknowledgements of billing"),
        (with_billing(unconfirmed={"jfk": None}), "jfk has not confirmed an unknown number of acknowledgements of bil"),
        (with_billing(unconfirmed={}), "jfk has not confirmed an unknown number of acknowledgements of billing"),
        (with_billing(age_s={"jfk": 0.1}), "jfk has not confirmed 0 acknowledgements of billing"),
        (with_billing(age_s={"jfk": None}), "jfk has not confirmed 0 acknowledgements of billing"),
    ],
)
def test_entries_and_acknowledgements_on_their_way(state: TopicState, reason: str) -> None:
    assert not_carried(state, "jfk").startswith(reason)
    assert bool(not_carried(state, "jfk")) == bool(reason)


@pytest.mark.parametrize(
    ("here", "there", "reason"),
    [
        (STATE, STATE, ""),
        (STATE, with_billing(digest="b2"), "the acknowledgements of billing differ"),
        (with_billing(digest=None), with_billing(digest=None), "the acknowledgements of billing differ"),
        (STATE, replace(STATE, subscriptions={"audit": EQUAL}), f"{ONLY_ONE} billing"),
        (replace(STATE, subscriptions={}), STATE, f"{ONLY_ONE} audit"),
    ],
)
def test_the_states_of_both_clusters(here: TopicState, there: TopicState, reason: str) -> None:
    assert difference(here, there) == reason
