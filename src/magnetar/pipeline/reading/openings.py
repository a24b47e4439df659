"""The order in which attachments are opened: a limited number at a time, those with entries to carry first. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Openings:
    """Attachments by their numbers: those that wait for their turn, and those that are being opened."""

    def __init__(self, limit: int) -> None:
        """Begin without attachments. At most ``limit`` are opened at a time."""
        self._limit = limit
        self._urgent: dict[int, None] = {}
        self._waiting: dict[int, None] = {}
        self._opening: set[int] = set()

    def add(self, number: int, *, is_urgent: bool) -> None:
        """Add an attachment; an urgent one is opened before all others that wait."""
        (self._urgent if is_urgent else self._waiting)[number] = None

    def hurry(self, number: int) -> None:
        """Make an attachment urgent, if it waits."""
        if number in self._waiting:
            del self._waiting[number]
            self._urgent[number] = None

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
