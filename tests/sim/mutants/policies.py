"""Bugs of policies, and of what is told of them."""

# ruff: noqa: ANN401 - a mutant takes the place of anything

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.broker.subscription import Subscription
from magnetar.geo.confirmations import Confirmations
from magnetar.ledger import managed_ledger

if TYPE_CHECKING:
    from tests.sim.mutants.base import Mutant


def active_cluster_ignored(_: Any) -> Any:
    return property(lambda _self: "")


def retention_ignored(_: Any) -> Any:
    return lambda _retention, _closed_for_ms, _size_behind: False


def confirmed_when_sent(original: Any) -> Any:
    def mutant(self: Confirmations) -> None:
        original(self)
        self.confirmed()

    return mutant


MUTANTS: dict[str, Mutant] = {
    "the active cluster ignored": (Subscription, "_consumed_elsewhere", active_cluster_ignored),
    "retention ignored": (managed_ledger, "_is_retained", retention_ignored),
    "progress confirmed when it is sent": (Confirmations, "sent", confirmed_when_sent),
}
