"""Checks whether entries can be stored; see ``log.refusal`` for the answers to publishers while they cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from magnetar.broker.log.refusal import reason_against
from magnetar.ledger.store import StoreState

if TYPE_CHECKING:
    from magnetar.broker.environment import Environment
    from magnetar.broker.topic.registry import TopicRegistry

log = structlog.get_logger(__name__)


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
