"""Metrics have Pulsar's names and labels."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from magnetar.admin.api import build_app
from magnetar.admin.handlers import brokers
from magnetar.admin.metrics import exposition
from magnetar.base.limits import Limit
from magnetar.base.names import TopicName
from magnetar.base.position import Position
from tests.unit.admin.fake_service import FakeSubscription, FakeTopic, new_service

OBS = TopicName.parse("persistent://nyc/flights/obs")

BROKER = {"cluster": "A"}
NAMESPACE = {"cluster": "A", "namespace": "nyc/flights"}
TOPIC = {**NAMESPACE, "topic": "persistent://nyc/flights/obs"}
SUBSCRIPTION = {**TOPIC, "subscription": "sub"}
LINK = {**TOPIC, "remote_cluster": "B"}


@pytest.fixture(scope="module")
def samples() -> list[tuple[str, dict[str, str], float]]:
    service = new_service()
    service.topics.held[OBS] = FakeTopic([b""] * 5, {"sub": FakeSubscription(Position(3, 1), replicated=True)})
    service.hits.hit(Limit.HANDSHAKE_FRAME_SIZE)
    service.unloadable[TopicName.parse("persistent://nyc/flights/lost")] = "the log ends at 3:8"
    families = text_string_to_metric_families(b"".join(asyncio.run(exposition(service))).decode())
    return [(sample.name, sample.labels, sample.value) for family in families for sample in family.samples]


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("pulsar_broker_topics_count", BROKER, 1),
        ("pulsar_broker_msg_backlog", BROKER, 3),
        ("pulsar_topics_count", NAMESPACE, 1),
        ("pulsar_rate_in", TOPIC, 2),
        ("pulsar_in_messages_total", TOPIC, 5),
        ("pulsar_msg_backlog", TOPIC, 3),
        ("pulsar_storage_backlog_age_seconds", TOPIC, -1),
        ("pulsar_subscription_back_log", SUBSCRIPTION, 3),
        ("pulsar_out_messages_total", SUBSCRIPTION, 0),
        ("pulsar_replication_backlog", LINK, 7),
        ("pulsar_replication_connected_count", LINK, 1),
        ("pulsar_replication_disconnected_count", LINK, 0),
        ("pulsar_replication_delay_in_seconds", LINK, 0),
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
def test_exposed(
    samples: list[tuple[str, dict[str, str], float]], name: str, labels: dict[str, str], value: float
) -> None:
    assert (name, labels, value) in samples


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
