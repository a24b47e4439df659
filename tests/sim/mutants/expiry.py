"""Bugs in expiry and quotas."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from magnetar.broker.subscription.shared_progress import SharedProgress
from magnetar.broker.subscription.subscription import Subscription
from magnetar.ledger.managed_ledger import ManagedLedger

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from tests.sim.mutants.base import Mutant


def expired_too_early(original: Any) -> Any:
    def mutant(self: ManagedLedger, age_s: float, *, inclusive: bool = False) -> Position:
        position: Position = original(self, max(age_s - 2.0, 0.0), inclusive=inclusive)
        return position

    return mutant


def expired_without_a_claim(original: Any) -> Any:
    def mutant(self: Subscription, position: Position, now: float) -> int:
        with patch.object(SharedProgress, "acknowledged", lambda _self, _ranges: None):
            expired: int = original(self, position, now)
        return expired

    return mutant


MUTANTS: dict[str, Mutant] = {
    "expired two seconds too early": (ManagedLedger, "position_older_than", expired_too_early),
    "what expires is not claimed": (Subscription, "expire_through", expired_without_a_claim),
}
