"""Memory is returned to the system after a flood, and only then."""

from __future__ import annotations

from magnetar.broker.resources.memory import MemoryBudget
from magnetar.broker.resources.memory_limits import memory_limits
from magnetar.broker.resources.memory_trim import TRIM_BYTES, MemoryTrim, trim
from magnetar.broker.resources.process import resident_bytes
from magnetar.broker.settings.config import BrokerConfig
from magnetar.sim.virtual.loop import HandLoop


def test_it_is_due_once_when_a_flood_is_over() -> None:
    memory = MemoryBudget(memory_limits(BrokerConfig(), 8 << 30))
    trims = MemoryTrim(memory, HandLoop())
    due = []
    for held in (0, TRIM_BYTES, 1, 0, 0, TRIM_BYTES * 2, TRIM_BYTES + 1, TRIM_BYTES, 0, TRIM_BYTES - 1, 0):
        memory.sending.used = held
        due.append(trims.is_due())
    assert due == [False, False, False, True, False, False, False, True, True, False, False]


def test_free_pages_are_given_back() -> None:
    large = [bytes([1]) * (4 << 20) for _ in range(3)]  # from now on the allocator keeps freed memory
    del large
    flood = [bytes([1]) * 500_000 for _ in range(400)]
    above = [bytes([1]) * 3000 for _ in range(100)]
    del flood
    kept = resident_bytes()
    trim()
    assert resident_bytes() < kept
    assert len(above) == 100
