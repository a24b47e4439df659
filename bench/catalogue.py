"""The rows of the table, with their units, directions and targets. Pure.

A measurement yields the figures of several rows. A session is a set of measurements with one start of the system.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bench.figures import Better, RatioTarget, Target, WorstTarget
from bench.switch import WORKLOADS

THIRD = RatioTarget(1 / 3)


class Session(StrEnum):
    """One start of a system, with its measurements."""

    FRESH = "fresh"
    """A broker after its start, and with an increasing number of topics."""

    STORAGE = "storage"
    """A broker that stores entries and is stopped."""

    LOAD = "load"
    """A warmed-up broker under load."""

    GEO = "geo"
    """Two clusters."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    id: str
    label: str
    unit: str
    better: Better
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """A procedure that yields the figures of its rows."""

    id: str
    session: Session
    group: str
    """The heading above its rows."""

    rows: tuple[Row, ...]


def _throughput(
    measurement: str, session: Session, group: str, label: str, target: Target | None = None, noun: str = "entries"
) -> Measurement:
    singular = {"entries": "entry", "messages": "message"}[noun]
    rate = Row(f"{measurement}.rate", f"{label}: {noun}", "/s", Better.HIGHER)
    cpu = Row(f"{measurement}.cpu", f"{label}: broker CPU per {singular}", "µs", Better.LOWER, target)
    return Measurement(measurement, session, group, (rate, cpu))


PUBLISH_SIZES = {100: "100 B", 1024: "1 KiB", 64 * 1024: "64 KiB"}
PUBLISH_WINDOWS = {100: 1_000, 1024: 1_000, 64 * 1024: 64}
"""Entries in flight; fewer large ones, 4 MiB at a time."""

CONSUMER_PERMITS = 1_000
"""The receiver queue size of the official client."""

PERCENTILES = ("p50", "p99", "p99.9")
RATE_OF_P999_MIN = 1_000
"""Messages per second below which a round has too few messages for a 99.9th percentile."""

LATENCY_RATES = (1_000, 5_000)
LATENCY_BYTES = 1024
GEO_RATES = (20, 1_000)
GEO_BYTES = 1024
TOPIC_COUNTS = (1_000, 10_000)
SWITCH_RATE = 100
"""Messages per second of each workload."""

PUBLISH = "publish: raw, one connection, unbatched, window 1,000 (64 KiB: 64)"
CLIENT = "publish: official client, its default batching (1,000 messages, 128 KiB, 10 ms)"
DISPATCH = "dispatch: shared, 100 B, one acknowledgement per message, 1,000 permits"
LATENCY = "publish latency: 1 KiB, unbatched, from due to receipt"
GEO = "geo-replication: two clusters, 1 KiB, unbatched, official client at both ends"
SWITCH = f"a subscription moves: {SWITCH_RATE} msg/s each; acknowledged in one cluster, repeated in the other"
RESOURCES = "resources of one broker"

RECEIPT_LATENCY: dict[str, Target] = {"p50": RatioTarget(1), "p99": RatioTarget(1)}
GEO_LATENCY: dict[str, Target] = {"p50": RatioTarget(1 / 2), "p99": RatioTarget(1)}


def _publish_latency(rate: int) -> Measurement:
    return Measurement(f"latency.{rate}", Session.LOAD, LATENCY, _percentiles(f"latency.{rate}", rate, RECEIPT_LATENCY))


def _geo_latency(rate: int) -> Measurement:
    return Measurement(f"geo.{rate}", Session.GEO, GEO, _percentiles(f"geo.{rate}", rate, GEO_LATENCY))


def _percentiles(measurement: str, rate: int, targets: dict[str, Target]) -> tuple[Row, ...]:
    points = PERCENTILES if rate >= RATE_OF_P999_MIN else PERCENTILES[:-1]
    return tuple(
        Row(f"{measurement}.{point}", f"{rate:,} msg/s: {point}", "ms", Better.LOWER, targets.get(point))
        for point in points
    )


def _resident(measurement: str, label: str, target: Target | None = None) -> Measurement:
    row = Row(measurement, f"resident memory {label}", "MB", Better.LOWER, target)
    return Measurement(measurement, Session.FRESH, RESOURCES, (row,))


SWITCHES = Measurement(
    "switch",
    Session.GEO,
    SWITCH,
    (
        *(
            Row(
                f"switch.{workload.id}",
                workload.label,
                "repeated",
                Better.LOWER,
                WorstTarget(0) if workload.planned else None,
            )
            for workload in WORKLOADS
        ),
        Row("switch.lost", "planned: never delivered", "lost", Better.LOWER, WorstTarget(0)),
    ),
)

MEASUREMENTS = (
    *(
        _throughput(f"publish.{size}", Session.LOAD, PUBLISH, label, RatioTarget(1 / 4) if size == 100 else None)
        for size, label in PUBLISH_SIZES.items()
    ),
    *(
        _throughput(f"client.{size}", Session.LOAD, CLIENT, label, noun="messages")
        for size, label in PUBLISH_SIZES.items()
    ),
    _throughput("backlog", Session.LOAD, DISPATCH, "from backlog", THIRD),
    _throughput("burst", Session.LOAD, DISPATCH, "of a burst just published"),
    _throughput("tail", Session.LOAD, DISPATCH, "from the tail, with its publishing", THIRD),
    *map(_publish_latency, LATENCY_RATES),
    Measurement(
        "catch-up",
        Session.GEO,
        GEO,
        (Row("catch-up", "catch-up of a backlog: entries", "/s", Better.HIGHER, RatioTarget(2)),),
    ),
    *map(_geo_latency, GEO_RATES),
    SWITCHES,
    Measurement("start", Session.FRESH, RESOURCES, (Row("start", "start to healthy", "s", Better.LOWER, THIRD),)),
    _resident("memory.0", "at start", THIRD),
    *(_resident(f"memory.{count}", f"with {count:,} topics, a producer each") for count in TOPIC_COUNTS),
    Measurement(
        "disk",
        Session.STORAGE,
        RESOURCES,
        (Row("disk", "on disk per byte published, 1 KiB, stopped", "B", Better.LOWER),),
    ),
)
"""In the order of the table and, within a session, of the measurements: catching up warms up a link before its latency
is measured, and the kill is the last one.
"""
