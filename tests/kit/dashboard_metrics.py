"""Metrics of Apache Pulsar 4.0 that its usual dashboards use, and their nearest relatives, with labels and kinds.

The dashboards are those of streamnative/apache-pulsar-grafana-dashboard and apache/pulsar: overview, messaging, topic,
namespace and broker. Metrics without a meaning for Magnetar are omitted: Java, BookKeeper, and StreamNative's own.
``tests/interop`` compares this list with a running Apache Pulsar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TOPIC = ("cluster", "namespace", "topic")
_SUBSCRIPTION = (*_TOPIC, "subscription")

METRICS: Mapping[Sequence[str], str] = {
    ("cluster",): """
        process_open_fds process_resident_memory_bytes process_start_time_seconds pulsar_broker_consumers_count
        pulsar_broker_msg_backlog pulsar_broker_producers_count pulsar_broker_rate_in pulsar_broker_rate_out
        pulsar_broker_storage_read_cache_misses_rate pulsar_broker_storage_read_rate pulsar_broker_storage_size
        pulsar_broker_storage_write_rate pulsar_broker_subscriptions_count pulsar_broker_throughput_in
        pulsar_broker_throughput_out pulsar_broker_topics_count pulsar_ml_cache_hits_rate pulsar_ml_cache_misses_rate
        pulsar_ml_cache_used_size pulsar_ml_count
    """,
    ("cluster", "quantile"): "pulsar_broker_publish_latency",
    ("cluster", "system_topic"): "pulsar_broker_in_bytes_total",
    ("cluster", "system_subscription"): "pulsar_broker_out_bytes_total",
    ("cluster", "namespace"): "pulsar_topics_count",
    _TOPIC: """
        pulsar_average_msg_size pulsar_consumers_count pulsar_entry_size_count pulsar_entry_size_le_100_kb
        pulsar_entry_size_le_128 pulsar_entry_size_le_16_kb pulsar_entry_size_le_1_kb pulsar_entry_size_le_1_mb
        pulsar_entry_size_le_2_kb pulsar_entry_size_le_4_kb pulsar_entry_size_le_512 pulsar_entry_size_le_overflow
        pulsar_entry_size_sum pulsar_in_bytes_total pulsar_in_messages_total pulsar_msg_backlog pulsar_producers_count
        pulsar_rate_in pulsar_rate_out pulsar_storage_backlog_age_seconds pulsar_storage_backlog_quota_limit
        pulsar_storage_backlog_quota_limit_time pulsar_storage_backlog_size pulsar_storage_logical_size
        pulsar_storage_offloaded_size pulsar_storage_read_cache_misses_rate pulsar_storage_read_rate pulsar_storage_size
        pulsar_storage_write_latency_count pulsar_storage_write_latency_le_0_5 pulsar_storage_write_latency_le_1
        pulsar_storage_write_latency_le_10 pulsar_storage_write_latency_le_100 pulsar_storage_write_latency_le_1000
        pulsar_storage_write_latency_le_20 pulsar_storage_write_latency_le_200 pulsar_storage_write_latency_le_5
        pulsar_storage_write_latency_le_50 pulsar_storage_write_latency_overflow pulsar_storage_write_latency_sum
        pulsar_storage_write_rate pulsar_subscriptions_count pulsar_throughput_in pulsar_throughput_out
    """,
    (*_TOPIC, "producer_name", "producer_id"): """
        pulsar_producer_msg_average_Size pulsar_producer_msg_rate_in pulsar_producer_msg_throughput_in
    """,
    (*_TOPIC, "remote_cluster"): """
        pulsar_replication_backlog pulsar_replication_connected_count pulsar_replication_delay_in_seconds
        pulsar_replication_disconnected_count pulsar_replication_rate_expired pulsar_replication_rate_in
        pulsar_replication_rate_out pulsar_replication_throughput_in pulsar_replication_throughput_out
    """,
    _SUBSCRIPTION: """
        pulsar_out_bytes_total pulsar_out_messages_total pulsar_subscription_back_log
        pulsar_subscription_back_log_no_delayed pulsar_subscription_blocked_on_unacked_messages
        pulsar_subscription_consumers_count pulsar_subscription_delayed pulsar_subscription_last_acked_timestamp
        pulsar_subscription_last_consumed_flow_timestamp pulsar_subscription_last_consumed_timestamp
        pulsar_subscription_last_mark_delete_advanced_timestamp pulsar_subscription_msg_ack_rate
        pulsar_subscription_msg_rate_out pulsar_subscription_msg_rate_redeliver pulsar_subscription_msg_throughput_out
        pulsar_subscription_unacked_messages
    """,
    (*_SUBSCRIPTION, "consumer_name", "consumer_id"): """
        pulsar_consumer_available_permits pulsar_consumer_blocked_on_unacked_messages pulsar_consumer_msg_ack_rate
        pulsar_consumer_msg_rate_out pulsar_consumer_msg_rate_redeliver pulsar_consumer_msg_throughput_out
        pulsar_consumer_unacked_messages
    """,
}
"""Names by labels. All are gauges, except SUMMARIES."""

SUMMARIES = {"pulsar_broker_publish_latency"}


def differences(text: str, without: Sequence[str] = ()) -> list[str]:
    """Return the metrics of the list that an exposition lacks, or that have other labels or another kind there.

    ``without``: labels whose metrics are omitted.
    """
    families = {family.name: family for family in text_string_to_metric_families(text)}
    found = []
    for labels, names in METRICS.items():
        for name in names.split() if not set(labels) & set(without) else ():
            family = families.get(name)
            if family is None or not family.samples:
                found.append(f"{name} is missing")
            elif family.type != ("summary" if name in SUMMARIES else "gauge"):
                found.append(f"{name} is a {family.type}")
            elif not any(set(sample.labels) == set(labels) for sample in family.samples):
                found.append(f"{name} has the labels {sorted(family.samples[0].labels)}, not {sorted(labels)}")
    return found
