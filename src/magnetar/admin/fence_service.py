"""Interface between the handlers and the broker for the migration fences of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from magnetar.admin.models.acknowledgements import FencedTopic
    from magnetar.base.names import TopicName


class WantedFence(NamedTuple):
    """A migration fence that is to be set."""

    migration: str
    epoch: int
    phase: Literal["settling", "closed", "final"]
    lease_s: float


class FenceOperations(Protocol):
    """Operations on the migration fences of topics; refusals as in ``DomainTopicOperations``."""

    async def get(self, topic: TopicName, *, digests: bool) -> FencedTopic:
        """Return the fence of a topic, and the state that a migration waits for; with ``digests`` of subscriptions."""
        ...

    async def set(self, topic: TopicName, wanted: WantedFence, *, digests: bool) -> FencedTopic:
        """Set the fence, or its next phase, and return the topic's state, as ``get``.

        On return the fence is durable, clients have the receipts of all entries that the log accepted, and consumers
        whose acknowledgements are not accepted any more are disconnected. Refuses with 409 what the phases do not
        allow.
        """
        ...

    async def remove(self, topic: TopicName, migration: str, epoch: int, *, is_decision: bool) -> None:
        """Remove the fence, if there is one; clients go on. Refuses with 409 that of another migration or attempt.

        A final one is removed only with ``is_decision``.
        """
        ...
