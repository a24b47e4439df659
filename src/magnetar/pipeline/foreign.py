"""Rules of Apache Pulsar's replicator that the pipeline must apply to entries of a Pulsar source. Pure."""

from __future__ import annotations

from typing import NamedTuple

from magnetar.wire.entries.entry import assemble, parse_metadata, payload_of

_SYSTEM_TOPIC_PREFIXES = ("__change_events", "__transaction_")


class Outgoing(NamedTuple):
    """The decision about an entry of a foreign source."""

    entry: bytes | None
    """The entry to carry; None if it is not meant for the target."""
    messages: int
    """Number of permits that it used, because Apache Pulsar counts messages instead of entries."""


def outgoing(entry: bytes, target: str) -> Outgoing:
    """Decide on an entry as Apache Pulsar's replicator to ``target`` would.

    Entries that were replicated to the source are not carried. Entries with a list of clusters go to those only. The
    transaction of an entry, which has been committed, is removed, because it has no meaning elsewhere. Raises
    RemoteProtocolError for an invalid entry.
    """
    metadata = parse_metadata(entry)
    messages = max(1, metadata.num_messages_in_batch)
    is_elsewheres = metadata.HasField("replicated_from")
    if is_elsewheres or (metadata.replicate_to and target not in metadata.replicate_to):
        return Outgoing(None, messages)
    if metadata.HasField("txnid_most_bits"):
        metadata.ClearField("txnid_most_bits")
        metadata.ClearField("txnid_least_bits")
        entry = assemble(metadata.SerializeToString(), payload_of(entry))
    return Outgoing(entry, messages)


def is_system_topic(topic: str) -> bool:
    """Return whether the topic is internal to Apache Pulsar, which replicates it in its own way or not at all."""
    return topic.rpartition("/")[2].startswith(_SYSTEM_TOPIC_PREFIXES)
