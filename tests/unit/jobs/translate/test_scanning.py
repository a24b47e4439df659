"""What is kept of an entry."""

from __future__ import annotations

from magnetar.base.position import Position
from magnetar.jobs.pieces import Piece
from magnetar.jobs.translate.scanning import identities_of
from magnetar.spark.read.batches.messages import Stored
from magnetar.wire.entries.entry import build_entry, parse_metadata
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.unit.jobs.translate.entries import TOPIC

SOURCE = Piece("one", TOPIC, Position(3, 0), Position(3, 9), 9, 900)
TARGET = SOURCE._replace(cluster="two")


def stored(payload: bytes = b"x", **fields: object) -> Stored:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=2**63 + 5, publish_time=9, num_messages_in_batch=3)
    metadata.MergeFrom(pb.MessageMetadata(**fields))  # type: ignore[arg-type]
    entry = build_entry(metadata, payload)
    return Stored(Position(3, 4), parse_metadata(entry), entry)


def test_an_entry_and_its_copy_have_one_identity() -> None:
    copy = stored(replicated_from="one", schema_version=b"\0\1")
    (row,) = identities_of(SOURCE, [stored(txnid_most_bits=1, txnid_least_bits=0)], "one").to_pylist()
    (other,) = identities_of(TARGET, [copy], "one").to_pylist()
    assert (row.pop("is_target"), other.pop("is_target")) == (False, True)
    assert row == other
    assert row["from_source"]
    assert (row["ledger"], row["entry"], row["sequence_id"], row["messages"]) == (3, 4, -(2**63) + 5, 3)


def test_entries_of_other_clusters_are_not_from_the_source() -> None:
    assert identities_of(TARGET, [stored(replicated_from="three"), stored()], "one")["from_source"].to_pylist() == [
        False,
        False,
    ]
    assert identities_of(SOURCE, [stored(replicated_from="two"), stored()], "one")["from_source"].to_pylist() == [
        False,
        True,
    ]


def test_other_entries_and_other_topics_have_other_identities() -> None:
    elsewhere = identities_of(SOURCE._replace(topic=f"{TOPIC}2"), [stored()], "one")
    found = identities_of(
        SOURCE, [stored(), stored(b"y"), stored(publish_time=10), stored(partition_key="k"), stored(chunk_id=1)], "one"
    )
    rows = [*found.to_pylist(), *elsewhere.to_pylist()]
    assert len({row["high"] for row in rows}) == len({row["low"] for row in rows}) == 6
    assert identities_of(SOURCE, [], "one").num_rows == 0
