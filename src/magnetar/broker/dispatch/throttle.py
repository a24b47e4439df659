"""The rates at which one subscription or link sends. None of this is used while there are no limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from magnetar.broker.dispatch.consumer import Delivery
    from magnetar.broker.environment import Environment
    from magnetar.broker.resources.token_bucket import RateLimit

WAIT_MIN_S: Final = 0.01
"""Minimum seconds before dispatch is resumed, so that a high rate does not cost a turn for each message."""


class Throttle:
    """Limits what is sent, and resumes the dispatch when there is room again. Used on the event loop's thread."""

    def __init__(self, environment: Environment, limits: Sequence[RateLimit], resume: Callable[[], None]) -> None:
        """Apply all of ``limits``, at least one; others may share them."""
        assert limits
        self.limits = tuple(limits)
        self._loop = environment.loop
        self._clock = environment.clock
        self._resume = resume
        self._timer: asyncio.TimerHandle | None = None
        self._average_size = float("inf")
        """Size of the messages that were sent last; at first, one message is sent."""

    def room(self) -> int:
        """Return how many messages may be sent now; if 0, ``resume`` is called when there is room."""
        now = self._clock.monotonic()
        room = min([limit.room(now, self._average_size) for limit in self.limits])
        if not room and self._timer is None:
            wait_s = max([limit.wait_s(now) for limit in self.limits])
            self._timer = self._loop.call_later(max(wait_s, WAIT_MIN_S), self._resumed)
        return room

    def sent(self, messages: int, size: int) -> None:
        """Count messages that were sent."""
        now = self._clock.monotonic()
        self._average_size = max(1.0, size / max(1, messages))
        for limit in self.limits:
            limit.take(messages, size, now)

    def sent_run(self, run: Sequence[Delivery]) -> None:
        """Count the messages of deliveries."""
        self.sent(sum([each.messages for each in run]), sum([len(each.entry) for each in run]))

    def close(self) -> None:
        """Do not resume."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _resumed(self) -> None:
        self._timer = None
        self._resume()


def throttled(
    throttle: Throttle | None,
    limits: Sequence[RateLimit | None],
    environment: Environment,
    resume: Callable[[], None],
) -> Throttle | None:
    """Return the throttle for the limits that are not None, the present one if they are the same; None without limits.

    The rates of the limits may have changed, so the dispatch is resumed.
    """
    present = tuple(limit for limit in limits if limit is not None)
    if throttle is not None:
        throttle.close()
        resume()
    if throttle is not None and throttle.limits == present:
        return throttle
    return Throttle(environment, present, resume) if present else None
