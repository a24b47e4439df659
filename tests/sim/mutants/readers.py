"""Bugs in delivery to readers."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.base.position import EARLIEST
from magnetar.broker.session import subscribing
from magnetar.wire.message_id import position_of

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.broker.topic.topic import Topic
    from magnetar.wire.proto import pulsar_api_pb2 as pb
    from tests.sim.mutants.base import Mutant


def started_one_too_far(original: Any) -> Any:
    def mutant(topic: Topic, command: pb.CommandSubscribe) -> Position:
        start: Position = original(topic, command)
        is_again = not command.durable and position_of(command.start_message_id) != EARLIEST
        return topic.ledger.next_position(topic.ledger.next_position(start)) if is_again else start

    return mutant


MUTANTS: dict[str, Mutant] = {
    "a reader that comes again starts too late": (subscribing, "_start", started_one_too_far),
}
