"""The protection status for given facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.geo.progress.confirmations import Unconfirmed
from magnetar.geo.protection import DataFacts, Facts, PeerFacts, ProgressFacts, Status, judge

NOW = 1000.0
TOLERANCE_S = 1.0
ALL_CONFIRMED = Unconfirmed(0, None)

MARKERS = (
    "acknowledgements are carried by snapshots (PIP-33): what was acknowledged since the last one, and what was "
    "acknowledged out of order, is repeated there"
)

PROGRESS = ProgressFacts(unconfirmed=ALL_CONFIRMED, steady_since=300.0, is_first=False)
DATA = DataFacts(steady_since=400.0)


def facts(*peers: PeerFacts, because: str = "") -> Facts:
    return Facts(
        unprotected_because=because,
        unprotected_since=50.0,
        unprotected_at_least=True,
        observed_since=100.0,
        peers=dict(zip(("jfk", "lga"), peers, strict=False)),
    )


def peer(progress: ProgressFacts = PROGRESS, data: DataFacts = DATA) -> PeerFacts:
    return PeerFacts(progress=progress, data=data)


def judged(*peers: PeerFacts) -> tuple[Status, float, bool, tuple[str, ...]]:
    found = judge(facts(*peers), NOW, TOLERANCE_S)
    return found.status, found.since, found.at_least, found.reasons


def test_protected_since_the_last_of_all_caught_up() -> None:
    assert judged(peer()) == (Status.PROTECTED, 400.0, False, ())
    later = peer(replace(PROGRESS, steady_since=500.0))
    assert judged(later, peer())[1] == 500.0


def test_a_status_at_the_first_observation_may_be_older() -> None:
    first = peer(replace(PROGRESS, is_first=True, steady_since=101.0), DataFacts(steady_since=100.0))
    assert judged(first) == (Status.PROTECTED, 101.0, True, ())


def test_without_replicated_progress_no_other_fact_counts() -> None:
    found = judge(facts(peer(), because="it is forbidden"), NOW, TOLERANCE_S)
    assert (found.status, found.since, found.at_least) == (Status.UNPROTECTED, 50.0, True)
    assert (found.reasons, found.peers) == (("it is forbidden",), {})


@pytest.mark.parametrize(
    ("progress", "data", "since", "at_least", "reason"),
    [
        (
            replace(PROGRESS, unconfirmed=Unconfirmed(7, 990.0)),
            DATA,
            990.0,
            False,
            "jfk: 7 acknowledgements are not confirmed, the oldest made 10.0 s ago",
        ),
        (
            replace(PROGRESS, down_since=900.0, failure="refused"),
            DATA,
            900.0,
            False,
            "jfk: the progress link is down (refused)",
        ),
        (
            replace(PROGRESS, unconfirmed=None),
            DATA,
            100.0,
            True,
            "jfk: what it lacks of the acknowledgements is not known before it has confirmed all of them once",
        ),
        (
            PROGRESS,
            replace(DATA, entries=3, oldest_appended_at=980.0),
            980.0,
            False,
            "jfk: 3 messages are not there, the oldest stored 20.0 s ago",
        ),
        (
            PROGRESS,
            replace(DATA, entries=3, oldest_appended_at=NOW - 0.5, is_oldest_exact=False),
            NOW - 0.5,
            True,
            "jfk: 3 messages are not there, the oldest stored at least 0.5 s ago",
        ),
        (
            replace(PROGRESS, by_markers=True, unavailable="it takes none", unconfirmed=None),
            DATA,
            300.0,
            True,
            f"jfk: {MARKERS}",
        ),
        (PROGRESS, replace(DATA, uncarried_since=970.0), 970.0, False, "jfk: nobody carries messages there"),
        (PROGRESS, replace(DATA, uncarried_since=100.0), 100.0, True, "jfk: nobody carries messages there"),
        (
            PROGRESS,
            replace(DATA, unknown_since=970.0),
            970.0,
            False,
            "jfk: which messages are there is not known before the link has confirmed it",
        ),
        (
            PROGRESS,
            replace(DATA, entries=3),
            100.0,
            True,
            "jfk: 3 messages are not there, and the age of the oldest was not recorded",
        ),
    ],
)
def test_each_risk(progress: ProgressFacts, data: DataFacts, since: float, at_least: bool, reason: str) -> None:
    assert judged(peer(progress, data)) == (Status.AT_RISK, since, at_least, (reason,))


def test_messages_that_the_cluster_published_and_lost_are_a_risk_as_long_as_they_are_not_acknowledged() -> None:
    reason = "jfk: 3 messages that it published before it lost its data were not sent back to it yet"
    assert judged(replace(peer(), lost=3)) == (Status.AT_RISK, 100.0, True, (reason,))
    assert judged(replace(peer(), lost=0))[0] is Status.PROTECTED
    assert judged(replace(peer(), lost=None))[0] is Status.PROTECTED, "a cluster of an earlier release names no life"


def test_messages_that_are_still_being_searched_for_are_a_risk() -> None:
    reason = "jfk: the messages that it published before it lost its data are still being searched for"
    assert judged(replace(peer(), is_searching=True)) == (Status.AT_RISK, 100.0, True, (reason,))
    found = judged(replace(peer(), lost=0, is_searching=True))
    assert found[0] is Status.PROTECTED, "all of them are acknowledged, or were sent back"


def test_damaged_messages_that_were_not_sent_back_are_a_risk() -> None:
    reason = (
        "jfk: messages that it published before it lost its data are damaged here and were not sent back to it; "
        "whether it got them from another cluster is not known"
    )
    assert judged(replace(peer(), is_damaged=True)) == (Status.AT_RISK, 100.0, True, (reason,))
    assert judged(replace(peer(), lost=0, is_damaged=True))[0] is Status.PROTECTED


def test_changes_in_flight_within_the_tolerance_are_no_risk() -> None:
    progress = replace(PROGRESS, unconfirmed=Unconfirmed(7, NOW - 0.9), down_since=NOW - 0.9)
    data = replace(DATA, entries=3, oldest_appended_at=NOW - 0.9, uncarried_since=NOW - 0.9)
    assert judged(peer(progress, data))[0] is Status.PROTECTED


def test_at_risk_since_the_first_cluster_fell_behind_and_for_all_their_reasons() -> None:
    jfk = peer(replace(PROGRESS, unconfirmed=Unconfirmed(1, 990.0)))
    lga = peer(data=replace(DATA, entries=2, oldest_appended_at=980.0))
    status, since, _, reasons = judged(jfk, lga)
    assert (status, since) == (Status.AT_RISK, 980.0)
    assert [reason[:4] for reason in reasons] == ["jfk:", "lga:"]


def test_as_well_off_as_towards_the_worst() -> None:
    unable = peer(replace(PROGRESS, unavailable="it takes none", steady_since=700.0))
    late = peer(replace(PROGRESS, unconfirmed=Unconfirmed(1, 990.0)))
    assert judged(late, unable) == (
        Status.UNPROTECTED,
        700.0,
        False,
        ("jfk: 1 acknowledgements are not confirmed, the oldest made 10.0 s ago", "lga: it takes none"),
    )
    found = judge(facts(peer(), late), NOW, TOLERANCE_S)
    assert {cluster: each.status for cluster, each in found.peers.items()} == {
        "jfk": Status.PROTECTED,
        "lga": Status.AT_RISK,
    }


def test_unknown_facts_have_no_tolerance() -> None:
    unknown = peer(replace(PROGRESS, unconfirmed=None))
    found = judge(replace(facts(unknown), observed_since=NOW), NOW, TOLERANCE_S)
    assert (found.status, found.at_least) == (Status.AT_RISK, True)
