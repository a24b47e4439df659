from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import EARLIEST, Position
from magnetar.pipeline import limits
from magnetar.pipeline.rows import (
    SCHEMA,
    Attachment,
    Carried,
    Kind,
    Opening,
    decode_chunk,
    decode_opening,
    encode_chunks,
    encode_opening,
    row,
    rows_in,
)
from magnetar.wire.message_id import Link

ids = st.integers(-1, 2**63 - 1)
positions = st.builds(Position, ids, ids)
texts = st.text(max_size=30)
attachments = st.builds(Attachment, st.integers(0, 2**32 - 1), texts, texts, texts)
carried = st.builds(
    Carried, attachments, positions, st.builds(Link, positions, positions, st.booleans()), st.binary(max_size=200)
)


@given(st.lists(carried, max_size=20))
def test_chunks_bring_back_every_entry_in_order(entries: list[Carried]) -> None:
    assert [entry for chunk in encode_chunks(entries) for entry in decode_chunk(memoryview(chunk))] == entries


def test_a_chunk_holds_its_limit_and_a_larger_entry_travels_alone() -> None:
    attachment = Attachment(1, "ewr", "persistent://public/default/t")
    sizes = [limits.CHUNK_BYTES // 2, limits.CHUNK_BYTES // 2, 1, 3 * limits.CHUNK_BYTES, 1]
    entries = [Carried(attachment, Position(1, n), Link(EARLIEST), bytes(size)) for n, size in enumerate(sizes)]
    chunks = [[len(entry.entry) for entry in decode_chunk(memoryview(chunk))] for chunk in encode_chunks(entries)]
    assert chunks == [sizes[:2], sizes[2:3], sizes[3:4], sizes[4:]]


def test_nothing_makes_no_chunk() -> None:
    assert list(encode_chunks([])) == []


def test_an_opening_comes_back() -> None:
    opening = Opening("/run/reports", "pulsar://127.0.0.1:6650")
    assert decode_opening(memoryview(encode_opening(opening))) == opening


def test_a_row_has_the_schema_that_spark_is_told() -> None:
    batch = row("jfk", 7, Kind.PADDING, b"\0")
    assert batch.schema == SCHEMA
    assert batch.to_pylist() == [{"target": "jfk", "lease": 7, "kind": "padding", "body": b"\0"}]
    batch.validate(full=True)


def test_the_rows_of_a_batch_come_back() -> None:
    batches = [row("jfk", 7, Kind.OPENING, b"{}"), row("jfk", 7, Kind.ENTRIES, b"chunk")]
    joined = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    assert [(*rest, bytes(body)) for batch in (*batches, joined) for *rest, body in rows_in(batch)] == [
        ("jfk", 7, "opening", b"{}"),
        ("jfk", 7, "entries", b"chunk"),
    ] * 2
