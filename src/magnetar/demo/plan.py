"""The plan of the demo: the publishing rate, the times of the switches, and the behaviour of the consumers. Pure."""

from __future__ import annotations

from dataclasses import dataclass

TENANT = "nyc"
NAMESPACE = "nyc/flights"
TOPIC = "persistent://nyc/flights/departures"
SUBSCRIPTION = "boarding"

FLIGHT_PROPERTY = "flight"
"""Property of each message with its flight's number; the payload is the flight's data."""

PUBLISH_SECONDS_MIN = 20.0
"""Minimum duration of publishing in seconds, so that a short run has time for both switches."""

PUBLISH_RATE = 1_800.0
"""Flights published per second by all clusters together, within the capacity of two cores."""

PLANNED_AT = 0.35
"""Fraction of the publishing time after which the consumers move as planned."""

KILL_AT = 0.65
"""Fraction of the publishing time after which their broker is killed."""

CONSUMERS = 2
"""Number of consumers of the shared subscription in the active cluster."""

ACK_GROUPING_MS = 100.0
"""Time for which the official client batches acknowledgements (its ``ackGroupingTimeMs``)."""

LATE_ONE_IN = 20
"""One in this number of messages is acknowledged late."""

LATE_MS_MIN = 1_000
LATE_MS_MAX = 8_000
"""Maximum delay of a late acknowledgement."""

HELD_ONE_IN = 5_000
"""One in this number of messages stays unacknowledged while its consumer lives, except in the last cluster."""

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Pace:
    """``count`` messages at a constant rate over ``seconds``."""

    count: int
    seconds: float

    def due(self, elapsed: float) -> int:
        """Return the number of messages due ``elapsed`` seconds after the start."""
        return self.count if elapsed >= self.seconds else int(self.count * max(elapsed, 0.0) / self.seconds)


def publish_seconds(flights: int) -> float:
    """Return the duration of publishing."""
    return max(PUBLISH_SECONDS_MIN, flights / PUBLISH_RATE)


def patience_ms(number: int, *, holds: bool) -> int | None:
    """Return milliseconds from the delivery of a flight to its acknowledgement; None if it stays unacknowledged.

    Depends on the flight only, so that a run can be repeated; ``holds``: whether the consumer leaves some
    unacknowledged.
    """
    chance = (number + 1) * _GOLDEN & _MASK
    chance ^= chance >> 29
    if holds and chance % HELD_ONE_IN == 0:
        return None
    if chance % LATE_ONE_IN == 1:
        return LATE_MS_MIN + (chance >> 8) % (LATE_MS_MAX - LATE_MS_MIN + 1)
    return 0
