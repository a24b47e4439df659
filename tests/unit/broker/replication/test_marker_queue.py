"""Markers between the entries of a link: their order, and their recreation after a loss."""

from __future__ import annotations

from magnetar.base.position import Position
from magnetar.broker.replication.outbound.marker_queue import WAITING_MAX, MarkerQueue, QueuedMarker

DOUBT_S = 30.0


def at(entry_id: int) -> Position:
    return Position(3, entry_id)


def news(text: str, after: int = 0, of: str = "worker") -> QueuedMarker:
    return QueuedMarker(text.encode(), at(after), of)


def question(text: str, after: int = 0) -> QueuedMarker:
    return QueuedMarker(text.encode(), at(after))


def answer(text: str, after: int = 0) -> QueuedMarker:
    return QueuedMarker(text.encode(), at(after), is_answer=True)


def take_all(queue: MarkerQueue, through: int = 100, now: float = 0.0) -> list[str]:
    taken = []
    while marker := queue.take(at(through), now):
        taken.append(marker.entry.decode())
    return taken


def test_each_waits_until_what_was_there_before_it_is_sent() -> None:
    queue = MarkerQueue(DOUBT_S)
    queue.put(question("a", after=4))
    queue.put(question("b", after=7))
    assert take_all(queue, through=3) == []
    assert take_all(queue, through=6) == ["a"]
    assert take_all(queue, through=7) == ["b"]
    assert len(queue) == 0


def test_newer_news_of_a_subscription_replaces_older() -> None:
    queue = MarkerQueue(DOUBT_S)
    for marker in (news("old"), news("other", of="other"), question("q"), news("new")):
        queue.put(marker)
    assert take_all(queue) == ["other", "q", "new"]


def test_news_that_may_have_been_lost_is_sent_again_and_questions_are_not() -> None:
    queue = MarkerQueue(DOUBT_S)
    for marker in (question("q"), news("told")):
        queue.put(marker)
    assert take_all(queue, now=5.0) == ["q", "told"]
    queue.put(question("r", after=200))
    queue.put(news("waits", after=200, of="other"))
    queue.lost(now=5.0 + DOUBT_S)
    assert take_all(queue, now=40.0) == ["told", "waits"], "it may have been told in vain; it need not wait for entries"
    queue.lost(now=41.0 + DOUBT_S)
    assert take_all(queue) == [], "what was told so long ago has arrived"


def test_the_newest_answer_waits_for_who_carries_the_link_next_and_for_what_it_speaks_of() -> None:
    queue = MarkerQueue(DOUBT_S)
    for text in ("given", "waits", "waits too"):
        queue.put(answer(text, after=0 if text == "given" else 7))
    assert take_all(queue, through=3) == ["given"]
    queue.lost(now=1.0)
    assert take_all(queue, through=6) == []
    assert take_all(queue, through=7) == ["waits too"], "what was handed out is not told again"
    queue.put_for_next(answer("old", after=8))
    queue.put_for_next(answer("new", after=9))
    queue.lost(now=2.0)
    assert take_all(queue) == ["new"]


def test_possibly_lost_markers_do_not_follow_newer_ones() -> None:
    queue = MarkerQueue(DOUBT_S)
    queue.put(news("old"))
    take_all(queue)
    queue.put(news("new"))
    queue.lost(now=1.0)
    assert take_all(queue) == ["new"]


def test_outdated_updates_are_not_sent() -> None:
    queue = MarkerQueue(DOUBT_S)
    queue.put(news("told"))
    take_all(queue)
    queue.put(news("waits"))
    queue.put(news("other", of="other"))
    queue.forget("worker")
    queue.lost(now=1.0)
    assert take_all(queue) == ["other"]


def test_a_link_that_takes_none_holds_no_more_than_so_many() -> None:
    queue = MarkerQueue(DOUBT_S)
    taken = [queue.put(question(str(number))) for number in range(WAITING_MAX + 5)]
    assert taken == [True] * WAITING_MAX + [False] * 5
    assert take_all(queue) == [str(number) for number in range(WAITING_MAX)]
