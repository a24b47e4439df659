"""Bugs made on purpose, one at a time: what the simulation must find."""

# ruff: noqa: ANN401 - a mutant takes the place of anything

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from magnetar.base.position import EARLIEST, Position
from magnetar.broker import progress as broker_progress
from magnetar.broker import receiver
from magnetar.broker.dispatchers.key_shared import KeySharedDispatcher
from magnetar.broker.progress import SubscriptionProgressKeeper, TopicProgress
from magnetar.broker.receipt_gate import ReceiptGate
from magnetar.broker.subscription import Subscription
from magnetar.broker.tombstones import Tombstones
from magnetar.broker.topic import Topic
from magnetar.geo.link import ProgressLink
from magnetar.geo.origins import OriginIndex
from magnetar.geo.progress import Kind, OriginProgress, Outcome, SubscriptionProgress
from magnetar.geo.receiving import Verdict, judge
from magnetar.ledger.segment import SegmentWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from magnetar.base.errors import StorageError
    from magnetar.cursor.cursor import Cursor
    from magnetar.wire.origin import Origin


@contextmanager
def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Put what ``make`` makes of a function in its place."""
    with patch.object(owner, name, make(getattr(owner, name))):
        yield


def duplicate_check_off_by_one(_: Any) -> Any:
    def mutant(last: Position | None, origin: Origin, *, marker: bool = False) -> Verdict:
        right = judge(last, origin, marker=marker)
        return Verdict.APPEND if right is Verdict.DUPLICATE and origin.position == last else right

    return mutant


def gap_taken_for_nothing_missing(_: Any) -> Any:
    def mutant(last: Position | None, origin: Origin, *, marker: bool = False) -> Verdict:
        right = judge(last, origin, marker=marker)
        return Verdict.APPEND if right is Verdict.GAP else right

    return mutant


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


def floor_forgotten(original: Any) -> Any:
    def mutant(
        self: OriginIndex, cluster: str, origin: Position, count: int, local: Position, floor: Position | None = None
    ) -> None:
        original(self, cluster, origin, count, local, None if floor is None else Position(0, -1))

    return mutant


def start_taken_for_acknowledgement(original: Any) -> Any:
    def mutant(topic: Topic, subscription: Subscription) -> SubscriptionProgressKeeper:
        keeper: SubscriptionProgressKeeper = original(topic, subscription)
        for cluster, start in keeper.state.starts().items():
            keeper.state.origin(cluster).acknowledge(EARLIEST, start)
        return keeper

    return mutant


def sync_forgotten(_: Any) -> Any:
    return lambda _writer: None


def receipt_of_acknowledgement_on_hope(original: Any) -> Any:
    def mutant(self: Subscription, done: Callable[[StorageError | None], None]) -> None:
        original(self, lambda _: None)
        self.environment.loop.call_soon(done, None)

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
    return lambda _self, _tombstone: None


def pending_not_applied_on_arrival(_: Any) -> Any:
    return lambda _self, _origin: None


def trimmed_past_a_cursor(_: Any) -> Any:
    def mutant(self: Topic, _cursors: list[Cursor]) -> Position:
        return self.ledger.last_confirmed_entry

    return mutant


def published_before_durable(original: Any) -> Any:
    def mutant(self: SubscriptionProgressKeeper) -> None:
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
    def mutant(self: SubscriptionProgressKeeper, incoming: SubscriptionProgress) -> Kind:
        with patch.object(SubscriptionProgressKeeper, "rebuild", lambda _: None):
            kind: Kind = original(self, incoming)
        return kind

    return mutant


def draining_forgotten(_: Any) -> Any:
    return lambda _self, _sticky_hash: False


def skipped_one_too_many(original: Any) -> Any:
    return lambda self, entries: original(self, entries + 1)


def cleared_without_a_claim(_: Any) -> Any:
    def mutant(self: Subscription, position: Position) -> None:
        self.free(self.cursor.acknowledge_cumulative(position))

    return mutant


def receipt_past_the_bound(original: Any) -> Any:
    def mutant(self: ReceiptGate, last: Position, now: float) -> bool:
        return bool(original(self, last, now)) or self.at_risk(last) == self.bound.messages + 1

    return mutant


MUTANTS: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "duplicate check off by one": (receiver, "judge", duplicate_check_off_by_one),
    "a gap taken for nothing missing": (receiver, "judge", gap_taken_for_nothing_missing),
    "an epoch not raised by a seek": (SubscriptionProgress, "reseek", epoch_not_raised),
    "a newer epoch merged instead of taken over": (SubscriptionProgress, "merge", newer_epoch_merged),
    "a floor forgotten: claims what was not held": (OriginIndex, "append", floor_forgotten),
    "a start taken for an acknowledgement": (SubscriptionProgressKeeper, "begin", start_taken_for_acknowledgement),
    "receipts before the disk was synced": (SegmentWriter, "sync", sync_forgotten),
    "acknowledgements confirmed on hope": (Subscription, "flush_with", receipt_of_acknowledgement_on_hope),
    "batches acknowledged in part dropped in a merge": (SubscriptionProgress, "merge", partials_dropped_in_merge),
    "a tombstone ignored": (TopicProgress, "_delete", tombstone_ignored),
    "tombstones forgotten": (Tombstones, "add", tombstone_forgotten),
    "pending acknowledgements not applied on arrival": (
        SubscriptionProgressKeeper,
        "arrived",
        pending_not_applied_on_arrival,
    ),
    "trimmed past a cursor": (Topic, "consumed_through", trimmed_past_a_cursor),
    "progress published before it is durable": (SubscriptionProgressKeeper, "prepare", published_before_durable),
    "only the newest record recovered": (broker_progress, "restore_state", only_the_newest_record_recovered),
    "no full state after a link was lost": (ProgressLink, "_take_full", no_full_state_after_a_loss),
    "a cursor not rebuilt in a newer epoch": (SubscriptionProgressKeeper, "apply", cursor_not_rebuilt),
    "a key sent to its new consumer at once": (KeySharedDispatcher, "_is_draining", draining_forgotten),
    "a receipt more than may be at risk": (ReceiptGate, "may_promise", receipt_past_the_bound),
    "an operator's skip takes one entry too many": (Subscription, "skip", skipped_one_too_many),
    "what an operator clears is not claimed": (Subscription, "acknowledge_through", cleared_without_a_claim),
}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Run with this bug."""
    owner, attribute, make = MUTANTS[name]
    with replaced(owner, attribute, make):
        yield
