"""The limits of handshakes, without sockets."""

from __future__ import annotations

from magnetar.base.limits import Limit
from magnetar.broker.resources.limit_hits import LimitHits
from magnetar.broker.tls.handshakes import SILENT_S, WAITING_MAX, Handshakes, waiting_max

TIMEOUT_S = 10.0


class Client:
    """A client that records what happens to it."""

    has_begun = False
    ended_by: Limit | None = None

    def begin(self) -> None:
        self.has_begun = True

    def give_up(self, limit: Limit) -> None:
        self.ended_by = limit


def stage(running_max: int = 2) -> tuple[Handshakes, LimitHits, list[Client]]:
    hits = LimitHits()
    return Handshakes(running_max, TIMEOUT_S, hits), hits, [Client() for _ in range(5)]


def hit(hits: LimitHits) -> dict[str, int]:
    return {name: count for name, count in hits.counts().items() if count}


def test_a_client_beyond_the_limit_waits_for_a_place() -> None:
    handshakes, hits, (first, second, third, fourth, _) = stage()
    for client in (first, second, third, fourth):
        handshakes.arrived(client, 0.0)
    assert [each.has_begun for each in (first, second, third, fourth)] == [True, True, False, False]
    handshakes.ended(first, 0.1, is_complete=True)
    handshakes.ended(first, 0.1, is_complete=True)
    assert (third.has_begun, fourth.has_begun) == (True, False)
    handshakes.ended(fourth, 0.2, is_complete=False)  # it has left
    assert (handshakes.in_progress, handshakes.succeeded, handshakes.failed) == (2, 1, 1)
    assert hit(hits) == {Limit.HANDSHAKES.value: 2}


def test_a_silent_client_loses_its_place_but_one_that_waits_for_this_broker_does_not() -> None:
    handshakes, hits, (busy, silent, quick, waiting, _) = stage(3)
    for client in (busy, silent, quick):
        handshakes.arrived(client, 0.0)
    handshakes.received(busy)
    handshakes.received(quick)
    handshakes.handled(quick, SILENT_S)
    handshakes.arrived(waiting, SILENT_S / 2)
    assert not waiting.has_begun
    handshakes.check(SILENT_S)
    assert (silent.ended_by, waiting.has_begun) == (Limit.HANDSHAKES, True)
    assert busy.ended_by is quick.ended_by is None
    assert hit(hits) == {Limit.HANDSHAKES.value: 2}


def test_a_handshake_has_a_time() -> None:
    handshakes, hits, (slow, late, *_) = stage(1)
    handshakes.arrived(slow, 0.0)
    handshakes.received(slow)
    handshakes.arrived(late, 1.0)
    handshakes.check(TIMEOUT_S - 0.1)
    assert slow.ended_by is None
    handshakes.check(TIMEOUT_S)
    assert slow.ended_by is Limit.HANDSHAKE_TIME
    assert (late.ended_by, late.has_begun) == (None, True)
    assert (handshakes.in_progress, handshakes.failed) == (1, 1)
    assert hit(hits) == {Limit.HANDSHAKES.value: 1, Limit.HANDSHAKE_TIME.value: 1}


def test_clients_beyond_the_queue_are_refused() -> None:
    hits, (first, second, third) = LimitHits(), [Client() for _ in range(3)]
    handshakes = Handshakes(1, TIMEOUT_S, hits, pending_max=2)
    for client in (first, second, third):
        handshakes.arrived(client, 0.0)
    assert [each.ended_by for each in (first, second, third)] == [None, None, Limit.WAITING_HANDSHAKES]
    assert handshakes.in_progress == 2
    handshakes.stop()
    assert handshakes.in_progress == 0
    assert first.ended_by is second.ended_by is Limit.HANDSHAKES
    late = Client()
    handshakes.arrived(late, 0.1)
    assert (late.ended_by, handshakes.in_progress) == (Limit.HANDSHAKES, 0)
    assert hit(hits) == {Limit.HANDSHAKES.value: 1, Limit.WAITING_HANDSHAKES.value: 1}


def test_handshakes_leave_descriptors_for_connections() -> None:
    assert [waiting_max(descriptors) for descriptors in (4, 1024, 1 << 20)] == [1, 128, WAITING_MAX]
