"""What a source of Apache Pulsar leaves to whoever carries its entries, and its own replicator decides. Pure."""

from __future__ import annotations

from typing import NamedTuple

from magnetar.wire.entries.entry import assemble, parse_metadata, payload_of

_SYSTEM_TOPIC_PREFIXES = ("__change_events", "__transaction_")


class Outgoing(NamedTuple):
    """What to do with an entry of a foreign source."""

    entry: bytes | None
    """What to carry; None for what is not meant for the target."""
    messages: int
    """How many permits it used: there they count messages, and not entries."""


def outgoing(entry: bytes, target: str) -> Outgoing:
    """Decide on an entry as Apache Pulsar's replicator to ``target`` would.

    Entries that were replicated to the source go no further, entries that name their clusters go to these only, and
    the transaction that an entry was published in, which has been committed, means nothing elsewhere. Raises
    RemoteProtocolError for an entry that cannot be read.
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
    """Whether Apache Pulsar keeps the topic for itself and replicates it, if at all, in its own way."""
    return topic.rpartition("/")[2].startswith(_SYSTEM_TOPIC_PREFIXES)
