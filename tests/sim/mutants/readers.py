"""Bugs in delivery to readers."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.base.position import EARLIEST
from magnetar.broker.subscription.entrance import TopicEntrance
from magnetar.wire.message_id import position_of

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.wire.proto import pulsar_api_pb2 as pb
    from tests.sim.mutants.base import Mutant


def started_one_too_far(original: Any) -> Any:
    def mutant(self: TopicEntrance, command: pb.CommandSubscribe) -> Position:
        start: Position = original(self, command)
        is_again = not command.durable and position_of(command.start_message_id) != EARLIEST
        ledger = self._topic.ledger
        return ledger.next_position(ledger.next_position(start)) if is_again else start

    return mutant


MUTANTS: dict[str, Mutant] = {
    "a reader that comes again starts too late": (TopicEntrance, "_start", started_one_too_far),
}
