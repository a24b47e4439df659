"""Names of subscriptions: some belong to cursors of the broker's own."""

from __future__ import annotations

from magnetar.base.errors import RequestError, ServerError
from magnetar.wire.links import REPLICATOR_PREFIX

DEDUPLICATION_CURSOR = "pulsar.dedup"
"""The cursor that keeps the snapshots of deduplication."""


def is_of_a_subscription(cursor_name: str) -> bool:
    """Whether a cursor of this name is a subscription's."""
    return cursor_name != DEDUPLICATION_CURSOR and not cursor_name.startswith(REPLICATOR_PREFIX)


def is_reserved(name: str) -> bool:
    """Whether nobody may create a subscription of this name; as in Pulsar, more than the broker itself uses."""
    return name == DEDUPLICATION_CURSOR or name.startswith(REPLICATOR_PREFIX.rstrip("."))


def check_subscription_name(name: str) -> None:
    """Raise RequestError with ProducerBusy, as Pulsar does, for a name that no subscription may have.

    A subscription named like a link would be taken for its cursor: the link would begin where that stands, and never
    carry what comes before.
    """
    if not name:
        raise RequestError(ServerError.ProducerBusy, "Empty subscription name")
    if is_reserved(name):
        message = f"Subscription name {name} is reserved"
        raise RequestError(ServerError.ProducerBusy, message)
