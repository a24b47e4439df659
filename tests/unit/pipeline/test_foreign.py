from __future__ import annotations

from typing import Any

import pytest

from magnetar.base.errors import RemoteProtocolError
from magnetar.pipeline.foreign import Outgoing, is_system_topic, outgoing
from magnetar.wire.entries.entry import build_entry, checksum_matches, parse_metadata, payload_of
from magnetar.wire.proto import pulsar_api_pb2 as pb


def entry(**fields: Any) -> bytes:  # noqa: ANN401 - fields of every type
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1, **fields)
    return build_entry(metadata, b"payload")


def test_an_entry_is_carried_as_it_is() -> None:
    plain = entry(partition_key="k", event_time=5, properties=[pb.KeyValue(key="a", value="b")])
    assert outgoing(plain, "ewr") == Outgoing(plain, 1)


def test_a_batch_uses_a_permit_for_each_message() -> None:
    assert outgoing(entry(num_messages_in_batch=12), "ewr").messages == 12


def test_replicated_entries_are_not_carried() -> None:
    assert outgoing(entry(replicated_from="lga", num_messages_in_batch=3), "ewr") == Outgoing(None, 3)


def test_an_entry_goes_only_where_its_publisher_sent_it() -> None:
    chosen = entry(replicate_to=["ewr"])
    assert outgoing(chosen, "ewr") == Outgoing(chosen, 1)
    assert outgoing(chosen, "jfk") == Outgoing(None, 1)


def test_the_transaction_stays_behind() -> None:
    carried, _ = outgoing(entry(txnid_most_bits=1, txnid_least_bits=2, partition_key="k"), "ewr")
    assert carried is not None
    metadata = parse_metadata(carried)
    assert not metadata.HasField("txnid_most_bits")
    assert not metadata.HasField("txnid_least_bits")
    assert (metadata.partition_key, bytes(payload_of(carried))) == ("k", b"payload")
    assert checksum_matches(carried)


def test_unreadable_entries_are_not_skipped() -> None:
    with pytest.raises(RemoteProtocolError):
        outgoing(b"\x00\x00", "ewr")


@pytest.mark.parametrize(
    ("topic", "is_system"),
    [
        ("persistent://a/b/__change_events", True),
        ("persistent://a/b/__transaction_buffer_snapshot", True),
        ("persistent://a/b/__mine", False),
        ("persistent://__change_events/b/t", False),
    ],
)
def test_system_topics_are_known_by_name(topic: str, is_system: bool) -> None:
    assert is_system_topic(topic) is is_system
