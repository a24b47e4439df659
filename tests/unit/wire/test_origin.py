"""The stamp of a replicated entry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import RemoteProtocolError, RequestError, ServerError
from magnetar.base.position import EARLIEST, Position
from magnetar.wire.entries.entry import (
    assemble,
    build_entry,
    checksum_matches,
    metadata_bytes,
    parse_metadata,
    payload_of,
)
from magnetar.wire.entries.origin import (
    SOURCE_POSITION,
    Origin,
    is_link_start,
    is_stamped,
    origin_of,
    own_properties,
    read_origin,
    stamp,
    stamp_again,
)
from magnetar.wire.proto import pulsar_api_pb2 as pb

ORIGIN = Origin("ewr", Position(7, 8), Position(7, 6))

positions = st.builds(Position, st.integers(-1, 2**63 - 1), st.integers(-1, 2**63 - 1))
origins = st.builds(Origin, st.text(min_size=1, max_size=5), positions, positions, positions, st.booleans())
properties = st.lists(
    st.builds(
        pb.KeyValue,
        key=st.one_of(st.text(max_size=5), st.just(SOURCE_POSITION)),
        value=st.one_of(st.text(max_size=5), st.just("1:1")),
    ),
    max_size=3,
)
metadatas = st.builds(
    pb.MessageMetadata,
    producer_name=st.text(max_size=5),
    sequence_id=st.integers(0, 2**64 - 1),
    publish_time=st.integers(1, 2**63),
    properties=properties,
    num_messages_in_batch=st.one_of(st.none(), st.integers(1, 10)),
    link_place=st.one_of(st.none(), st.just("1:1"), st.just("1:1 2:2 start"), st.text(max_size=5)),
)
# Field 900 is in no version of the protocol: a varint, and bytes.
unknown_fields = st.sampled_from([b"", b"\xa0\x38\x05", b"\xa2\x38\x03abc"])


def metadata(source: str | None, link_place: str | None = None) -> pb.MessageMetadata:
    built = pb.MessageMetadata(
        producer_name="p", sequence_id=1, publish_time=1, replicated_from="ewr", link_place=link_place
    )
    if source is not None:
        built.properties.add(key=SOURCE_POSITION, value=source)
    return built


@given(metadatas, unknown_fields, st.binary(max_size=20), origins, st.booleans())
def test_a_stamp_reads_back_and_keeps_every_byte(
    published: pb.MessageMetadata, unknown: bytes, payload: bytes, origin: Origin, as_properties: bool
) -> None:
    entry = assemble(published.SerializeToString() + unknown, payload)
    stamped = stamp(entry, origin, as_properties=as_properties)
    assert is_stamped(parse_metadata(stamped))
    assert is_link_start(parse_metadata(stamped)) is origin.link_start
    assert checksum_matches(stamped)
    assert read_origin(stamped) == origin
    assert metadata_bytes(stamped).startswith(metadata_bytes(entry))
    assert list(own_properties(parse_metadata(stamped))) == list(published.properties)
    assert payload_of(stamped) == payload
    assert unknown in parse_metadata(stamped).SerializeToString()


@given(origins)
def test_a_stamp_is_what_protobuf_writes(origin: Origin) -> None:
    entry = build_entry(pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1), b"")
    appended = metadata_bytes(stamp(entry, origin))[len(metadata_bytes(entry)) :]
    cluster = pb.MessageMetadata(replicated_from=origin.cluster).SerializePartialToString()
    read = pb.MessageMetadata.FromString(appended)
    added = pb.MessageMetadata(properties=read.properties, link_place=read.link_place)
    assert appended == cluster + added.SerializePartialToString()


def test_a_stamp_of_an_earlier_release_is_read() -> None:
    published = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, replicated_from="ewr")
    for key, value in (
        ("__MSG_PROP_REPL_SOURCE_POSITION", "7:8"),
        ("__MAGNETAR_PREVIOUS_POSITION", "7:5"),
        ("__MAGNETAR_FLOOR_POSITION", "7:6"),
        ("__MAGNETAR_LINK_START", "true"),
    ):
        published.properties.add(key=key, value=value)
    assert origin_of(published) == Origin("ewr", Position(7, 8), Position(7, 5), Position(7, 6), link_start=True)
    stamped = stamp(build_entry(published, b""), ORIGIN, as_properties=True)
    assert metadata_bytes(stamped) == published.SerializeToString()


def test_an_application_sees_no_property_that_apache_pulsar_would_not_add() -> None:
    published = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    published.properties.add(key="color", value="blue")
    stamped = parse_metadata(stamp(build_entry(published, b""), ORIGIN._replace(floor=Position(7, 7), link_start=True)))
    assert [each.key for each in stamped.properties] == ["color", SOURCE_POSITION]


def test_an_entry_without_checksum_gets_one() -> None:
    entry = build_entry(pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1), b"payload")
    stamped = stamp(entry[6:], ORIGIN)
    assert stamped == stamp(entry, ORIGIN)
    assert checksum_matches(stamped)


def test_an_entry_is_stamped_once() -> None:
    entry = stamp(build_entry(pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1), b""), ORIGIN)
    other = Origin("lga", Position(1, 2))
    assert stamp(entry, other) == entry
    again = stamp_again(entry, other)
    assert read_origin(again) == other
    assert checksum_matches(again)
    assert payload_of(again) == payload_of(entry)


@given(metadatas, unknown_fields, st.binary(max_size=20), st.binary(max_size=9))
def test_a_copy_has_no_schema_version(
    published: pb.MessageMetadata, unknown: bytes, payload: bytes, version: bytes
) -> None:
    with_version = pb.MessageMetadata()
    with_version.CopyFrom(published)
    with_version.schema_version = version
    entry = assemble(with_version.SerializeToString() + unknown, payload)
    copy = stamp(entry, ORIGIN)
    assert checksum_matches(copy)
    assert bytes(payload_of(copy)) == payload
    assert unknown in metadata_bytes(copy)
    copied = parse_metadata(copy)
    assert not copied.HasField("schema_version")
    without = parse_metadata(stamp(assemble(published.SerializeToString() + unknown, payload), ORIGIN))
    assert copied == without


@given(metadatas, st.sampled_from([b"", b"12345678"]), st.sampled_from([b"", b"12345678", b"abcdefgh"]), st.booleans())
def test_a_copy_has_the_schema_version_of_the_target(
    published: pb.MessageMetadata, before: bytes, after: bytes, is_stamped: bool
) -> None:
    if before:
        published.schema_version = before
    entry = assemble(published.SerializeToString(), b"payload")
    if is_stamped:
        entry = stamp(entry, ORIGIN, before)
    copy = stamp(entry, Origin("jfk", Position(1, 1)), after)
    metadata = parse_metadata(copy)
    assert checksum_matches(copy)
    assert metadata.HasField("schema_version") is bool(after)
    assert metadata.schema_version == after
    origin = origin_of(metadata)
    assert origin is not None
    assert origin.cluster == ("ewr" if is_stamped else "jfk")


def test_damage_is_not_hidden_under_a_new_checksum() -> None:
    entry = build_entry(pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1), b"payload")
    with pytest.raises(RemoteProtocolError, match="checksum of the entry at 7:8"):
        stamp(entry[:-1] + b"!", ORIGIN)


def test_an_entry_produced_here_has_no_stamp() -> None:
    assert origin_of(pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)) is None


def test_a_stamp_of_apache_pulsar_says_nothing_of_what_came_before() -> None:
    assert origin_of(metadata("3:4")) == Origin("ewr", Position(3, 4), EARLIEST, EARLIEST)


def test_the_floor_is_the_previous_position_unless_it_is_named() -> None:
    read = origin_of(metadata("3:4", "3:2"))
    assert read == Origin("ewr", Position(3, 4), Position(3, 2), Position(3, 2))
    read = origin_of(metadata("3:4", "3:1 3:3"))
    assert read == Origin("ewr", Position(3, 4), Position(3, 1), Position(3, 3))


def test_a_producer_cannot_forge_a_link_start() -> None:
    published = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    published.properties.add(key=SOURCE_POSITION, value="9:9")
    published.link_place = "9:8 9:8 start"
    read = read_origin(stamp(build_entry(published, b""), ORIGIN))
    assert read == ORIGIN


@pytest.mark.parametrize(
    ("source", "link_place", "reason"),
    [
        (None, None, "has no __MSG_PROP_REPL_SOURCE_POSITION"),
        ("٣:4", None, "__MSG_PROP_REPL_SOURCE_POSITION: not a position"),
        ("34", None, "__MSG_PROP_REPL_SOURCE_POSITION: not a position"),
        ("3:4", "x:y", "link_place: not a position"),
        ("3:4", "3:2 x:y start", "link_place: not a position"),
    ],
)
def test_a_broken_stamp_is_refused_as_pulsar_refuses_it(
    source: str | None, link_place: str | None, reason: str
) -> None:
    with pytest.raises(RequestError, match=reason) as caught:
        origin_of(metadata(source, link_place))
    assert caught.value.code == ServerError.PersistenceError


def test_a_position_that_is_no_text_is_refused() -> None:
    published = pb.MessageMetadata(replicated_from="jfk", producer_name="p", sequence_id=0, publish_time=1)
    published.properties.add(key=SOURCE_POSITION, value="@@")
    forged = pb.MessageMetadata.FromString(published.SerializeToString().replace(b"@@", b"\xff\xfe"))
    with pytest.raises(RequestError, match="__MSG_PROP_REPL_SOURCE_POSITION: not a position"):
        origin_of(forged)
