"""Whether entries can be stored, and what publishers are told when they cannot.

A full disk passes: publishers are sent away as by a backlog quota that holds producers, keep their messages and come
again until they are let in. A failed write or sync does not: what the disk has is unknown until the broker is started
again, so nothing is confirmed any more. Consumers go on in either case.
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
    """Raise RequestError, naming the cause and the remedy, if a producer cannot publish now."""
    reason = reason_against(state)
    if reason is not None:
        full = state.failure is None
        code = ServerError.ProducerBlockedQuotaExceededError if full else ServerError.PersistenceError
        raise RequestError(code, f"Cannot publish: {reason}")


def reason_against(state: StoreState) -> str | None:
    """Why nothing can be published, and what helps; None while it can."""
    if state.is_fenced:
        return f"another broker has taken the storage over: {state.failure}"
    if state.failure is not None:
        remedy = "what was confirmed can still be read; start the broker again once the disk is sound"
        return f"storage has failed: {state.failure}; {remedy}"
    return None if state.shortage is None else str(state.shortage)


class StorageWatch:
    """Looks at the store from time to time, and sends publishers away when it takes nothing from them."""

    def __init__(self, environment: Environment, topics: TopicRegistry) -> None:
        """Nothing has been seen yet."""
        self._environment = environment
        self._topics = topics
        self._seen = StoreState()

    def look(self) -> None:
        """Find out about the disk's room; log what changed, once."""
        store, seen = self._environment.store, self._seen
        store.look_at_space()
        state = self._seen = store.state
        if state.refusal is not None and seen.refusal is None:
            topics = tuple(self._topics.loaded.values())
            self._environment.sliced.start(self, topics, lambda topic: topic.producers.dismiss())
        if state.failure is not None and seen.failure is None:
            log.error("storage_failed", reason=reason_against(state))
        elif state.shortage is not None and seen.shortage is None:
            log.error("publishing_paused", reason=reason_against(state))
        elif state.refusal is None and seen.refusal is not None:
            log.info("publishing_resumed")
