"""Metrics of topics."""

from __future__ import annotations

from operator import add, attrgetter, itemgetter
from typing import TYPE_CHECKING

from magnetar.admin.metrics.table import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.admin.models.topics import TopicStats


def _bounded(value_of: Callable[[TopicStats], float | None]) -> Callable[[TopicStats], float | None]:
    """Read a value only for topics with a policy that limits the entries at risk."""
    return lambda stats: value_of(stats) if stats.withheld_receipts is not None else None


def _from_producers(total: str, of_link: str) -> Callable[[TopicStats], float]:
    """Read a rate of producers: the rate of the topic without the messages that arrive on links, as in Pulsar."""
    read, from_link = attrgetter(total), attrgetter(of_link)

    def value_of(stats: TopicStats) -> float:
        value: float = read(stats)
        return max(value - sum(map(from_link, stats.replication.values())), 0.0) if stats.replication else value

    return value_of


def _histogram(prefix: str, buckets: Sequence[str], text: str) -> Sequence[Metric[Sequence[float]]]:
    """Return the metrics of a histogram, for the values of ``Buckets.row``."""
    names = [*((each, "this bucket") for each in buckets), ("count", "all buckets"), ("sum", "sum")]
    return [Metric(f"{prefix}_{name}", itemgetter(at), f"{text}; {part}", add) for at, (name, part) in enumerate(names)]


WRITE_LATENCY = _histogram(
    "pulsar_storage_write_latency",
    ("le_0_5", "le_1", "le_5", "le_10", "le_20", "le_50", "le_100", "le_200", "le_1000", "overflow"),
    "Entries of the last interval by the time until they were durable: buckets in milliseconds, sum in microseconds",
)
ENTRY_SIZE = _histogram(
    "pulsar_entry_size",
    ("le_128", "le_512", "le_1_kb", "le_2_kb", "le_4_kb", "le_16_kb", "le_100_kb", "le_1_mb", "le_overflow"),
    "Entries of the last interval by size in bytes",
)
"""Values of each topic with entries in the last interval. Each entry is in one bucket, as in Pulsar."""

SUMMED: Sequence[Metric[TopicStats]] = [
    Metric("subscriptions_count", lambda stats: len(stats.subscriptions), "Subscriptions", add),
    Metric("producers_count", "publishers_count", "Connected producers, without those of links", add),
    Metric(
        "consumers_count",
        lambda stats: sum([each.consumers_count for each in stats.subscriptions.values()]),
        "Connected consumers",
        add,
    ),
    Metric(
        "rate_in",
        _from_producers("msg_rate_in", "msg_rate_in"),
        "Messages per second from producers, without those of links",
        add,
    ),
    Metric("rate_out", "msg_rate_out", "Messages per second to consumers", add),
    Metric(
        "throughput_in",
        _from_producers("msg_throughput_in", "msg_throughput_in"),
        "Bytes per second from producers, without those of links",
        add,
    ),
    Metric("throughput_out", "msg_throughput_out", "Bytes per second to consumers", add),
    Metric(
        "msg_backlog",
        lambda stats: sum([each.msg_backlog for each in stats.subscriptions.values()]),
        "Unacknowledged entries of all subscriptions",
        add,
    ),
    Metric("storage_size", "storage_size", "Bytes of the stored entries", add),
    Metric("storage_logical_size", "storage_size", "Bytes of the stored entries, without copies", add),
    Metric("storage_backlog_size", "backlog_size", "Bytes of the largest backlog of a subscription", add),
    Metric("storage_write_rate", lambda stats: stats.log.rates.per_second[0], "Entries written per second", add),
    Metric(
        "storage_read_rate",
        lambda stats: sum(stats.log.rates.per_second[1:]),
        "Entries read per second for dispatch",
        add,
    ),
    Metric(
        "storage_read_cache_misses_rate",
        lambda stats: stats.log.rates.per_second[2],
        "Entries read per second from the disk for dispatch",
        add,
    ),
]
"""Values of each topic, ``pulsar_…``, and their sums over the broker, ``pulsar_broker_…``."""

DEDUPLICATED: Metric[TopicStats] = Metric(
    "magnetar_deduplicated_entries_total", "deduplicated_entries", "Duplicates that were not stored", kind="counter"
)

TOPIC: Sequence[Metric[TopicStats]] = [
    *[metric._replace(name=f"pulsar_{metric.name}") for metric in SUMMED],
    Metric("pulsar_average_msg_size", "average_msg_size", "Average bytes of a published message"),
    Metric(
        "pulsar_in_bytes_total",
        "bytes_in_counter",
        "Bytes published since the topic was loaded, including those of links",
        add,
    ),
    Metric(
        "pulsar_in_messages_total",
        "msg_in_counter",
        "Messages published since the topic was loaded, including those of links",
        add,
    ),
    Metric(
        "pulsar_storage_backlog_age_seconds",
        "oldest_backlog_message_age_seconds",
        "Age of the oldest unacknowledged entry, as of the last check of the quotas; -1: none",
        max,
    ),
    Metric("pulsar_storage_backlog_quota_limit", "backlog_quota_limit_size", "Backlog quota in bytes; -1: none"),
    Metric(
        "pulsar_storage_backlog_quota_limit_time",
        "backlog_quota_limit_time",
        "Backlog quota in seconds; -1: none",
    ),
    Metric(
        "pulsar_storage_offloaded_size",
        "offloaded_storage_size",
        "Bytes in other storage; entries are not offloaded: 0",
        add,
    ),
    Metric(
        "pulsar_publish_rate_limit_times",
        "publish_rate_limited_times",
        "Number of times that the publish rate was limited",
        add,
    ),
    Metric(
        "pulsar_delayed_message_index_size_bytes",
        "delayed_message_index_size_in_bytes",
        "Bytes of the index of delayed messages",
        add,
    ),
    DEDUPLICATED,
    Metric(
        "magnetar_deduplication_producers",
        "deduplication_producers",
        "Producers with known sequence ids",
        add,
    ),
    Metric(
        "magnetar_at_risk_messages",
        _bounded(attrgetter("at_risk_messages")),
        "Receipted entries that too few other clusters have, for topics with a policy that limits them",
        add,
    ),
    Metric(
        "magnetar_withheld_receipts",
        "withheld_receipts",
        "Receipts withheld until fewer entries are at risk",
        add,
    ),
    Metric(
        "magnetar_publishing_throttled",
        _bounded(lambda stats: int(stats.publishing_throttled is not None)),
        "Whether receipts are withheld because too many entries are at risk",
        add,
    ),
    Metric(
        "magnetar_damaged_entries",
        lambda stats: stats.damaged_entries or 0,
        "Damaged entries found on the disk; they are not dispatched and stay unacknowledged",
        add,
    ),
]
"""Values of each topic."""
