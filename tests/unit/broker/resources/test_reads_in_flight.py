"""Reads from the disk stay within their share of memory, and every reader gets a turn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.broker.resources.reads_in_flight import Read, ReadsInFlight

READ = 5
LIMIT = 12


class Reader:
    """A subscription that reads ``backlog`` times, and sends the entries at once or keeps them."""

    def __init__(self, reads: ReadsInFlight, backlog: int = 1) -> None:
        self.slot = Read(reads, self.may_begin, self.forget)
        self.backlog = backlog
        self.is_reading = False
        self.kept = 0
        self.forgot = 0

    def may_begin(self) -> None:
        self.is_reading = True

    def forget(self) -> None:
        self.kept = 0
        self.forgot += 1

    def ask(self) -> None:
        if self.backlog and not self.is_reading and not self.kept and not self.slot.is_waiting and self.slot.ask():
            self.is_reading = True

    def finish(self, size: int) -> None:
        self.is_reading = False
        self.kept = size
        self.slot.keep(size)

    def send(self) -> None:
        if self.kept:
            self.backlog -= 1
            self.kept = 0
            self.slot.keep(0)


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("afs"), st.integers(1, READ)), max_size=200))
def test_the_limit_holds_and_everybody_gets_on(steps: list[tuple[int, str, int]]) -> None:
    reads = ReadsInFlight(LIMIT, READ)
    readers = [Reader(reads, backlog=100) for _ in range(6)]
    for index, step, size in steps:
        reader = readers[index]
        if step == "a":
            reader.ask()
        elif step == "f" and reader.is_reading:
            reader.finish(size)
        elif step == "s":
            reader.send()
        assert reads.used == sum(READ if each.is_reading else each.kept for each in readers) <= LIMIT
    left = [reader.backlog for reader in readers]
    for _ in range(20):
        for reader in readers:
            reader.send()
            reader.ask()
            if reader.is_reading:
                reader.backlog -= 1
                reader.finish(0)
    assert all(reader.backlog < before for reader, before in zip(readers, left, strict=True))


def test_the_oldest_read_is_dropped_for_others() -> None:
    reads = ReadsInFlight(LIMIT, READ)
    first, second, third = (Reader(reads) for _ in range(3))
    for reader in (first, second):
        reader.ask()
        reader.finish(READ)
    third.ask()
    assert third.is_reading
    assert (first.forgot, second.forgot) == (1, 0)


def test_reads_under_way_are_waited_for_in_order() -> None:
    reads = ReadsInFlight(LIMIT, READ)
    readers = [Reader(reads) for _ in range(5)]
    for reader in readers:
        reader.ask()
    assert [reader.is_reading for reader in readers] == [True, True, False, False, False]
    readers[1].slot.close()
    assert [reader.is_reading for reader in readers[2:]] == [True, False, False]
    readers[3].slot.close()
    readers[0].finish(1)
    assert readers[4].is_reading


def test_an_entry_that_is_larger_than_the_limit_is_read_alone() -> None:
    reads = ReadsInFlight(READ - 1, READ)
    one, other = Reader(reads), Reader(reads)
    one.ask()
    other.ask()
    assert (one.is_reading, other.is_reading) == (True, False)
    one.finish(100)
    assert other.is_reading
