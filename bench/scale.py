"""The amounts of each measurement: enough for significant figures in 25 minutes, or for rough ones in three. Pure."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True, slots=True)
class Scale:
    """Amounts of one round; both systems get the same."""

    rounds: int
    warm_up_entries: int
    """Entries of 100 B published before the measurements; some are consumed as well."""

    publish_entries: dict[int, int]
    """Entries to publish, by payload size in bytes."""

    client_messages: dict[int, int]
    """Messages published by the official client, by size in bytes."""

    dispatch_entries: int
    burst_entries: int
    latency_seconds: float
    storage_entries: int
    geo_warm_up_entries: int
    geo_seconds: dict[int, float]
    """Seconds of load, by messages per second."""

    catch_up_entries: int
    switch_seconds: float
    """Seconds of load before the consumers move."""

    left_out: tuple[str, ...] = ()
    """Measurements that take too long."""

    caveat: str = ""
    """A warning for readers of the table."""


FULL = Scale(
    rounds=3,
    warm_up_entries=800_000,
    publish_entries={100: 300_000, KIB: 150_000, 64 * KIB: 4_000},
    client_messages={100: 100_000, KIB: 100_000, 64 * KIB: 4_000},
    dispatch_entries=100_000,
    burst_entries=50_000,
    latency_seconds=6.0,
    storage_entries=200_000,
    geo_warm_up_entries=50_000,
    geo_seconds={20: 12.0, 1_000: 30.0},
    catch_up_entries=150_000,
    switch_seconds=12.0,
)

QUICK = Scale(
    rounds=1,
    warm_up_entries=160_000,
    publish_entries={100: 100_000, KIB: 50_000, 64 * KIB: 1_500},
    client_messages={100: 40_000, KIB: 40_000, 64 * KIB: 1_500},
    dispatch_entries=30_000,
    burst_entries=30_000,
    latency_seconds=1.5,
    storage_entries=50_000,
    geo_warm_up_entries=10_000,
    geo_seconds={20: 3.0, 1_000: 4.0},
    catch_up_entries=30_000,
    switch_seconds=3.0,
    left_out=("memory.1000", "memory.10000", "disk"),
    caveat=(
        "This is the quick table: one round, and a virtual machine that is not warm yet, which flatters Magnetar. "
        "What is claimed rests on the full one."
    ),
)
