"""Each figure of the dashboards is within 5 % of a known load, in the source and in the target of a link."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.kit.clusters import UP_TIMEOUT_S
from tests.kit.known_load import LOAD_S, KnownLoad, Scrape
from tests.kit.messages import publish, receive
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.kit.clusters import Up

pytestmark = pytest.mark.timeout(300)

PER_SECOND, SIZE = 50, 300
LATEST_MS = 5000


def test_metrics_of_a_link(up: Up, topic: str) -> None:
    source, target = up.client("ewr"), up.client("jfk")
    consumer = target.subscribe(topic, "s", replicate_subscription_state_enabled=True)
    publish(source, topic, [b"first"])
    receive(consumer, 1, acknowledge=True)
    wait_until(lambda: "s" in up.rest("ewr").stats(topic)["subscriptions"], UP_TIMEOUT_S, what="s in ewr")
    with KnownLoad() as load:
        received = load.consume(consumer)
        sent = load.publish(source.create_producer(topic), PER_SECOND, SIZE)
        time.sleep(LOAD_S)
        in_source, in_target = (Scrape(up.rest(name).metrics()) for name in ("ewr", "jfk"))
        now_ms = time.time() * 1000
        stats = up.rest("jfk").stats(topic)
        sent_now = len(sent.times)
    link, from_link = {"topic": topic, "remote_cluster": "jfk"}, {"topic": topic, "remote_cluster": "ewr"}
    subscription = {"topic": topic, "subscription": "s"}

    assert sent.explains(in_source.value("pulsar_rate_in", {"topic": topic}))
    assert sent.explains(in_source.value("pulsar_replication_rate_out", link))
    assert in_source.value("pulsar_replication_connected_count", link) == 1
    assert in_source.value("pulsar_replication_backlog", link) < PER_SECOND
    assert now_ms - LATEST_MS < in_source.value("pulsar_subscription_last_mark_delete_advanced_timestamp", subscription)
    assert in_source.value("pulsar_subscription_msg_rate_out", subscription) == 0

    assert received.explains(in_target.value("pulsar_replication_rate_in", from_link))
    assert in_target.value("pulsar_replication_throughput_in", from_link) > SIZE * PER_SECOND / 2
    assert in_target.value("pulsar_rate_in", {"topic": topic}) == 0, "no producer publishes here"
    assert received.explains(in_target.value("pulsar_storage_write_rate", {"topic": topic}))
    assert received.explains(in_target.value("pulsar_subscription_msg_rate_out", subscription))
    assert received.explains(in_target.value("pulsar_subscription_msg_ack_rate", subscription))
    assert abs(in_target.value("pulsar_in_messages_total", {"topic": topic}) - sent_now) < PER_SECOND
    assert received.explains(stats["msgRateIn"])
    assert received.explains(stats["replication"]["ewr"]["msgRateIn"])
