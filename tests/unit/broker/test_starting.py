from __future__ import annotations

import structlog.testing

from magnetar.broker.starting import Starting


class Clock:
    seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def boot(self) -> str:
        return ""


def test_a_start_that_takes_long_says_once_a_second_how_far_it_is() -> None:
    clock = Clock()
    with structlog.testing.capture_logs() as said:
        starting = Starting(clock)
        for done in range(25):
            starting.report("segments", done, 25)
            clock.seconds += 0.125
    assert [(line["recovered"], line["done"], line["total"]) for line in said] == [
        ("segments", 8, 25),
        ("segments", 16, 25),
        ("segments", 24, 25),
    ]
