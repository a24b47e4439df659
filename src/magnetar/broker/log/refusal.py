"""Answers to publishers while entries cannot be stored.

A full disk is temporary: producers are rejected as by the quota policy ``producer_request_hold``; they keep their
messages and reconnect until they are accepted. A failed write or sync is permanent: the content of the disk is unknown
until a restart, so no entry is confirmed any more. Consumers continue in both cases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import RequestError, ServerError

if TYPE_CHECKING:
    from magnetar.ledger.store import StoreState


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
