"""Transaction ids in commands and in message metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import RequestError, ServerError

if TYPE_CHECKING:
    from magnetar.wire.proto import pulsar_api_pb2 as pb


def has_transaction(part: pb.CommandSend | pb.CommandAck | pb.MessageMetadata) -> bool:
    """Whether it names a transaction, also by one half of an id, or by an id of 0."""
    return part.HasField("txnid_most_bits") or part.HasField("txnid_least_bits")


def refusal() -> RequestError:
    """What a command with a transaction id is answered: Pulsar's error where transactions are disabled."""
    return RequestError(ServerError.NotAllowedError, "transactions are not supported by this broker")
