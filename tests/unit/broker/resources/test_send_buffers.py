"""Unread output of clients stays within its share, and clients that read get their messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.memory_share import SMALL_BYTES
from magnetar.broker.resources.send_buffers import RECEIVE_STALL_S, WAIT_MAX_S, SendBuffers, Unsent, Waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

MIB = 1 << 20
LIMIT = 16 * MIB
READ_MAX = 5 * MIB


@dataclass(eq=False)
class Receiver:
    """A connection with one consumer of a backlog of entries of one size."""

    buffers: SendBuffers
    entry: int
    reads: bool = True
    got: int = 0
    asks: int = 0
    waiting: Waiting = field(init=False)
    unsent: Unsent = field(init=False)

    def __post_init__(self) -> None:
        self.waiting = Waiting(self.buffers, self.ask)
        self.unsent = Unsent(self.buffers)

    def ask(self) -> None:
        self.asks += 1

    def dispatch(self) -> None:
        """Send the entries of one read, as far as there is room, and read all or nothing of it."""
        if not self.unsent.is_over and not self.waiting.is_waiting:
            entries = [bytes(self.entry)] * max(min(100, READ_MAX // self.entry), 1)
            count = self.waiting.fitting(entries)
            self.got += count
            if count:
                self.write(count * self.entry)
        if self.reads:
            self.unsent.left(0)

    def write(self, size: int) -> None:
        """Write ``size`` bytes in one turn, none of which the transport sends at once."""
        self.unsent.write(size)
        self.unsent.flushed(self.unsent.size)


def bound(receivers: Sequence[Receiver]) -> int:
    """Return the limit plus twice the guaranteed bytes of each connection: before a dispatch, and for it."""
    return LIMIT + len(receivers) * 2 * SMALL_BYTES


def held(receivers: Sequence[Receiver]) -> int:
    return sum(each.unsent.size for each in receivers)


@given(
    st.lists(st.tuples(st.sampled_from([100, 10_000, 300_000, 5 * MIB]), st.booleans()), min_size=1, max_size=40),
    st.lists(st.integers(0, 39), max_size=200),
)
@settings(deadline=None)
def test_the_buffers_stay_within_the_limit_and_reading_clients_get_messages(
    kinds: list[tuple[int, bool]], turns: list[int]
) -> None:
    buffers = SendBuffers(LIMIT, MIB)
    receivers = [Receiver(buffers, entry, reads) for entry, reads in kinds]
    for turn in turns:
        receivers[turn % len(receivers)].dispatch()
        assert buffers.used == held(receivers) <= bound(receivers)
    for _ in range(10):
        for each in receivers:
            each.dispatch()
            assert buffers.used == held(receivers) <= bound(receivers)
    assert all(each.got for each in receivers if each.reads and each.entry <= SMALL_BYTES)
    for each in receivers:
        each.reads = True
    for _ in range(len(receivers) + 1):
        for each in receivers:
            each.dispatch()
    assert all(each.got for each in receivers)


def test_one_connection_holds_no_more_than_its_own_limit_and_one_dispatch() -> None:
    buffers = SendBuffers(LIMIT, MIB)
    receiver = Receiver(buffers, 10_000, reads=False)
    for _ in range(100):
        receiver.dispatch()
    assert MIB < buffers.used <= 2 * MIB + 10_000


def test_a_large_entry_waits_until_there_is_room_for_it() -> None:
    buffers = SendBuffers(LIMIT, MIB)
    silent = [Receiver(buffers, 5 * MIB, reads=False) for _ in range(3)]
    for each in silent:
        each.dispatch()
    assert [each.got for each in silent] == [1, 1, 0]
    large, small = Receiver(buffers, 5 * MIB), Receiver(buffers, 100)
    large.dispatch()
    small.dispatch()
    assert (large.got, small.got) == (0, 100)
    silent[0].unsent.left(0)
    assert large.asks == 1
    large.dispatch()
    assert large.got == 1


def test_a_client_that_reads_nothing_is_named_while_others_wait() -> None:
    buffers = SendBuffers(LIMIT, MIB)
    silent, slow, small = (Receiver(buffers, size, reads=False) for size in (5 * MIB, 5 * MIB, 100))
    for each in (silent, slow, small):
        each.dispatch()
        assert not each.unsent.has_stalled(0.0)
    slow.unsent.left(slow.unsent.size - SMALL_BYTES)
    assert slow.unsent.size == 5 * MIB, "the piece is one until all of it is sent"
    stalled = [each for each in (silent, slow, small) if each.unsent.has_stalled(RECEIVE_STALL_S)]
    assert stalled == [silent]


def test_an_entry_does_not_wait_for_ever_for_clients_that_read_slowly() -> None:
    buffers = SendBuffers(LIMIT, MIB)
    for _ in range(2):
        Receiver(buffers, 5 * MIB, reads=False).dispatch()
    large = Receiver(buffers, 5 * MIB)
    large.dispatch()
    buffers.admit_overdue(0.0)
    buffers.admit_overdue(WAIT_MAX_S - 0.1)
    assert large.asks == 0
    buffers.admit_overdue(WAIT_MAX_S)
    assert large.asks == 1
    large.dispatch()
    assert large.got == 1


def test_a_piece_counts_until_all_of_it_is_sent() -> None:
    buffers = SendBuffers(LIMIT, MIB)
    unsent = Unsent(buffers)
    for size, left in ((100, 100), (200, 300), (300, 600)):
        unsent.write(size)
        unsent.flushed(left)
    assert unsent.size == 600
    unsent.left(501)
    assert unsent.size == 600
    unsent.left(500)
    assert unsent.size == 500
    unsent.write(50)
    unsent.left(1)
    assert unsent.size == buffers.used == 350
    unsent.left(0)
    assert unsent.size == 50, "what was written in this turn was not sent yet"
    unsent.close()
    assert buffers.used == 0


def test_room_is_given_once() -> None:
    buffers = SendBuffers(LIMIT, MIB)
    holder = Receiver(buffers, LIMIT, reads=False)
    holder.write(LIMIT)
    waiting = [Receiver(buffers, 5 * MIB, reads=False) for _ in range(10)]
    for each in waiting:
        each.dispatch()
    holder.unsent.left(0)
    assert [each.asks for each in waiting] == [1, 0, 0, 0, 0, 0, 0, 0, 0, 1], "the newest and the oldest, in turn"
    waiting[0].waiting.end_turn()  # it has nothing left to send
    assert waiting[8].asks == 1
    for index in (8, 9):
        waiting[index].dispatch()
    assert buffers.used == 10 * MIB
    assert buffers.promised == 0


def test_consumers_with_large_entries_go_first() -> None:
    buffers = SendBuffers(LIMIT, MIB)
    known, *silent = (Receiver(buffers, 5 * MIB, reads=index == 0) for index in range(20))
    for each in (known, *silent):
        each.dispatch()
    assert sum(each.got for each in silent) == 2
    for count in range(2, 10):
        known.dispatch()
        assert known.got == count
    assert sum(each.got for each in silent) == 2


def test_a_subscription_that_is_closed_waits_no_longer() -> None:
    buffers = SendBuffers(LIMIT, MIB)
    holder = Receiver(buffers, 15 * MIB, reads=False)
    holder.write(15 * MIB)
    large = Receiver(buffers, 5 * MIB)
    large.dispatch()
    assert buffers.has_waiting
    large.waiting.close()
    assert not buffers.has_waiting
    holder.unsent.left(0)
    assert large.asks == 0
