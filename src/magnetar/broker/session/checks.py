"""Checks of the entries that clients publish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.base.errors import ChecksumMismatchError, RemoteProtocolError, RequestError, ServerError
from magnetar.base.limits import (
    ENTRY_METADATA_PADDING,
    REPLICATED_ENTRY_PADDING,
    REPLICATED_METADATA_PADDING,
    REPLICATION_CLUSTERS_MAX,
    Limit,
)
from magnetar.broker.publish.sequence_ids import signed
from magnetar.wire import transactions
from magnetar.wire.entries.entry import check_checksum, check_count, metadata_size, parse_metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.broker.publish.interfaces import Producer, SendHead
    from magnetar.wire.proto import pulsar_api_pb2 as pb

_OF_CLUSTERS: Final = ("replicated_from", "marker_type", "link_place")
"""Fields of MessageMetadata that a client must not set."""

_REMEDY: Final = "Put large values into the payload"
_REMEDY_FOR_LINKS: Final = "Set a larger limit in this cluster"


def check(producer: Producer, heads: Sequence[SendHead], entries: Sequence[bytes], *, is_chunk: bool) -> None:
    """Raise the error of invalid SENDs."""
    check_sizes(producer, entries, is_chunk=is_chunk)
    for sequence_id, highest, _ in heads:
        if highest and signed(highest) < signed(sequence_id):
            raise RequestError(ServerError.MetadataError, "Invalid lowest or highest sequence id")
    for entry in entries:
        metadata = producer.check(entry)
        if metadata is None:
            continue
        if not producer.is_link:
            _check_is_of_a_client(metadata)
            _check_clusters(metadata)
            check_count(metadata, entry)
        if metadata.deliver_at_time:
            producer.topic.delayed.check(metadata)


def check_sizes(producer: Producer, entries: Sequence[bytes], *, is_chunk: bool) -> None:
    """Raise RequestError for entries that are too large, or that should be encrypted and are not."""
    topic = producer.topic
    config, policies, largest = topic.environment.config, topic.policies, max(map(len, entries))
    if (
        largest > config.maxMessageMetadataSize
        or largest > config.maxMessageSize
        or 0 < policies.max_message_size < largest
        or policies.encryption_required
    ):
        if largest > _size_max(producer, is_chunk=is_chunk):
            raise RequestError(
                ServerError.NotAllowedError, "Exceed maximum message size (maxMessageSize)", Limit.MESSAGE_SIZE
            )
        _check_metadata(producer, entries, largest)


def _size_max(producer: Producer, *, is_chunk: bool) -> int:
    """Return the maximum size of an entry. The limit of a topic is for messages of clients; chunks are exempt."""
    of_broker = producer.topic.environment.config.maxMessageSize
    if producer.is_link:
        # An entry with a receipt in a cluster with the same limit must fit here with its stamp.
        return of_broker + REPLICATED_ENTRY_PADDING
    of_topic = producer.topic.policies.max_message_size
    return of_topic if 0 < of_topic < of_broker and not is_chunk else of_broker + ENTRY_METADATA_PADDING


def _check_metadata(producer: Producer, entries: Sequence[bytes], largest: int) -> None:
    """Raise RequestError for metadata that is too large, or for messages that should be encrypted and are not."""
    topic, is_of_a_client = producer.topic, not producer.is_link
    metadata_max = topic.environment.config.maxMessageMetadataSize
    if largest > metadata_max:
        padding, remedy = (0, _REMEDY) if is_of_a_client else (REPLICATED_METADATA_PADDING, _REMEDY_FOR_LINKS)
        for entry in entries:
            _check_metadata_size(entry, metadata_max + padding, remedy)
    if is_of_a_client and topic.policies.encryption_required:
        for entry in entries:
            _check_is_encrypted(entry)


def _check_is_encrypted(entry: bytes) -> None:
    if not parse_metadata(entry).encryption_keys:
        raise RequestError(ServerError.MetadataError, "Messages must be encrypted")


def _check_is_of_a_client(metadata: pb.MessageMetadata) -> None:
    """Raise RequestError for fields that only brokers and replicators may set.

    Links would not replicate an entry that names another cluster as its origin.
    """
    if transactions.has_transaction(metadata):
        raise transactions.refusal()
    for field in _OF_CLUSTERS:
        if metadata.HasField(field):
            raise RequestError(ServerError.NotAllowedError, f"{field} is set by replicators only, not by producers")


def _check_metadata_size(entry: bytes, size_max: int, remedy: str) -> None:
    """Raise RequestError for metadata of more than ``size_max`` bytes, before it is parsed.

    NotAllowedError makes clients give up the message. They send it again after MetadataError.
    """
    size = metadata_size(entry)
    if size > size_max:
        check_checksum(entry)
        limit = Limit.METADATA_SIZE
        message = f"Exceed maximum size of message metadata: {size} bytes, {size_max} are allowed ({limit}). {remedy}"
        raise RequestError(ServerError.NotAllowedError, message, limit)


def _check_clusters(metadata: pb.MessageMetadata) -> None:
    """Raise RequestError for a message that names too many clusters: links read the list again and again."""
    clusters = len(metadata.replicate_to)
    if clusters > REPLICATION_CLUSTERS_MAX:
        limit = Limit.REPLICATION_CLUSTERS
        message = f"replication to {clusters} clusters, {REPLICATION_CLUSTERS_MAX} are allowed ({limit})"
        raise RequestError(ServerError.NotAllowedError, message, limit)


def checked(producer: Producer, head: SendHead, entry: bytes, is_chunk: bool) -> bytes | RequestError:  # noqa: FBT001
    """Return the entry, or the refusal of its SEND, without a traceback, which would keep the entry in memory."""
    try:
        check(producer, [head], [entry], is_chunk=is_chunk)
    except RequestError as error:
        refusal = RequestError(error.code, str(error), error.limit)
    except ChecksumMismatchError:
        refusal = RequestError(ServerError.ChecksumError, "Checksum failed on the broker")
    except RemoteProtocolError as error:
        refusal = RequestError(ServerError.MetadataError, str(error), error.limit)
    else:
        return entry
    producer.topic.environment.limit_hits.note(refusal)
    return refusal
