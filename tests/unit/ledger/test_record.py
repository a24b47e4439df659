from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.ledger.segments.record import (
    HEADER_SIZE,
    ExtentLine,
    Footer,
    Kind,
    LedgerLine,
    Place,
    RunHead,
    Table,
    body_of,
    decode_control,
    decode_record,
    decode_run_entries,
    decode_run_head,
    encode_control,
    encode_header,
    encode_run,
    footer_offset,
)

IDS = st.integers(0, 2**63 - 1)
SMALL = st.integers(0, 2**32 - 1)
ENTRIES = st.lists(st.binary(max_size=20), min_size=1, max_size=10)
PLACE = Place(segment=7, offset=0, previous=0xABCD, synced=28)


def record_of(kind: Kind, body: bytes, place: Place = PLACE) -> bytes:
    header, _ = encode_header(kind, body_of(body), place)
    return header + body


@given(IDS, IDS, ENTRIES, st.binary(max_size=20), st.integers(0, 10), st.integers(0, 10))
def test_a_run_reads_back(
    ledger_id: int, first: int, entries: list[bytes], annotation: bytes, skip: int, count: int
) -> None:
    body = b"".join(encode_run(ledger_id, first, entries, annotation).parts)
    assert decode_run_head(body) == RunHead(ledger_id, first, len(entries), annotation, sum(map(len, entries)))
    assert decode_run_entries(body, skip) == entries[skip:]
    assert decode_run_entries(body, skip, count) == entries[skip : skip + count]


def test_a_run_has_the_documented_bytes() -> None:
    body = b"".join(encode_run(5, 9, [b"ab", b"c"], b"note").parts)
    assert body == (b"\x05\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x02\0\0\0\x04\0\0\0note\x02\0\0\0\x01\0\0\0abc")


def test_a_record_has_the_documented_bytes() -> None:
    header, crc = encode_header(Kind.TRIM, body_of(encode_control(3, 4)), Place(2**32 + 7, 28, 0x01020304, 5))
    assert header == (
        b"MgRc" + crc.to_bytes(4, "little") + b"\x04\x03\x02\x01\x07\0\0\0\x1c\0\0\0\x05\0\0\0\x04\0\0\0\x10\0\0\0"
    )


@given(IDS, IDS)
def test_a_control_reads_back(ledger_id: int, argument: int) -> None:
    assert decode_control(encode_control(ledger_id, argument)) == (ledger_id, argument)


@given(IDS, st.lists(st.tuples(IDS, SMALL, st.binary(max_size=9), SMALL, SMALL), max_size=8))
def test_a_table_reads_back(ledger_id: int, runs: list[tuple[int, int, bytes, int, int]]) -> None:
    table = Table()
    for first, count, annotation, offset, size in runs:
        table.append(RunHead(ledger_id, first, count, annotation, 0), offset, size)
    assert Table.decode(table.encode(ledger_id)) == (ledger_id, table)


@given(
    IDS,
    st.lists(st.builds(LedgerLine, IDS, IDS, IDS, st.booleans()), max_size=5),
    st.lists(st.builds(ExtentLine, IDS, IDS, IDS, IDS, SMALL, SMALL), max_size=5),
    SMALL,
)
def test_a_footer_reads_back_and_is_found(
    next_id: int, ledgers: list[LedgerLine], extents: list[ExtentLine], offset: int
) -> None:
    footer = Footer(next_id, tuple(ledgers), tuple(extents))
    body = footer.encode(offset)
    assert Footer.decode(body) == footer
    assert footer_offset(body[-8:]) == offset


def test_a_missing_footer_is_recognized() -> None:
    assert footer_offset(b"") is None
    assert footer_offset(b"\0" * 8) is None


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    data = record_of(Kind.RUN, b"".join(encode_run(1, 0, [b"hello"], b"").parts))
    record = decode_record(data, 0, 7, 0)
    assert record is not None
    assert record.end == len(data)
    for bit in range(8 * len(data)):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        assert decode_record(bytes(broken), 0, 7, 0) is None
    for size in range(len(data)):
        assert decode_record(data[:size], 0, 7, 0) is None


def test_a_record_passes_only_at_its_own_place() -> None:
    data = b"x" * 5 + record_of(Kind.SEAL, encode_control(1, 0), Place(7, 5, 0, 0))
    assert decode_record(data, 5, 7, 5) is not None
    assert decode_record(data, 5, 8, 5) is None, "another segment"
    assert decode_record(data, 5, 7, 6) is None, "another offset"
    assert len(data) == 5 + HEADER_SIZE + len(encode_control(1, 0))


def test_a_run_of_large_entries_comes_in_parts_and_is_the_same_run() -> None:
    entries = [b"a" * 20_000, b"b" * 15_000, b"c" * 30_000]
    in_parts = encode_run(5, 9, entries, b"note")
    assert [id(part) for part in in_parts.parts[-3:]] == [id(entry) for entry in entries], "not copied"
    body = b"".join(in_parts.parts)
    assert decode_run_entries(body) == entries
    place = Place(1, 28, 0, 0)
    assert encode_header(Kind.RUN, in_parts, place) == encode_header(Kind.RUN, body_of(body), place)
