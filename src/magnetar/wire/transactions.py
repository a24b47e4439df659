"""Transaction ids in commands and in message metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.names import TopicName

if TYPE_CHECKING:
    from magnetar.wire.proto import pulsar_api_pb2 as pb

COORDINATORS: Final = TopicName.parse("persistent://pulsar/system/transaction_coordinator_assign")
"""The topic that clients with transactions look up first. Its number of partitions is that of the coordinators."""


def has_transaction(part: pb.CommandSend | pb.CommandAck | pb.MessageMetadata) -> bool:
    """Whether a command or metadata has a transaction id; one half of an id, or an id of 0, counts."""
    return part.HasField("txnid_most_bits") or part.HasField("txnid_least_bits")


def refusal() -> RequestError:
    """Return the refusal of a command with a transaction id: Pulsar's error for disabled transactions."""
    return RequestError(ServerError.NotAllowedError, "transactions are not supported by this broker")
