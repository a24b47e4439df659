"""Topics that could not be loaded, with the reasons and the times of the next attempts.

A damaged topic refuses only its own clients. Clients retry often, so a failure is logged once, and requests are
answered from memory for ``LOAD_RETRY_DELAY_S``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from magnetar.base.errors import (
    CorruptionError,
    DataLossError,
    MetadataError,
    ServerError,
    StorageError,
    TopicLoadError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.base.names import TopicName
    from magnetar.base.world import Clock

log = structlog.get_logger(__name__)

LOAD_RETRY_DELAY_S: Final = 1.0
"""Seconds between two attempts to load a topic."""

WAY_OUT: Final = (
    "stop the broker and restore the data directory from a copy, or see the repairs of `magnetar check --repair`"
)
"""Remedy for a damaged topic."""


class LoadFailures:
    """The topics whose last load failed. Used on the event loop's thread.

    It holds at most one failure for each topic that exists.
    """

    def __init__(self, clock: Clock) -> None:
        """Create the collection, without failures."""
        self._clock = clock
        self._failures: dict[TopicName, TopicLoadError] = {}
        self._retry_at: dict[TopicName, float] = {}
        """Time of the next attempt, in monotonic seconds."""
        self._unstored: dict[TopicName, None] = {}
        """Topics that were loaded, but whose metadata could not be stored soon afterwards."""

    @property
    def reasons(self) -> Mapping[TopicName, str]:
        """Return each topic that could not be loaded, with the reason."""
        return {name: str(failure) for name, failure in self._failures.items()}

    def check(self, name: TopicName) -> None:
        """Raise the last failure of the topic until the next attempt is due."""
        failure = self._failures.get(name)
        if failure is not None and self._clock.monotonic() < self._retry_at[name]:
            raise TopicLoadError(
                failure.code, str(failure)
            )  # a new object, because an error grows each time it is raised

    def failed(self, name: TopicName, error: Exception) -> TopicLoadError:
        """Record the failure of a load; return the refusal. Each new reason is logged once."""
        failure = _refusal(name, error)
        known = self._failures.get(name)
        if known is None or str(known) != str(failure):
            is_bug = not isinstance(error, StorageError | MetadataError | OSError)
            log.error("topic_load_failed", topic=str(name), error=str(failure), exc_info=error if is_bug else None)
        self._failures[name] = failure
        self._retry_at[name] = self._clock.monotonic() + LOAD_RETRY_DELAY_S
        return failure

    def unloaded(self, name: TopicName, unstored: StorageError | None, loaded_at: float) -> None:
        """Record that a topic was unloaded, with the error if its metadata could not be stored.

        If the error occurs soon after each of two loads, the second load counts as failed: the cause persists, and
        repeated loads would delay other topics.
        """
        is_soon = self._clock.now() - loaded_at < LOAD_RETRY_DELAY_S
        if unstored is None or not is_soon:
            self._unstored.pop(name, None)
        elif name in self._unstored:
            self.failed(name, unstored)
        else:
            self._unstored[name] = None

    def recovered(self, name: TopicName) -> None:
        """Remove the failure of a topic that is loaded now."""
        self._retry_at.pop(name, None)
        if self._failures.pop(name, None) is not None:
            log.info("topic_load_recovered", topic=str(name))

    def forget(self, name: TopicName) -> None:
        """Forget a topic that was deleted."""
        self._retry_at.pop(name, None)
        self._failures.pop(name, None)
        self._unstored.pop(name, None)


def _refusal(name: TopicName, error: Exception) -> TopicLoadError:
    """Return the refusal. Damage needs an operator, so its code makes clients report it at once; others may pass."""
    if isinstance(error, MetadataError):
        return TopicLoadError(ServerError.MetadataError, f"Topic {name} cannot be loaded: {error}")
    if isinstance(error, StorageError) and not isinstance(error, CorruptionError | DataLossError):
        return TopicLoadError(ServerError.PersistenceError, f"Topic {name} cannot be loaded: {error}")
    if isinstance(error, OSError):  # such as no descriptor left: the data may be intact
        return TopicLoadError(ServerError.PersistenceError, f"Topic {name} cannot be loaded: {error}")
    cause = str(error) if isinstance(error, StorageError) else f"its data cannot be decoded: {error!r}"
    return TopicLoadError(ServerError.NotAllowedError, f"Topic {name} cannot be loaded: {cause}; {WAY_OUT}")
