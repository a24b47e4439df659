"""Bugs in policies and in statistics."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.broker.subscription.subscription import Subscription
from magnetar.geo import protection
from magnetar.geo.progress.confirmations import Confirmations
from magnetar.ledger import retention
from magnetar.wire.entries import entry as wire_entry

if TYPE_CHECKING:
    from tests.sim.mutants.base import Mutant


def active_cluster_ignored(_: Any) -> Any:
    return property(lambda _self: "")


def retention_ignored(_: Any) -> Any:
    return lambda _retention, _closed_for_ms, _size_behind: False


def due_too_early(original: Any) -> Any:
    def mutant(entry: Any) -> tuple[int, int, str]:
        messages, deliver_at_ms, chunked = original(entry)
        return messages, max(0, deliver_at_ms - 500), chunked

    return mutant


def confirmed_when_sent(original: Any) -> Any:
    def mutant(self: Confirmations) -> None:
        original(self)
        self.confirmed()

    return mutant


def messages_left_out_of_protection(_: Any) -> Any:
    return lambda _facts, _observed_since, _now: []


MUTANTS: dict[str, Mutant] = {
    "the active cluster ignored": (Subscription, "_consumed_elsewhere", active_cluster_ignored),
    "retention ignored": (retention, "is_retained", retention_ignored),
    "a delayed message delivered too early": (wire_entry, "messages_delivery_and_chunk", due_too_early),
    "messages left out of protection": (protection, "_data_risks", messages_left_out_of_protection),
    "progress confirmed when it is sent": (Confirmations, "sent", confirmed_when_sent),
}
