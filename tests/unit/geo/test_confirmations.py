"""Unconfirmed acknowledgements of a peer, compared with a reference that stores every acknowledgement."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.geo.progress.confirmations import Acknowledged, Confirmations, Unconfirmed


def both(writes: int = 1) -> tuple[Acknowledged, Confirmations]:
    """Return a subscription that acknowledged an entry at each of the times 1.0, 2.0, … and published each alone."""
    made, peer = Acknowledged(), Confirmations()
    for number in range(1, writes + 1):
        made.add(1, float(number))
        oldest = made.writing()
        made.written(durable=True)
        peer.published("worker", made.count, oldest)
    return made, peer


def test_nothing_is_confirmed_before_the_answer() -> None:
    made, peer = both(2)
    assert made.unconfirmed("worker", peer) == Unconfirmed(2, 1.0)
    peer.sent()
    assert made.unconfirmed("worker", peer) == Unconfirmed(2, 1.0)
    peer.confirmed()
    assert made.unconfirmed("worker", peer) == Unconfirmed(0, None)


def test_an_answer_confirms_what_was_sent_before_it_and_no_more() -> None:
    made, peer = both(1)
    peer.sent()
    made.add(3, 5.0)
    peer.published("worker", made.count, made.writing())
    peer.confirmed()
    made.written(durable=True)
    assert made.unconfirmed("worker", peer) == Unconfirmed(3, 5.0)


def test_lost_acknowledgements_keep_their_age_and_are_confirmed_after_resending() -> None:
    made, peer = both(1)
    peer.sent()  # and the link is lost
    made.add(1, 7.0)
    peer.published("worker", made.count, made.writing())
    made.written(durable=True)
    assert made.unconfirmed("worker", peer) == Unconfirmed(2, 1.0)
    peer.sent()
    peer.confirmed()
    assert made.unconfirmed("worker", peer) == Unconfirmed(0, None)


def test_acknowledgements_that_are_not_durable_count() -> None:
    made, peer = Acknowledged(), Confirmations()
    made.add(1, 3.0)
    assert made.unconfirmed("worker", peer) == Unconfirmed(1, 3.0)
    made.writing()
    made.add(1, 4.0)
    assert made.unconfirmed("worker", peer) == Unconfirmed(2, 3.0)
    made.written(durable=False)
    assert made.unconfirmed("worker", peer) == Unconfirmed(2, 3.0)
    assert made.writing() == 3.0


def test_after_a_seek_only_that_is_left_to_confirm() -> None:
    made, peer = both(4)
    made.moved()
    made.add(0, 9.0)
    peer.published("worker", made.count, made.writing())
    made.written(durable=True)
    peer.sent()
    peer.confirmed()
    made.add(1, 10.0)
    assert made.unconfirmed("worker", peer) == Unconfirmed(1, 10.0)


def test_a_subscription_of_the_same_name_begins_at_nothing() -> None:
    _, peer = both(4)
    peer.sent()
    peer.confirmed()
    peer.keep(["another"])
    assert Acknowledged(2).unconfirmed("worker", peer) == Unconfirmed(2, None)


@given(st.lists(st.sampled_from(["ack", "write", "durable", "failed", "send", "confirm", "lose"]), max_size=60))
def test_as_if_every_acknowledgement_was_remembered(moves: list[str]) -> None:
    made, peer = Acknowledged(), Confirmations()
    # The reference: the times of acknowledgements, by stage.
    fresh: list[float] = []
    writing: list[tuple[int, float | None, list[float]]] = []
    waiting: list[float] = []
    sent: list[float] = []
    for now, move in enumerate(moves):
        if move == "ack":
            made.add(1, float(now))
            fresh.append(float(now))
        elif move == "write" and fresh:
            writing.append((made.count, made.writing(), fresh))
            fresh = []
        elif move == "durable" and len(writing) == 1:  # a later write does not include entries that an earlier one lost
            count, oldest, times = writing.pop(0)
            made.written(durable=True)
            peer.published("worker", count, oldest)
            waiting += times
        elif move == "failed" and len(writing) == 1:
            fresh = writing.pop(0)[2] + fresh
            made.written(durable=False)
        elif move == "send":
            sent, waiting = sent + waiting, []
            peer.sent()
        elif move == "confirm":
            sent = []
            peer.confirmed()
        times = [*sent, *waiting, *(time for each in writing for time in each[2]), *fresh]
        assert made.unconfirmed("worker", peer) == Unconfirmed(len(times), min(times, default=None))
