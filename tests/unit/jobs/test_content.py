"""The digest covers what a producer wrote, and nothing that replication adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.position import EARLIEST, Position
from magnetar.jobs.content import digest, exact_digest
from magnetar.wire.entries.entry import assemble, build_entry
from magnetar.wire.entries.origin import Origin, stamp, stamp_again
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    Digest = Callable[[bytes], int]

BOTH = pytest.mark.parametrize("of", [digest, exact_digest])
ORIGINS = [
    Origin("ewr", Position(1, 2)),
    Origin("a" * 42, Position(10**9, 10**6), Position(1, 1), EARLIEST),
    Origin("jfk", Position(1, 2), Position(1, 1), Position(1, 0), link_start=True),
    Origin("b" * 200, Position(1, 2)),
]


def entry(payload: bytes = b"flight", **fields: object) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1_700_000_000_000)
    metadata.MergeFrom(pb.MessageMetadata(**fields))  # type: ignore[arg-type]
    return build_entry(metadata, payload)


ENTRIES = [
    entry(),
    entry(partition_key="a*b", num_messages_in_batch=3, event_time=5),
    entry(properties=[pb.KeyValue(key="k", value="v")]),
    entry(schema_version=b"\0\0\0\0\0\0\0\1"),
    entry(properties=[pb.KeyValue(key="k", value="\u0082\u0001")]),
]


@BOTH
@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("original", ENTRIES)
def test_a_stamp_and_the_schema_version_do_not_count(of: Digest, origin: Origin, original: bytes) -> None:
    assert of(stamp(original, origin)) == of(original)
    assert of(stamp(original, origin, as_properties=True)) == of(original)
    assert of(stamp(original, origin, b"\0\0\0\0\0\0\0\5")) == of(original)
    assert of(stamp_again(stamp(original, origin), origin)) in (of(original), exact_digest(original))


@BOTH
def test_every_byte_of_the_producer_counts(of: Digest) -> None:
    changed = [
        entry(b"flighT"),
        entry(b""),
        entry(event_time=1),
        entry(partition_key="k"),
        entry(properties=[pb.KeyValue(key="k", value="v")]),
        entry(properties=[pb.KeyValue(key="k", value="w")]),
        entry(sequence_id=8),
        entry(replicate_to=["jfk"]),
    ]
    assert len({of(each) for each in (entry(), *changed)}) == len(changed) + 1
    assert len({of(stamp(each, ORIGINS[0])) for each in (entry(), *changed)}) == len(changed) + 1


def test_the_exact_digest_ignores_the_order_of_fields_that_another_replicator_writes() -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=9, event_time=4)
    original = build_entry(metadata, b"x")
    metadata.replicated_from = "ewr"
    metadata.properties.add(key="__MSG_PROP_REPL_SOURCE_POSITION", value="1:2")
    assert exact_digest(build_entry(metadata, b"x")) == exact_digest(original)
    assert digest(build_entry(metadata, b"x")) == exact_digest(original)


def test_bytes_that_move_from_the_metadata_to_the_payload_count() -> None:
    whole = entry(b"")
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1_700_000_000_000).SerializeToString()
    assert digest(assemble(metadata[:-2], metadata[-2:])) != digest(whole)
