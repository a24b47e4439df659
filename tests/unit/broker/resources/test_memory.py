"""The memory budget: no flood exceeds it, and no client waits for ever while memory is available."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.memory_share import SMALL_BYTES, STALL_BYTES
from magnetar.broker.resources.memory import (
    LARGE_FRAME_BYTES,
    READ_BYTES,
    READ_BYTES_MIN,
    STALL_S,
    Account,
    MemoryBudget,
)
from magnetar.broker.resources.memory_limits import memory_limits
from magnetar.broker.settings.config import BrokerConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

MIB = 1 << 20
FRAME_BYTES = 5 * MIB


def budget(publishes_mb: int = 64) -> MemoryBudget:
    config = BrokerConfig(maxMessagePublishBufferSizeInMB=publishes_mb)
    return MemoryBudget(memory_limits(config, 8 << 30))


@dataclass(eq=False)
class Publisher:
    """A connection with its session and decoder: frames arrive in reads, and become durable later."""

    memory: MemoryBudget
    frame: int = 1000
    """Bytes of each frame."""
    reading: bool = True
    arriving: bool = True
    held: int = 0
    in_flight: list[int] = field(default_factory=list)
    finished: int = 0

    def __post_init__(self) -> None:
        self.account = Account(self.memory, self.resume)

    def resume(self) -> None:
        self.arriving = True
        self.set_read()

    def set_read(self) -> None:
        self.account.is_read = self.reading and self.arriving

    @property
    def is_read(self) -> bool:
        return self.account.is_read

    def read(self, size: int = READ_BYTES) -> None:
        """Read ``size`` bytes from the socket."""
        frames, self.held = divmod(self.held + size, self.frame)
        if frames:
            self.in_flight.append(frames * self.frame)
            self.reading = self.account.publish(frames * self.frame)
        missing = self.frame - self.held if self.held else 0
        self.arriving = self.account.arrived(self.held, missing)
        self.set_read()

    def commit(self) -> None:
        """Make its oldest run durable."""
        run = self.in_flight.pop(0)
        self.finished += run // self.frame
        self.account.published(run)
        self.reading = self.reading or self.account.may_publish_again
        self.set_read()

    def leave(self) -> None:
        self.held = 0
        self.account.close()


def held(publishers: Sequence[Publisher]) -> int:
    return sum(each.held + sum(each.in_flight) for each in publishers)


def bound(publishers: Sequence[Publisher], memory: MemoryBudget) -> int:
    """Return the limit plus, for each connection, its guaranteed bytes and one read."""
    return memory.limits.publishes + len(publishers) * (SMALL_BYTES + READ_BYTES)


@given(
    st.lists(st.sampled_from([100, 5000, 300_000, FRAME_BYTES]), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 11), st.integers(1, READ_BYTES), st.booleans()), max_size=300),
)
@settings(deadline=None)
def test_floods_stay_within_the_limit_and_everybody_gets_on(
    frames: list[int], steps: list[tuple[int, int, bool]]
) -> None:
    memory = budget(24)
    publishers = [Publisher(memory, size) for size in frames]
    for index, size, is_commit in steps:
        each = publishers[index % len(publishers)]
        if is_commit and each.in_flight:
            each.commit()
        elif each.is_read:
            each.read(size)
        assert held(publishers) <= bound(publishers, memory)
    before = [each.finished for each in publishers]
    for _ in range(100 * len(publishers)):
        for each in publishers:
            if each.is_read:
                each.read()
            assert held(publishers) <= bound(publishers, memory)
        for each in publishers:
            while each.in_flight:
                each.commit()
    assert all(each.finished > had for each, had in zip(publishers, before, strict=True))
    for each in publishers:
        each.leave()
    assert memory.publishes.used == memory.first_frames.used == memory.later_frames.used == memory.frames_held == 0


@pytest.mark.parametrize("frame", [100, 100_000, FRAME_BYTES])
def test_a_flood_of_many_connections_is_held_back_before_the_limit(frame: int) -> None:
    memory = budget()
    publishers = [Publisher(memory, frame) for _ in range(100)]
    while any(each.is_read for each in publishers):
        for each in publishers:
            if each.is_read:
                each.read()
    assert held(publishers) <= bound(publishers, memory)


def test_a_small_client_goes_on_while_others_flood() -> None:
    memory = budget()
    floods = [Publisher(memory, frame) for frame in (100, 100_000, FRAME_BYTES) for _ in range(50)]
    small = Publisher(memory)
    for _ in range(200):
        for each in floods:
            if each.is_read:
                each.read()
        assert small.is_read
        small.read(10 * small.frame)
        small.commit()
        for each in floods:
            if each.in_flight:
                each.commit()
    assert small.finished == 2000


def test_one_connection_that_floods_alone_gets_half_of_what_is_for_publishes() -> None:
    memory = budget()
    flood = Publisher(memory)
    while flood.is_read:
        flood.read()
    assert 16 * MIB <= held([flood]) <= 17 * MIB


def test_a_connection_that_was_held_back_goes_on_when_half_is_durable() -> None:
    memory = budget()
    flood = Publisher(memory)
    while flood.is_read:
        flood.read()
    most = held([flood])
    while not flood.is_read:
        flood.commit()
    assert most * 0.4 < held([flood]) < most * 0.8


def test_clients_that_stop_in_large_frames_hold_up_no_known_one() -> None:
    memory = budget()
    known = Publisher(memory, FRAME_BYTES)
    while not known.finished:
        known.read()
        if known.in_flight:
            known.commit()
    stopped = [Publisher(memory, FRAME_BYTES) for _ in range(100)]
    for each in stopped:
        while each.is_read and each.held < FRAME_BYTES - READ_BYTES:
            each.read()
    assert sum(each.is_read for each in stopped) == 3
    assert held(stopped) <= bound(stopped, memory)
    for _ in range(100):
        assert known.is_read
        known.read()
        while known.in_flight:
            known.commit()


def test_clients_that_stop_in_large_frames_are_named_while_others_wait() -> None:
    memory = budget()
    first, second, third, waiting, slow = (Publisher(memory, FRAME_BYTES) for _ in range(5))
    for each in (first, second, third):
        each.read()
    assert memory.stalled(0.0) == memory.stalled(60.0) == [], "nobody waits for them"
    waiting.read()
    slow.read()
    assert not waiting.is_read
    assert memory.stalled(60.0) == []
    third.read(STALL_BYTES)
    assert memory.stalled(60.0 + STALL_S) == [first.account, second.account]
    first.leave()
    assert slow.is_read, "the newest is first"
    assert not waiting.is_read
    second.leave()
    assert waiting.is_read
    assert memory.stalled(1000.0) == [], "nobody waits any more"


def test_a_client_that_is_not_read_does_not_stall() -> None:
    memory = budget()
    held_back, *others = (Publisher(memory, FRAME_BYTES) for _ in range(4))
    held_back.read()
    for each in others:
        each.read()
    held_back.account.is_read = False
    assert memory.stalled(0.0) == []
    assert memory.stalled(STALL_S) == [each.account for each in others[:2]]


def test_small_frames_need_no_admission_while_there_is_memory() -> None:
    memory = budget()
    publishers = [Publisher(memory, LARGE_FRAME_BYTES) for _ in range(60)]
    for each in publishers:
        each.read(LARGE_FRAME_BYTES - 1)
    assert all(each.is_read for each in publishers)
    assert memory.frames_held == 60 * (LARGE_FRAME_BYTES - 1)


def test_many_clients_that_stop_in_small_frames_do_not_exceed_the_memory() -> None:
    memory = budget()
    publishers = [Publisher(memory, LARGE_FRAME_BYTES) for _ in range(1000)]
    for each in publishers:
        while each.is_read and each.held < LARGE_FRAME_BYTES - 1:
            each.read(min(memory.read_size(each.account), LARGE_FRAME_BYTES - 1 - each.held))
    most = memory.limits.publishes + len(publishers) * (SMALL_BYTES + READ_BYTES_MIN)
    assert most < len(publishers) * (LARGE_FRAME_BYTES - 1)
    assert memory.frames_held <= most
    newcomer = Publisher(memory, 10_000)
    newcomer.read(10_000)
    assert (newcomer.is_read, newcomer.finished) == (True, 0)
    newcomer.commit()
    assert newcomer.finished == 1
    for now in range(len(publishers)):
        for account in memory.stalled(float(now)):
            next(each for each in publishers if each.account is account).leave()
    assert memory.stalled(1e9) == [], "nobody waits any more"


def test_reads_become_smaller_while_others_wait_for_their_turn() -> None:
    memory = budget()
    accounts = [Account(memory, lambda: None) for _ in range(3000)]
    assert memory.read_size(accounts[0]) == READ_BYTES
    for each in accounts:
        each.defer(memory.read_size(each))
    assert memory.deferred <= memory.limits.publishes + len(accounts) * READ_BYTES_MIN
    assert memory.read_size(accounts[0]) == READ_BYTES_MIN
    for number, each in enumerate(accounts):
        each.handled() if number % 2 else each.close()
    assert memory.deferred == 0
    assert memory.read_size(accounts[0]) == READ_BYTES


def test_a_frame_that_was_admitted_is_read_at_full_size() -> None:
    memory = budget()
    large = Publisher(memory, FRAME_BYTES)
    large.read()
    Account(memory, lambda: None).defer(memory.limits.publishes)
    assert memory.read_size(large.account) == READ_BYTES
    assert memory.read_size(Publisher(memory).account) == READ_BYTES_MIN


def test_large_frames_alone_do_not_make_reads_smaller() -> None:
    memory = budget()
    for _ in range(20):
        Publisher(memory, FRAME_BYTES).read()
    assert memory.read_size(Publisher(memory).account) == READ_BYTES
