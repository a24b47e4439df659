"""Time limits for REST clients."""

from __future__ import annotations

from magnetar.broker.web.patience import Patience, Phase

TIMEOUT_S = 30.0


def test_a_client_that_sends_nothing_has_its_time() -> None:
    patience = Patience(TIMEOUT_S, 100.0)
    assert not patience.is_over(129.9, Phase.WAITING, 0, 0)
    assert patience.is_over(130.0, Phase.WAITING, 0, 0)


def test_each_request_has_its_time() -> None:
    patience = Patience(TIMEOUT_S, 0.0)
    for requests in range(10):
        assert not patience.is_over(20.0 * requests, Phase.WAITING, requests, 0)
    assert not patience.is_over(209.0, Phase.WAITING, 9, 0)
    assert patience.is_over(210.0, Phase.WAITING, 9, 0)


def test_the_broker_takes_the_time_that_it_needs() -> None:
    patience = Patience(TIMEOUT_S, 0.0)
    assert not patience.is_over(20.0, Phase.WORKING, 0, 0)
    assert not patience.is_over(1000.0, Phase.WORKING, 0, 0)
    assert not patience.is_over(1020.0, Phase.WAITING, 1, 0)
    assert patience.is_over(1050.0, Phase.WAITING, 1, 0)


def test_an_answer_may_be_read_slowly_but_not_never() -> None:
    patience = Patience(TIMEOUT_S, 0.0)
    for step in range(10):
        assert not patience.is_over(25.0 * step, Phase.READING, 1, 1000 - step)
    assert not patience.is_over(254.0, Phase.READING, 1, 991)
    assert patience.is_over(255.0, Phase.READING, 1, 991)


def test_answers_that_pile_up_are_not_read() -> None:
    patience = Patience(TIMEOUT_S, 0.0)
    assert not patience.is_over(0.0, Phase.READING, 1, 10)
    assert patience.is_over(TIMEOUT_S, Phase.READING, 1, 20)
