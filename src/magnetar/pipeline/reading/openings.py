"""The order in which attachments are opened: a limited number at a time, those with entries to carry first. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.pipeline import limits

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE: Final = 4
"""Factor of the usual time of an answer, after which an attachment no longer keeps others waiting."""

_KEPT: Final = 0.95
"""Part of the usual time that remains after a quicker answer."""


class Openings:
    """Attachments by their numbers: those that wait for their turn, and those that are being opened.

    A single attachment that the source does not answer should not keep others waiting. But if the source is slow with
    all of them, more requests would make it slower, until it answers none in time. So their patience grows with the
    time of answers.
    """

    def __init__(self, limit: int) -> None:
        """Begin without attachments. At most ``limit`` are opened at a time."""
        self._limit = limit
        self._urgent: dict[int, None] = {}
        self._waiting: dict[int, None] = {}
        self._opening: set[int] = set()
        self._usual_s = 0.0
        """Seconds in which the source answers."""

    def add(self, number: int, *, is_urgent: bool) -> None:
        """Add an attachment; an urgent one is opened before all others that wait."""
        (self._urgent if is_urgent else self._waiting)[number] = None

    def hurry(self, number: int) -> None:
        """Make an attachment urgent, if it waits."""
        if number in self._waiting:
            del self._waiting[number]
            self._urgent[number] = None

    def answered(self, seconds: float) -> None:
        """Note that the source has answered an attachment after ``seconds``."""
        self._usual_s = max(seconds, self._usual_s * _KEPT)

    @property
    def patience_s(self) -> float:
        """Seconds after which an attachment that is being opened no longer keeps others waiting."""
        return min(max(limits.OPENING_SECONDS, self._usual_s * _PATIENCE), limits.REQUEST_TIMEOUT_SECONDS)

    def is_opening(self, number: int) -> bool:
        """Return whether an attachment is being opened."""
        return number in self._opening

    def remove(self, number: int) -> bool:
        """Note that an attachment is open, or has ended; return whether the turn of another one may have come."""
        self._urgent.pop(number, None)
        self._waiting.pop(number, None)
        was_opening = number in self._opening
        self._opening.discard(number)
        return was_opening

    def starting(self) -> Iterator[int]:
        """Yield each attachment whose turn has come; it is being opened from then on."""
        while len(self._opening) < self._limit and (first := self._urgent or self._waiting):
            number = next(iter(first))
            del first[number]
            self._opening.add(number)
            yield number
