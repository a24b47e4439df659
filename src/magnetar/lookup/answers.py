"""Answers that are given to further clients for a short time. Pure."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key")
Answer = TypeVar("Answer")


class _Kept(NamedTuple, Generic[Answer]):
    answer: Answer
    until: float


class Answers(Generic[Key, Answer]):
    """Answers by question, each valid for some seconds. The oldest beyond a number are forgotten."""

    def __init__(self, count_max: int, validity_s: float) -> None:
        """Keep up to ``count_max`` answers for ``validity_s`` seconds each."""
        self._count_max = count_max
        self._validity_s = validity_s
        self._kept: dict[Key, _Kept[Answer]] = {}

    def __len__(self) -> int:
        """Return the number of kept answers, with those that are not valid any more."""
        return len(self._kept)

    def get(self, key: Key, now: float) -> Answer | None:
        """Return the answer to a question; None if there is none that is valid."""
        found = self._kept.get(key)
        return None if found is None or found.until <= now else found.answer

    def is_aging(self, key: Key, now: float) -> bool:
        """Return whether an answer is valid for less than half of the time, so that it should be asked again."""
        found = self._kept.get(key)
        return found is not None and found.until - now < self._validity_s / 2

    def put(self, key: Key, answer: Answer, now: float) -> None:
        """Keep the answer to a question."""
        self._kept.pop(key, None)
        self._kept[key] = _Kept(answer, now + self._validity_s)
        if len(self._kept) > self._count_max:
            del self._kept[next(iter(self._kept))]
