"""Bugs in replicated subscriptions."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from magnetar.base.position import EARLIEST
from magnetar.broker.replication.progress.tombstones import Tombstones
from magnetar.broker.replication.progress.topic_progress import TopicProgress
from magnetar.broker.subscription import shared_progress as broker_progress
from magnetar.broker.subscription.flushes import Flushes
from magnetar.broker.subscription.shared_progress import SharedProgress
from magnetar.geo.progress.link import ProgressLink
from magnetar.geo.progress.state import Kind, OriginProgress, Outcome, SubscriptionProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.broker.topic.topic import Topic
    from magnetar.metadata.store import Put
    from tests.sim.mutants.base import Mutant


def epoch_not_raised(original: Any) -> Any:
    def mutant(self: SubscriptionProgress, local_cluster: str, origins: dict[str, OriginProgress]) -> None:
        before = self.epoch
        original(self, local_cluster, origins)
        self.epoch = before

    return mutant


def newer_epoch_merged(original: Any) -> Any:
    def mutant(self: SubscriptionProgress, incoming: SubscriptionProgress) -> Outcome:
        if incoming.epoch > self.epoch and not incoming.deleted and not self.deleted:
            self.epoch = incoming.epoch
        outcome: Outcome = original(self, incoming)
        return outcome

    return mutant


def start_taken_for_acknowledgement(original: Any) -> Any:
    def mutant(topic: Topic, subscription: Subscription) -> SharedProgress:
        keeper: SharedProgress = original(topic, subscription)
        for cluster, start in keeper.state.starts().items():
            keeper.state.origin(cluster).acknowledge(EARLIEST, start)
        return keeper

    return mutant


def receipt_of_acknowledgement_on_hope(original: Any) -> Any:
    def mutant(self: Flushes, done: Callable[[StorageError | None], None]) -> None:
        original(self, lambda _: None)
        self._environment.loop.call_soon(done, None)

    return mutant


def partials_dropped_in_merge(original: Any) -> Any:
    def mutant(self: SubscriptionProgress, incoming: SubscriptionProgress) -> Outcome:
        without = SubscriptionProgress(incoming.name, incoming.starts(), incoming.epoch, deleted=incoming.deleted)
        for cluster, origin in incoming.origins.items():
            without.origin(cluster).acknowledged.update(origin.acknowledged)
        outcome: Outcome = original(self, without)
        return outcome

    return mutant


def tombstone_ignored(_: Any) -> Any:
    return lambda _self, _subscription, _incoming: None


def tombstone_forgotten(_: Any) -> Any:
    def mutant(self: Tombstones, _tombstone: SubscriptionProgress, along_with: Sequence[Put] = ()) -> None:
        if along_with:
            self._ledger._listed._metadata.commit(along_with)

    return mutant


def pending_not_applied_on_arrival(_: Any) -> Any:
    return lambda _self, _origin: None


def published_before_durable(original: Any) -> Any:
    def mutant(self: SharedProgress) -> None:
        speak = original(self)
        if speak is not None:
            speak(None)

    return mutant


def only_the_newest_record_recovered(original: Any) -> Any:
    return lambda attachments: original(attachments[-1:])


def no_full_state_after_a_loss(original: Any) -> Any:
    async def mutant(self: ProgressLink) -> list[SubscriptionProgress]:
        first = not hasattr(self, "was_opened")
        self.was_opened = True  # type: ignore[attr-defined]
        states: list[SubscriptionProgress] = await original(self)
        return states if first else []

    return mutant


def cursor_not_rebuilt(original: Any) -> Any:
    def mutant(self: SharedProgress, incoming: SubscriptionProgress) -> Kind:
        with patch.object(SharedProgress, "rebuild", lambda _: None):
            kind: Kind = original(self, incoming)
        return kind

    return mutant


MUTANTS: dict[str, Mutant] = {
    "an epoch not raised by a seek": (SubscriptionProgress, "reseek", epoch_not_raised),
    "a newer epoch merged instead of taken over": (SubscriptionProgress, "merge", newer_epoch_merged),
    "a start taken for an acknowledgement": (SharedProgress, "begin", start_taken_for_acknowledgement),
    "acknowledgements confirmed on hope": (Flushes, "then", receipt_of_acknowledgement_on_hope),
    "batches acknowledged in part dropped in a merge": (SubscriptionProgress, "merge", partials_dropped_in_merge),
    "a tombstone ignored": (TopicProgress, "_delete", tombstone_ignored),
    "a tombstone forgotten": (Tombstones, "add", tombstone_forgotten),
    "pending acknowledgements not applied on arrival": (
        SharedProgress,
        "arrived",
        pending_not_applied_on_arrival,
    ),
    "progress published before it is durable": (SharedProgress, "prepare", published_before_durable),
    "only the newest record recovered": (broker_progress, "restoring", only_the_newest_record_recovered),
    "no full state after a link was lost": (ProgressLink, "_take_full", no_full_state_after_a_loss),
    "a cursor not rebuilt in a newer epoch": (SharedProgress, "apply", cursor_not_rebuilt),
}
