"""Bugs in dispatch, in acknowledgement, and in receipts."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.broker.delayed.index import DelayedIndex
from magnetar.broker.dispatch.key_shared import KeySharedDispatcher
from magnetar.broker.publish.receipt_gate import ReceiptGate
from magnetar.broker.subscription.acknowledger import Acknowledger
from magnetar.broker.subscription.subscription import Subscription
from magnetar.geo.progress.confirmations import Confirmations
from magnetar.wire.message_id import position_of

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.cursor.ranges import Range
    from magnetar.wire.proto import pulsar_api_pb2 as pb
    from tests.sim.mutants.base import Mutant


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


def delays_ignored_entry(_: Any) -> Any:
    return lambda _self, _entry: None


def backlog_one_too_many(_: Any) -> Any:
    def mutant(self: Subscription) -> int:
        backlog = self.cursor.state.backlog(self.topic.ledger.last_confirmed_entry)
        return backlog + (backlog > 0)

    return property(mutant)


def confirmations_not_counted(_: Any) -> Any:
    return lambda _self: None


def cumulative_one_too_few(_: Any) -> Any:
    def mutant(self: Acknowledger, message_id: pb.MessageIdData) -> list[Range]:
        return self._cursor.acknowledge_cumulative(self._ledger.previous_position(position_of(message_id)))

    return mutant


MUTANTS: dict[str, Mutant] = {
    "a key sent to its new consumer at once": (KeySharedDispatcher, "_is_draining", draining_forgotten),
    "an operator's skip takes one entry too many": (Subscription, "skip", skipped_one_too_many),
    "what an operator clears is not claimed": (Subscription, "acknowledge_through", cleared_without_a_claim),
    "a receipt more than may be at risk": (ReceiptGate, "may_promise", receipt_past_the_bound),
    "a cumulative acknowledgement takes one entry too few": (
        Acknowledger,
        "cumulative",
        cumulative_one_too_few,
    ),
    "delays ignored": (DelayedIndex, "_add", delays_ignored_entry),
    "a backlog told with one too many": (Subscription, "backlog", backlog_one_too_many),
    "confirmed acknowledgements told as unconfirmed": (Confirmations, "confirmed", confirmations_not_counted),
}
