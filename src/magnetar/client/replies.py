"""Answers of a broker: the request that a command answers, and its result."""

from __future__ import annotations

from typing import NamedTuple

from magnetar.base.errors import LinkHeldError, RequestError, ServerError
from magnetar.wire.proto import pulsar_api_pb2 as pb


class LookupAnswer(NamedTuple):
    """The owner's URL or, for a redirect, that of the broker to ask next, with the same ``authoritative``."""

    url: str
    redirect: bool
    authoritative: bool


_ANSWERS = {
    pb.BaseCommand.SUCCESS: "success",
    pb.BaseCommand.ERROR: "error",
    pb.BaseCommand.PRODUCER_SUCCESS: "producer_success",
    pb.BaseCommand.LOOKUP_RESPONSE: "lookupTopicResponse",
    pb.BaseCommand.PARTITIONED_METADATA_RESPONSE: "partitionMetadataResponse",
    pb.BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE: "getTopicsOfNamespaceResponse",
    pb.BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE: "getLastMessageIdResponse",
    pb.BaseCommand.ACK_RESPONSE: "ackResponse",
    pb.BaseCommand.GET_SCHEMA_RESPONSE: "getSchemaResponse",
    pb.BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE: "getOrCreateSchemaResponse",
}
"""The types of answers to requests, and their fields in the command."""


_ERROR_FIELDS = {
    pb.BaseCommand.ACK_RESPONSE: ("error", "message"),
    pb.BaseCommand.PARTITIONED_METADATA_RESPONSE: ("error", "message"),
    pb.BaseCommand.GET_SCHEMA_RESPONSE: ("error_code", "error_message"),
    pb.BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE: ("error_code", "error_message"),
}
"""The fields of an error in an answer, by its type: code and text."""


def reply_to(command: pb.BaseCommand) -> int | None:
    """Return the id of the request for which ``command`` is the final answer; None if it is none."""
    field = _ANSWERS.get(command.type)
    if field is None or (field == "producer_success" and not command.producer_success.producer_ready):
        # Not ready: the producer waits for exclusive access; the final answer follows.
        return None
    return int(getattr(command, field).request_id)


def refusal_in(command: pb.BaseCommand) -> RequestError | None:
    """Return the error in an answer; None if the request was granted."""
    refused: pb.CommandError | pb.CommandLookupTopicResponse
    if command.type == pb.BaseCommand.ERROR:
        refused = command.error
        if refused.HasField("link_refusal"):
            is_other = refused.link_refusal == pb.LinkOfOtherPipeline
            return LinkHeldError(refused.message, refused.link_holder if is_other else None)
    elif command.type == pb.BaseCommand.LOOKUP_RESPONSE:
        refused = command.lookupTopicResponse
        if refused.response != pb.CommandLookupTopicResponse.Failed:
            return None
    elif command.type in _ERROR_FIELDS:
        answer, (code, text) = getattr(command, _ANSWERS[command.type]), _ERROR_FIELDS[command.type]
        return (
            RequestError(ServerError(getattr(answer, code)), getattr(answer, text)) if answer.HasField(code) else None
        )
    else:
        return None
    return RequestError(ServerError(refused.error), refused.message)


def lookup_answer(command: pb.BaseCommand, *, is_encrypted: bool) -> LookupAnswer:
    """Convert a successful LOOKUP_RESPONSE; raises RequestError if an encrypted connection gets no URL for another."""
    response = command.lookupTopicResponse
    redirect = response.response == pb.CommandLookupTopicResponse.Redirect
    url = response.brokerServiceUrlTls if is_encrypted else response.brokerServiceUrl
    if is_encrypted and not url:
        message = f"{response.brokerServiceUrl} has no URL for encrypted connections (brokerServicePortTls)"
        raise RequestError(ServerError.ServiceNotReady, message)
    return LookupAnswer(url, redirect, response.authoritative)


def too_many_redirects(topic: str, redirects: int) -> RequestError:
    """Return the error for a lookup with too many redirects."""
    return RequestError(ServerError.ServiceNotReady, f"lookup of {topic}: more than {redirects} redirects")
