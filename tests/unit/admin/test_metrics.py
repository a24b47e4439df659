"""Metrics have Pulsar's names and labels."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from magnetar.admin.api import build_app
from magnetar.admin.handlers import brokers
from magnetar.admin.metrics import links
from magnetar.admin.metrics.exposition import exposition
from magnetar.admin.metrics.options import MetricsOptions
from magnetar.admin.metrics.table import Table
from magnetar.admin.models.topics import ReplicatorStats
from magnetar.base.names import TopicName
from magnetar.base.position import Position
from tests.unit.admin.exposed import ALL, OBS, Sample, exposed
from tests.unit.admin.fake_service import FakeSubscription, FakeTopic, new_service

BROKER = {"cluster": "A"}
NAMESPACE = {"cluster": "A", "namespace": "nyc/flights"}
TOPIC = {**NAMESPACE, "topic": "persistent://nyc/flights/obs"}
SUBSCRIPTION = {**TOPIC, "subscription": "sub"}
LINK = {**TOPIC, "remote_cluster": "B"}


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return exposed(MetricsOptions(), OBS)


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("pulsar_broker_topics_count", BROKER, 1),
        ("pulsar_broker_msg_backlog", BROKER, 3),
        ("pulsar_topics_count", NAMESPACE, 1),
        ("pulsar_rate_in", TOPIC, 1.5),
        ("pulsar_broker_rate_in", BROKER, 1.5),
        ("pulsar_broker_out_bytes_total", {**BROKER, "system_subscription": "false"}, 70),
        ("pulsar_broker_storage_read_rate", BROKER, 4),
        ("pulsar_storage_write_rate", TOPIC, 2),
        ("pulsar_storage_read_rate", TOPIC, 4),
        ("pulsar_storage_read_cache_misses_rate", TOPIC, 1),
        ("pulsar_ml_cache_hits_rate", BROKER, 3),
        ("pulsar_ml_cache_misses_rate", BROKER, 1),
        ("pulsar_ml_cache_used_size", BROKER, 9),
        ("pulsar_storage_write_latency_le_10", TOPIC, 0),
        ("pulsar_storage_write_latency_le_20", TOPIC, 2),
        ("pulsar_storage_write_latency_le_50", TOPIC, 0),
        ("pulsar_storage_write_latency_count", TOPIC, 2),
        ("pulsar_storage_write_latency_sum", TOPIC, 25_000),
        ("pulsar_entry_size_le_128", TOPIC, 1),
        ("pulsar_entry_size_le_16_kb", TOPIC, 1),
        ("pulsar_entry_size_count", TOPIC, 2),
        ("pulsar_entry_size_sum", TOPIC, 5100),
        ("pulsar_version_info", {**BROKER, "version": "4.0.7"}, 1),
        ("pulsar_active_connections", {**BROKER, "metric": "broker_connection"}, 2),
        ("pulsar_connection_created_total_count", {**BROKER, "metric": "broker_connection"}, 5),
        ("pulsar_connection_create_success_count", {**BROKER, "metric": "broker_connection"}, 4),
        ("pulsar_connection_create_fail_count", {**BROKER, "metric": "broker_connection"}, 1),
        ("pulsar_connection_closed_total_count", {**BROKER, "metric": "broker_connection"}, 3),
        ("pulsar_broker_publish_latency", {**BROKER, "quantile": "0.0"}, 0),
        ("pulsar_broker_publish_latency", {**BROKER, "quantile": "0.95"}, 11_875),
        ("pulsar_broker_publish_latency", {**BROKER, "quantile": "1.0"}, 12_375),
        ("pulsar_broker_publish_latency_count", BROKER, 100),
        ("pulsar_broker_publish_latency_sum", BROKER, 618_750),
        ("pulsar_subscription_msg_ack_rate", SUBSCRIPTION, 1.25),
        ("pulsar_subscription_last_acked_timestamp", SUBSCRIPTION, 1_700_000_000_000),
        ("pulsar_replication_rate_in", LINK, 0.5),
        ("pulsar_in_messages_total", TOPIC, 5),
        ("pulsar_msg_backlog", TOPIC, 3),
        ("pulsar_storage_backlog_age_seconds", TOPIC, -1),
        ("pulsar_subscription_back_log", SUBSCRIPTION, 3),
        ("pulsar_out_messages_total", SUBSCRIPTION, 0),
        ("pulsar_replication_backlog", LINK, 7),
        ("pulsar_replication_connected_count", LINK, 1),
        ("pulsar_replication_disconnected_count", LINK, 0),
        ("pulsar_replication_delay_in_seconds", LINK, 0),
        ("magnetar_metadata_sync_connected", BROKER, 0),
        ("magnetar_metadata_sync_unpublished_events", BROKER, 2),
        ("magnetar_metadata_sync_stranded_topics", BROKER, 6),
        ("magnetar_metadata_sync_applied_events_total", BROKER, 3),
        ("magnetar_metadata_sync_refused_events_total", BROKER, 1),
        ("magnetar_metadata_sync_conflicts_total", BROKER, 4),
        ("magnetar_metadata_sync_local_values", BROKER, 1),
        ("magnetar_metadata_sync_newest_event_age_seconds", {**BROKER, "remote_cluster": "B"}, 1.5),
        ("magnetar_at_risk_messages", TOPIC, 12),
        ("magnetar_withheld_receipts", TOPIC, 5),
        ("magnetar_publishing_throttled", TOPIC, 1),
        ("magnetar_deduplicated_entries_total", TOPIC, 4),
        ("magnetar_deduplication_producers", TOPIC, 9),
        ("magnetar_replication_handovers_total", LINK, 3),
        ("magnetar_subscription_ack_ranges", SUBSCRIPTION, 12),
        ("magnetar_subscription_ack_state_used_ratio", SUBSCRIPTION, 1.2),
        ("magnetar_subscription_ack_state_blocked", SUBSCRIPTION, 1),
        ("magnetar_subscription_unpersisted_acks", SUBSCRIPTION, 4),
        ("pulsar_replicated_subscriptions_pending_snapshots", BROKER, 1),
        ("pulsar_replicated_subscriptions_timedout_snapshots_total", BROKER, 2),
        ("pulsar_replicated_subscriptions_snapshot_ms_count", BROKER, 3),
        ("pulsar_replicated_subscriptions_snapshot_ms_sum", BROKER, 45),
        ("magnetar_topic_load_failed", {**NAMESPACE, "topic": "persistent://nyc/flights/lost"}, 1),
        ("magnetar_progress_age_seconds", {**SUBSCRIPTION, "remote_cluster": "B"}, 1.5),
        ("magnetar_progress_unconfirmed_entries", {**SUBSCRIPTION, "remote_cluster": "B"}, 8),
        ("magnetar_progress_lost_entries", {**SUBSCRIPTION, "remote_cluster": "B"}, 6),
        ("magnetar_limit_hits_total", {**BROKER, "limit": "maxHandshakeFrameSize"}, 1),
        ("magnetar_limit_hits_total", {**BROKER, "limit": "maxConcurrentConnections"}, 0),
        ("magnetar_loop_stall_seconds_bucket", {**BROKER, "le": "0.1"}, 2),
        ("magnetar_loop_stall_seconds_count", BROKER, 3),
        ("magnetar_loop_stall_seconds_sum", BROKER, 1.5),
        ("magnetar_storage_commit_seconds_bucket", {**BROKER, "le": "0.0025"}, 0),
        ("magnetar_storage_commit_seconds_bucket", {**BROKER, "le": "0.005"}, 1),
        ("magnetar_metadata_commit_seconds_bucket", {**BROKER, "le": "0.25"}, 0),
        ("magnetar_metadata_commit_seconds_bucket", {**BROKER, "le": "0.5"}, 1),
        ("magnetar_memory_bytes", {**BROKER, "share": "publishes"}, 3),
        ("magnetar_memory_limit_bytes", {**BROKER, "share": "publishes"}, 60),
    ],
)
def test_exposed(samples: list[Sample], name: str, labels: dict[str, str], value: float) -> None:
    assert (name, labels, value) in samples


def names_of(samples: list[Sample]) -> set[str]:
    return {name for name, _, _ in samples}


def test_unknown_values_are_absent(samples: list[Sample]) -> None:
    assert "pulsar_subscription_last_expire_timestamp" not in names_of(samples)
    clusters = {labels["remote_cluster"] for name, labels, _ in samples if name == "magnetar_progress_lost_entries"}
    assert clusters == {"B"}


def test_the_process(samples: list[Sample]) -> None:
    values = {name: value for name, labels, value in samples if labels == BROKER}
    assert values["process_resident_memory_bytes"] > 0
    assert values["process_cpu_seconds_total"] > 0
    assert values["process_open_fds"] > 0


def test_every_metric_has_a_help_text_and_its_samples_are_consecutive() -> None:
    service = new_service()
    service.topics.held[OBS] = FakeTopic([], {"sub": FakeSubscription(Position(3, 1), replicated=True)})
    families = list(text_string_to_metric_families(b"".join(asyncio.run(exposition(service))).decode()))
    assert len({family.name for family in families}) == len(families)
    assert [family.name for family in families if not family.documentation] == []


def test_producers_and_consumers_on_request() -> None:
    without = names_of(exposed(MetricsOptions(), OBS))
    assert not [name for name in without if name.startswith(("pulsar_consumer_", "pulsar_producer_"))]
    samples = exposed(ALL)
    consumer = {**SUBSCRIPTION, "consumer_name": "c", "consumer_id": "7"}
    producer = {**TOPIC, "producer_name": "p", "producer_id": "3"}
    assert ("pulsar_consumer_msg_rate_out", consumer, 1.5) in samples
    assert ("pulsar_consumer_unacked_messages", consumer, 6) in samples
    assert ("pulsar_producer_msg_rate_in", producer, 2) in samples
    assert ("pulsar_producer_msg_average_Size", producer, 10) in samples


def test_a_partition_with_its_index_as_a_label() -> None:
    samples = exposed(MetricsOptions(split_partition=True), OBS, OBS.partition(4))
    assert ("pulsar_rate_in", {**TOPIC, "partition": "-1"}, 1.5) in samples
    assert ("pulsar_rate_in", {**TOPIC, "partition": "4"}, 1.5) in samples


def test_topics_of_a_namespace_are_combined() -> None:
    samples = exposed(MetricsOptions(by_topic=False), OBS, TopicName.parse("persistent://nyc/flights/other"))
    link = {**NAMESPACE, "remote_cluster": "B"}
    assert ("pulsar_topics_count", NAMESPACE, 2) in samples
    assert ("pulsar_rate_in", NAMESPACE, 3) in samples
    assert ("pulsar_out_messages_total", NAMESPACE, 0) in samples
    assert ("pulsar_entry_size_count", NAMESPACE, 4) in samples
    assert ("pulsar_replication_backlog", link, 14) in samples
    assert ("magnetar_progress_age_seconds", link, 1.5) in samples
    assert ("magnetar_deduplicated_entries_total", NAMESPACE, 8) in samples
    assert ("magnetar_replication_handovers_total", link, 6) in samples
    assert ("pulsar_broker_rate_in", BROKER, 3) in samples
    of_topics = {name for name, labels, _ in samples if "topic" in labels}
    assert of_topics == {"magnetar_topic_load_failed"}
    assert "pulsar_subscription_last_acked_timestamp" not in names_of(samples)


@pytest.mark.parametrize("known_first", [True, False])
def test_a_backlog_that_is_unknown_for_one_topic_is_unknown_for_the_namespace(*, known_first: bool) -> None:
    known = ReplicatorStats(replication_backlog=5, replication_delay_in_seconds=1)
    unknown = ReplicatorStats(replication_backlog=None, replication_delay_in_seconds=None)
    table = Table(links.LINK)
    for stats in (known, unknown, known) if known_first else (unknown, known, known):
        table.add('namespace="n"', stats)
    text = b"".join(table.chunks()).decode()
    assert "pulsar_replication_connected_count{" in text
    assert "pulsar_replication_backlog{" not in text
    assert "pulsar_replication_delay_in_seconds{" not in text


def test_those_who_ask_while_metrics_are_gathered_share_what_is_gathered_next(monkeypatch: pytest.MonkeyPatch) -> None:
    service, scrapes = new_service(), list[int]()
    transport = httpx.ASGITransport(build_app(service, service.resources))

    async def gather(_service: object) -> list[bytes]:
        number = len(scrapes)
        scrapes.append(number)
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turn.set_result, None)
        await turn
        return [f"{number}".encode()]

    monkeypatch.setattr(brokers, "exposition", gather)

    async def ask() -> list[str]:
        async with httpx.AsyncClient(transport=transport, base_url="http://broker") as client:
            answers = await asyncio.gather(*[client.get("/metrics/") for _ in range(20)])
            return [each.text for each in answers] + [(await client.get("/metrics/")).text]

    *together, alone = asyncio.run(ask())
    assert len(set(together)) <= 2
    assert alone == str(len(scrapes) - 1)
    assert len(scrapes) == len(set(together)) + 1


def test_a_stored_answer_is_reused_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    service, scrapes = new_service(), list[int]()
    service.metrics_options = MetricsOptions(reused_s=10)

    async def gather(_service: object) -> list[bytes]:
        scrapes.append(len(scrapes))
        return [f"{scrapes[-1]}".encode()]

    monkeypatch.setattr(brokers, "exposition", gather)

    async def ask() -> list[str]:
        transport = httpx.ASGITransport(build_app(service, service.resources))
        answers = []
        async with httpx.AsyncClient(transport=transport, base_url="http://broker") as client:
            for now in (100.0, 109.9, 110.0):
                monkeypatch.setattr(brokers, "monotonic", lambda now=now: now)
                answers.append((await client.get("/metrics/")).text)
        return answers

    assert asyncio.run(ask()) == ["0", "0", "1"]
