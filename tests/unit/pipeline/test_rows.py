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
    bodies_in,
    decode_chunk,
    decode_opening,
    encode_chunks,
    encode_opening,
    kind_of,
    row,
)
from magnetar.wire.message_id import Link, OriginPosition

ids = st.integers(-1, 2**63 - 1)
positions = st.builds(Position, ids, ids)
texts = st.text(max_size=30)
attachments = st.builds(Attachment, st.integers(0, 2**32 - 1), texts, texts, texts)
origins = st.builds(OriginPosition, st.text(min_size=1, max_size=30), positions)
links = st.builds(Link, positions, positions, st.booleans())
singles = st.builds(
    Carried, attachments, positions, links, st.binary(max_size=200), st.just(()), st.just(b""), st.none()
)


@st.composite
def runs(draw: st.DrawFn) -> Carried:
    entries = draw(st.lists(st.binary(max_size=50), min_size=2, max_size=10))
    version = draw(st.binary(max_size=300))
    sizes = tuple(map(len, entries))
    origin = draw(st.one_of(st.none(), origins))
    return Carried(draw(attachments), draw(positions), draw(links), b"".join(entries), sizes, version, origin)


carried = st.one_of(singles, runs())


@given(st.lists(carried, max_size=20))
def test_chunks_bring_back_every_entry_in_order(entries: list[Carried]) -> None:
    assert [entry for chunk in encode_chunks(entries) for entry in decode_chunk(memoryview(chunk))] == entries


def test_a_run_has_its_entries_one_after_the_other() -> None:
    attachment, first, link = Attachment(1, "ewr", "t"), Position(3, 7), Link(Position(2, 9), Position(3, 6), True)
    run = Carried(attachment, first, link, b"abbccc", (1, 2, 3), b"v")
    assert (run.entries, run.last, run.is_marker) == (3, Position(3, 9), False)
    assert list(run.singles()) == [
        Carried(attachment, first, link, b"a"),
        Carried(attachment, Position(3, 8), Link(first, first), b"bb"),
        Carried(attachment, Position(3, 9), Link(Position(3, 8), Position(3, 8)), b"ccc"),
    ]
    single = Carried(attachment, first, link, b"a")
    assert (single.entries, single.last) == (1, first)


def test_the_entries_of_a_run_in_custody_have_positions_at_their_origin() -> None:
    attachment, first, at = Attachment(1, "ewr", "t"), Position(3, 7), OriginPosition("lga", Position(9, 4))
    link = Link(Position(3, 7), Position(9, 3))
    run = Carried(attachment, first, link, b"abb", (1, 2), origin=at)
    assert not run.is_marker, "its place is one of its origin"
    assert list(run.singles()) == [
        Carried(attachment, first, link, b"a", origin=at),
        Carried(
            attachment,
            Position(3, 8),
            Link(Position(9, 4), Position(9, 4)),
            b"bb",
            origin=OriginPosition("lga", Position(9, 5)),
        ),
    ]


def test_a_run_may_have_any_schema_version() -> None:
    run = Carried(Attachment(1, "ewr", "t"), Position(3, 7), Link(), b"ab", (1, 1), b"v" * 300)
    (chunk,) = encode_chunks([run])
    assert decode_chunk(memoryview(chunk)) == [run]


def test_a_chunk_holds_its_limit_and_a_larger_entry_travels_alone() -> None:
    attachment = Attachment(1, "ewr", "persistent://public/default/t")
    sizes = [limits.CHUNK_BYTES // 2, limits.CHUNK_BYTES // 2, 1, 3 * limits.CHUNK_BYTES, 1]
    entries = [Carried(attachment, Position(1, n), Link(EARLIEST), bytes(size)) for n, size in enumerate(sizes)]
    chunks = [[len(entry.entry) for entry in decode_chunk(memoryview(chunk))] for chunk in encode_chunks(entries)]
    assert chunks == [sizes[:2], sizes[2:3], sizes[3:4], sizes[4:]]


def test_nothing_makes_no_chunk() -> None:
    assert list(encode_chunks([])) == []


def test_an_opening_comes_back() -> None:
    opening = Opening("jfk", 7, "/run/reports", "pulsar://127.0.0.1:6650", {"ewr": "pulsar://127.0.0.1:6651"})
    body = memoryview(encode_opening(opening))
    assert (kind_of(body), decode_opening(body)) == (Kind.OPENING, opening)


def test_a_row_has_the_schema_that_spark_is_told() -> None:
    for is_last, bodies in ((False, [b"chunk"]), (True, [b"chunk", b""])):
        batch = row(b"chunk", is_last=is_last)
        batch.validate(full=True)
        assert batch.schema == SCHEMA
        assert batch.column("body").to_pylist() == bodies


def test_the_rows_of_a_batch_come_back_without_the_empty_ones() -> None:
    batches = [row(b"opening", is_last=True), row(b"first", is_last=False), row(b"second", is_last=True)]
    joined = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    for found in ([body for batch in batches for body in bodies_in(batch)], bodies_in(joined)):
        assert list(map(bytes, found)) == [b"opening", b"first", b"second"]


def test_a_row_exceeds_the_buffers_on_its_way() -> None:
    entry = Carried(Attachment(1, "ewr", "t"), Position(1, 1), Link(), b"x")
    for body in (*encode_chunks([entry]), encode_opening(Opening("jfk", 1, "", ""))):
        assert len(body) >= limits.ROW_BYTES_MIN
        assert len(body) % limits.ROW_ALIGNMENT == 0
