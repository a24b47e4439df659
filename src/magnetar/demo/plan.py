"""What the demo does when: how fast it publishes, when the consumers move, how they behave. Pure."""

from __future__ import annotations

from dataclasses import dataclass

TENANT = "nyc"
NAMESPACE = "nyc/flights"
TOPIC = "persistent://nyc/flights/departures"
SUBSCRIPTION = "boarding"

FLIGHT_PROPERTY = "flight"
"""Property of each message that holds its flight's number; the rest of a message is the flight's own."""

PUBLISH_SECONDS_MIN = 20.0
"""Publishing takes at least this long, so that a short run has room for both switches too."""

PUBLISH_RATE = 1_800.0
"""Flights published per second, all clusters together: what two cores carry with everything else that goes on."""

PLANNED_AT = 0.35
"""Part of the publishing time after which the consumers are moved on purpose."""

KILL_AT = 0.65
"""Part of the publishing time after which their broker is killed."""

CONSUMERS = 2
"""Consumers of the shared subscription in the cluster whose turn it is."""

ACK_GROUPING_MS = 100.0
"""How long the official client gathers acknowledgements before it sends them (its ``ackGroupingTimeMs``)."""

LATE_ONE_IN = 20
"""One in so many messages is acknowledged late."""

LATE_MS_MIN = 1_000
LATE_MS_MAX = 8_000
"""Late acknowledgements come so many milliseconds after their message."""

HELD_ONE_IN = 5_000
"""One in so many messages is held, unacknowledged, for as long as its consumer lives; not in the last cluster."""

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Pace:
    """``count`` messages spread evenly over ``seconds``."""

    count: int
    seconds: float

    def due(self, elapsed: float) -> int:
        """How many should be out ``elapsed`` seconds after the start."""
        return self.count if elapsed >= self.seconds else int(self.count * max(elapsed, 0.0) / self.seconds)


def publish_seconds(flights: int) -> float:
    """How long publishing takes."""
    return max(PUBLISH_SECONDS_MIN, flights / PUBLISH_RATE)


def patience_ms(number: int, *, holds: bool) -> int | None:
    """Milliseconds from the delivery of a flight to its acknowledgement; None to hold it.

    Depends on the flight alone, so that a run can be repeated; ``holds`` is whether the consumer holds any.
    """
    chance = (number + 1) * _GOLDEN & _MASK
    chance ^= chance >> 29
    if holds and chance % HELD_ONE_IN == 0:
        return None
    if chance % LATE_ONE_IN == 1:
        return LATE_MS_MIN + (chance >> 8) % (LATE_MS_MAX - LATE_MS_MIN + 1)
    return 0
