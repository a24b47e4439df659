"""Messages in chunks, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.position import Position
from magnetar.spark.read.batches import chunks
from magnetar.spark.read.batches.chunks import Assembly, IncompleteMessageError, earlier_chunks
from magnetar.spark.read.batches.messages import WHOLE_SIZE_MAX, Stored, parse
from magnetar.spark.read.batches.rows import Rows
from magnetar.wire.entries.batch import compress
from magnetar.wire.entries.entry import build_entry, parse_metadata, payload_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence


class Log:
    """The entries of a topic."""

    def __init__(self) -> None:
        self.entries: list[Stored] = []
        self.searches = 0

    def append(self, metadata: pb.MessageMetadata, payload: bytes) -> None:
        entry = build_entry(metadata, payload)
        self.entries.append(Stored(Position(7, len(self.entries)), parse_metadata(entry), entry))

    def message(self, payload: bytes) -> None:
        self.append(pb.MessageMetadata(producer_name="small", sequence_id=0, publish_time=1), payload)

    def chunk(self, uuid: str, index: int, parts: Sequence[bytes]) -> None:
        metadata = pb.MessageMetadata(
            producer_name="large",
            sequence_id=1,
            publish_time=1,
            uuid=uuid,
            chunk_id=index,
            num_chunks_from_msg=len(parts),
            total_chunk_msg_size=sum(map(len, parts)),
        )
        self.append(metadata, parts[index])

    def earlier(self, last: Stored) -> dict[int, Stored] | None:
        self.searches += 1
        found = earlier_chunks(last, self.entries[: self.entries.index(last)])
        return None if found is None else dict(found)

    def read(self, start: int = 0, end: int | None = None, *, fail: bool = True) -> list[tuple[int, bytes]]:
        """Return entry id and payload of the messages of a range."""
        found = Assembly(self.earlier, fail_on_data_loss=fail).whole(self.entries[start:end])
        return [(stored.position.entry_id, bytes(payload_of(stored.entry))) for stored in found]


A = (b"a0", b"a1", b"a2")
B = (b"b0", b"b1")


@pytest.fixture
def log() -> Log:
    """Two messages in chunks that alternate, and others between."""
    log = Log()
    log.chunk("a", 0, A)
    log.chunk("b", 0, B)
    log.message(b"small")
    log.chunk("a", 1, A)
    log.chunk("b", 1, B)
    log.chunk("a", 2, A)
    return log


def test_a_message_is_in_the_place_of_its_last_chunk(log: Log) -> None:
    assert log.read() == [(2, b"small"), (4, b"b0b1"), (5, b"a0a1a2")]
    assert log.searches == 0


@pytest.mark.parametrize("cut", range(7))
def test_a_message_belongs_to_the_range_of_its_last_chunk(log: Log, cut: int) -> None:
    assert log.read(0, cut) + log.read(cut) == log.read()


def test_chunks_that_wait_are_bounded_and_read_again(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "PENDING_BYTES", len(log.entries[0].entry))
    assert log.read() == [(2, b"small"), (4, b"b0b1"), (5, b"a0a1a2")]
    assert log.searches > 0


def test_a_producer_may_start_again() -> None:
    log = Log()
    for index in (0, 1, 0, 1, 1, 2):
        log.chunk("a", index, A)
    assert log.read() == log.read(5) == [(5, b"a0a1a2")]


def test_a_repeated_last_chunk_gives_no_row() -> None:
    log = Log()
    for index in (0, 1, 2, 2, 1, 2):
        log.chunk("a", index, A)
    assert log.read() == [(2, b"a0a1a2")]
    assert log.read(3) == []


def test_a_message_without_its_last_chunk_gives_no_row() -> None:
    log = Log()
    log.chunk("a", 0, A)
    log.chunk("a", 1, A)
    assert log.read() == []


def test_missing_chunks_are_an_error_unless_losses_are_accepted() -> None:
    log = Log()
    log.chunk("a", 1, A)
    log.chunk("a", 2, A)
    with pytest.raises(IncompleteMessageError, match="message a at 7:1: 1 of 3 chunks were deleted"):
        log.read()
    assert log.read(fail=False) == []


@pytest.mark.parametrize(
    ("index", "size", "problem"),
    [
        (0, WHOLE_SIZE_MAX + 1, f"entry 7:0: message of {WHOLE_SIZE_MAX + 1} bytes exceeds"),
        (2, 5, "entry 7:0: chunk 2 of 2"),
        (-1, 5, "entry 7:0: chunk -1 of 2"),
    ],
)
def test_a_chunk_that_cannot_be_right_is_named(index: int, size: int, problem: str) -> None:
    log = Log()
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, uuid="a", num_chunks_from_msg=2)
    metadata.chunk_id, metadata.total_chunk_msg_size = index, size
    log.append(metadata, b"")
    with pytest.raises(RemoteProtocolError, match=problem):
        log.read()


def test_a_compressed_message_may_be_larger_than_an_entry_and_names_its_first_chunk() -> None:
    payload = bytes(6 * 2**20)
    compressed = compress(payload, pb.ZLIB)
    log = Log()
    for index in range(2):
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, uuid="a", num_chunks_from_msg=2)
        metadata.chunk_id, metadata.compression, metadata.uncompressed_size = index, pb.ZLIB, len(payload)
        log.append(metadata, compressed[:100] if index == 0 else compressed[100:])
    (whole,) = Assembly(log.earlier, fail_on_data_loss=True).whole(log.entries)
    rows = Rows("persistent://public/default/orders", -1, parse([whole]))
    assert rows.value().to_pylist() == [payload]
    expected = pb.MessageIdData(ledgerId=7, entryId=1)
    expected.first_chunk_message_id.CopyFrom(pb.MessageIdData(ledgerId=7, entryId=0))
    assert rows.message_id().to_pylist() == [expected.SerializeToString()]
