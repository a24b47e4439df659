"""Checks whether entries can be stored, and the answers to publishers while they cannot.

A full disk is temporary: producers are rejected as by the quota policy ``producer_request_hold``; they keep their
messages and reconnect until they are accepted. A failed write or sync is permanent: the content of the disk is unknown
until a restart, so no entry is confirmed any more. Consumers continue in both cases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import RequestError, ServerError
from magnetar.ledger.store import StoreState

if TYPE_CHECKING:
    from magnetar.broker.environment import Environment
    from magnetar.broker.topic.registry import TopicRegistry

log = structlog.get_logger(__name__)


def check_publishable(state: StoreState) -> None:
    """Raise RequestError with the cause and the remedy if producers cannot publish now."""
    reason = reason_against(state)
    if reason is not None:
        full = state.failure is None
        code = ServerError.ProducerBlockedQuotaExceededError if full else ServerError.PersistenceError
        raise RequestError(code, f"Cannot publish: {reason}")


def reason_against(state: StoreState) -> str | None:
    """Return why nothing can be published, and the remedy; None if publishing is possible."""
    if state.is_fenced:
        return f"another broker has taken the storage over: {state.failure}"
    if state.failure is not None:
        remedy = "confirmed entries can still be read; restart the broker when the disk is repaired"
        return f"storage has failed: {state.failure}; {remedy}"
    return None if state.shortage is None else str(state.shortage)


class StorageWatch:
    """Checks the store periodically, and disconnects producers while it accepts no entries."""

    def __init__(self, environment: Environment, topics: TopicRegistry) -> None:
        """Create a watch that has checked nothing yet."""
        self._environment = environment
        self._topics = topics
        self._seen = StoreState()

    async def check(self) -> None:
        """Check the free disk space; log each change once."""
        store = self._environment.store
        await store.look_at_space()
        seen, state = self._seen, store.state
        self._seen = state
        if state.refusal is not None and seen.refusal is None:
            topics = tuple(self._topics.loaded.values())
            self._environment.sliced.start(self, topics, lambda topic: topic.producers.dismiss())
        if state.failure is not None and seen.failure is None:
            log.error("storage_failed", reason=reason_against(state))
        elif state.shortage is not None and seen.shortage is None:
            log.error("publishing_paused", reason=reason_against(state))
        elif state.refusal is None and seen.refusal is not None:
            log.info("publishing_resumed")
