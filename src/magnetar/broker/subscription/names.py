"""Names of subscriptions, some of which are reserved for the broker's own cursors."""

from __future__ import annotations

from magnetar.base.errors import RequestError, ServerError
from magnetar.wire.links import DEDUPLICATION_CURSOR, REPLICATOR_PREFIX

UNUSED_SINCE = "pulsar.subscription.unused-since"
"""Cursor property: milliseconds since the epoch at which a subscription was first found without consumers."""


def is_of_a_subscription(cursor_name: str) -> bool:
    """Return whether a cursor with this name belongs to a subscription."""
    return cursor_name != DEDUPLICATION_CURSOR and not cursor_name.startswith(REPLICATOR_PREFIX)


def is_reserved(name: str) -> bool:
    """Return whether clients may not use this name; as in Pulsar, more names are reserved than are used."""
    return name == DEDUPLICATION_CURSOR or name.startswith(REPLICATOR_PREFIX.rstrip("."))


def check_subscription_name(name: str) -> None:
    """Raise RequestError with ProducerBusy, as Pulsar does, for a name that no subscription may have.

    A link would use a subscription with its name as its cursor: it would begin at the position of the subscription and
    never carry earlier entries.
    """
    if not name:
        raise RequestError(ServerError.ProducerBusy, "Empty subscription name")
    if is_reserved(name):
        message = f"Subscription name {name} is reserved"
        raise RequestError(ServerError.ProducerBusy, message)
