"""Ack sets as words and as ints."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.wire.entries.ack_set import all_remaining, int_to_words, words_to_int


@given(st.integers(0, 2**300))
def test_words_and_ints_are_the_same_bits(remaining: int) -> None:
    words = int_to_words(remaining)
    assert words_to_int(words) == remaining
    bits = [word >> bit & 1 for word in words for bit in range(64)]
    assert bits == [remaining >> index & 1 for index in range(len(bits))]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_words_read_back_but_for_zeros_at_the_end(words: list[int]) -> None:
    back = int_to_words(words_to_int(words))
    assert back == words[: len(back)]
    assert not any(words[len(back) :])


def test_examples() -> None:
    assert int_to_words(0) == []
    assert words_to_int([]) == 0
    assert int_to_words(0b101) == [5]  # of three messages the middle one is acknowledged
    assert int_to_words(1 << 63) == [-(2**63)]
    assert int_to_words(1 << 64) == [0, 1]
    assert all_remaining(3) == 0b111
