"""Bugs in migration fences."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from magnetar.broker.admin.fences import operations
from magnetar.broker.migration_fence import fence
from magnetar.broker.migration_fence.fence import MigrationFence
from magnetar.broker.migration_fence.transitions import Fence, Phase
from magnetar.broker.subscription.unread import UnreadEntries

if TYPE_CHECKING:
    from tests.sim.mutants.base import Mutant


def never(_: Any) -> Any:
    return property(lambda _self: False)


def no_producers(_: Any) -> Any:
    return lambda _topic: False


def nobody_leaves(_: Any) -> Any:
    return lambda _topic, _phase: []


def nothing_refused(_: Any) -> Any:
    return lambda _stored, _wanted: ""


def nothing_checked(_: Any) -> Any:
    return lambda _self: None


def decision_stored_as_lease(original: Any) -> Any:
    def mutant(self: Fence) -> str:
        if self.phase is Phase.FINAL:
            return str(original(replace(self, phase=Phase.CLOSED, ends_at=0.0)))
        return str(original(self))

    return mutant


MUTANTS: dict[str, Mutant] = {
    "a fenced topic sends messages": (UnreadEntries, "is_stopped", never),
    "a fence confirmed while producers are connected": (operations, "_has_producers", no_producers),
    "a closed topic keeps its consumers": (operations, "_disconnect", nobody_leaves),
    "any migration sets any phase": (fence, "reason_against", nothing_refused),
    "a fenced topic deleted": (MigrationFence, "check_change", nothing_checked),
    "a decision forgotten by a restart": (Fence, "encode", decision_stored_as_lease),
}
