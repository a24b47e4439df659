"""Protobuf's encoding of numbers."""

from __future__ import annotations

import pytest
from google.protobuf.internal.encoder import _VarintBytes  # type: ignore[attr-defined]  # the reference, in no stub
from hypothesis import given
from hypothesis import strategies as st

from magnetar.wire import varint

numbers = st.integers(0, 2**64 - 1) | st.integers(0, 20_000)


@given(numbers, st.binary(max_size=3))
def test_a_number_is_written_as_protobuf_does_and_reads_back(number: int, behind: bytes) -> None:
    written = varint.write(number)
    assert written == _VarintBytes(number)
    assert varint.read(b"x" + written + behind, 1) == (number, 1 + len(written))


@given(numbers, st.integers(0, 300))
def test_consecutive_numbers_are_written_like_each_of_them(first: int, count: int) -> None:
    written = [varint.write(first + more) for more in range(count)]
    assert varint.write_consecutive(first, count) == varint.write_each(range(first, first + count)) == written


@given(st.lists(numbers) | st.builds(lambda number, count: [number] * count, numbers, st.integers(0, 9)))
def test_numbers_are_written_like_each_of_them(given: list[int]) -> None:
    assert varint.write_each(given) == [varint.write(number) for number in given]


def test_truncated_or_overlong_numbers_are_refused() -> None:
    with pytest.raises(IndexError):
        varint.read(b"\x80\x80", 0)
    for data in (b"\x80" * 10 + b"\x01", b"\xff" * 9 + b"\x02", b"\xff" * 1000):
        with pytest.raises(OverflowError):
            varint.read(data, 0)


def test_leading_zeros_are_allowed_as_in_protobuf() -> None:
    assert varint.read(b"\x81\x80\x00", 0) == (1, 3)
