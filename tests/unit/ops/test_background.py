"""The suites' own threads have time limits."""

from __future__ import annotations

import threading

import pytest

from tests.kit.background import Background, within


class Stuck(Background):
    """Ignores ``stopping``."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()

    def work(self) -> None:
        self.released.wait()


def test_work_that_does_not_stop_is_named() -> None:
    stuck = Stuck()
    stuck.begin()
    with pytest.raises(TimeoutError, match=r"Stuck did not stop within 0\.01 s"):
        stuck.end(0.01)
    assert not stuck.has_ended
    stuck.released.set()
    stuck.end()
    assert stuck.has_ended


def test_a_call_that_does_not_return_is_named() -> None:
    released = threading.Event()
    with pytest.raises(TimeoutError, match=r"not within 0\.01 s: receipts"):
        within(0.01, released.wait, what="receipts")
    released.set()


def test_results_and_exceptions_of_a_call_are_passed_on() -> None:
    def fail() -> None:
        message = "its own"
        raise TimeoutError(message)

    assert within(10, lambda: 7, what="seven") == 7
    with pytest.raises(TimeoutError, match="its own"):
        within(10, fail, what="nothing")
