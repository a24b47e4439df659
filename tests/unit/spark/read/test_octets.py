"""Numbers at many places at once, against the scalar parser."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.spark.read.batches.octets import Octets
from magnetar.wire import varint


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_varints_are_those_of_the_scalar_parser(numbers: list[int]) -> None:
    parts = [varint.write(number) for number in numbers]
    ends = np.cumsum(list(map(len, parts)))
    starts = ends - list(map(len, parts))
    values, after = Octets(parts).varints(starts.astype(np.int64))
    assert values.tolist() == numbers
    assert after.tolist() == ends.tolist()


def test_sizes_are_big_endian() -> None:
    octets = Octets([b"\x00", (70_000).to_bytes(4, "big"), (2**32 - 1).to_bytes(4, "big")])
    assert octets.sizes(np.array([1, 5])).tolist() == [70_000, 2**32 - 1]


@pytest.mark.parametrize("data", [b"", b"\xff" * 8, b"\xff" * 12])
def test_an_unfinished_varint_at_the_end_is_no_error(data: bytes) -> None:
    octets = Octets([data])
    _, after = octets.varints(np.array([max(0, octets.size - 1)]))
    assert after[0] >= octets.size
