"""Each figure of the dashboards is within 5 % of a known load."""

from __future__ import annotations

import pytest

from tests.kit.broker import Broker
from tests.kit.known_load import BATCHED, INTERVAL_S, SINGLE, SIZE, TOLERANCE, Measured, Scrape, measure

CLIENTS = {"exposeConsumerLevelMetricsInPrometheus": True, "exposeProducerLevelMetricsInPrometheus": True}

OF_SINGLE, OF_BATCHED = {"topic": SINGLE}, {"topic": BATCHED}
SHARED, TWICE = {**OF_SINGLE, "subscription": "shared"}, {**OF_SINGLE, "subscription": "twice"}
EXCLUSIVE, LEFT = {**OF_BATCHED, "subscription": "exclusive"}, {**OF_BATCHED, "subscription": "left"}
PRODUCER, CONSUMER = {**OF_SINGLE, "producer_name": "p"}, {**SHARED, "consumer_name": "c"}

BATCHES_PER_SECOND_MAX = 12
LATEST_MS = 3000
"""Maximum age of the newest message, in milliseconds."""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    with Broker(tmp_path_factory.mktemp("measured"), settings=CLIENTS) as broker:
        return measure(broker)


@pytest.fixture(scope="module")
def scrape(measured: Measured) -> Scrape:
    return Scrape(measured.text)


def near(value: float, expected: float) -> bool:
    return expected * (1 - TOLERANCE) <= value <= expected * (1 + TOLERANCE)


def test_publishing(measured: Measured, scrape: Scrape) -> None:
    single, rate_in = measured.single, scrape.value("pulsar_rate_in", OF_SINGLE)
    assert single.explains(rate_in)
    assert single.explains(scrape.value("pulsar_storage_write_rate", OF_SINGLE))
    assert single.explains(scrape.value("pulsar_entry_size_le_4_kb", OF_SINGLE) / INTERVAL_S)
    assert single.explains(scrape.value("pulsar_storage_write_latency_count", OF_SINGLE) / INTERVAL_S)
    assert single.explains(scrape.value("pulsar_producer_msg_rate_in", PRODUCER))
    assert near(scrape.value("pulsar_throughput_in", OF_SINGLE), rate_in * SIZE)
    assert near(scrape.value("pulsar_average_msg_size", OF_SINGLE), SIZE)
    assert measured.batched.explains(scrape.value("pulsar_rate_in", OF_BATCHED))
    assert scrape.value("pulsar_storage_write_rate", OF_BATCHED) < BATCHES_PER_SECOND_MAX


def test_consuming(measured: Measured, scrape: Scrape) -> None:
    rate, acked = "pulsar_subscription_msg_rate_out", "pulsar_subscription_msg_ack_rate"
    again = "pulsar_subscription_msg_rate_redeliver"
    assert measured.shared.explains(scrape.value(rate, SHARED))
    assert measured.shared.explains(scrape.value(acked, SHARED))
    assert measured.shared.explains(scrape.value("pulsar_consumer_msg_rate_out", CONSUMER))
    assert measured.shared.explains(scrape.value("pulsar_consumer_msg_ack_rate", CONSUMER))
    assert scrape.value(again, SHARED) == 0
    assert measured.twice.explains(scrape.value(rate, TWICE))
    assert measured.again.explains(scrape.value(again, TWICE))
    assert measured.again.explains(scrape.value(acked, TWICE))
    assert measured.exclusive.explains(scrape.value(rate, EXCLUSIVE))
    assert measured.exclusive.explains(scrape.value(acked, EXCLUSIVE))


@pytest.mark.parametrize("name", ["consumed", "acked", "mark_delete_advanced"])
def test_times(measured: Measured, scrape: Scrape, name: str) -> None:
    for subscription in (SHARED, TWICE, EXCLUSIVE):
        at_ms = scrape.value(f"pulsar_subscription_last_{name}_timestamp", subscription)
        assert measured.at_ms - LATEST_MS < at_ms < measured.at_ms


def test_counters(measured: Measured, scrape: Scrape) -> None:
    assert scrape.value("pulsar_producers_count", OF_SINGLE) == 1
    assert scrape.value("pulsar_consumers_count", OF_SINGLE) == len((SHARED, TWICE))
    assert scrape.value("pulsar_subscription_consumers_count", LEFT) == 0
    assert scrape.value("pulsar_subscription_back_log", LEFT) > 0
    assert near(scrape.value("pulsar_in_messages_total", OF_SINGLE), len(measured.single.times))
    assert near(scrape.value("pulsar_out_messages_total", SHARED), len(measured.shared.times))


@pytest.mark.parametrize(
    "name",
    [
        *("rate_in", "rate_out", "throughput_in", "throughput_out", "storage_write_rate"),
        *("producers_count", "consumers_count", "subscriptions_count", "storage_size", "msg_backlog"),
    ],
)
def test_sums_of_the_broker(scrape: Scrape, name: str) -> None:
    of_both = sum(scrape.value(f"pulsar_{name}", topic) for topic in (OF_SINGLE, OF_BATCHED))
    assert near(scrape.value(f"pulsar_broker_{name}", {}), of_both)


def test_stats(measured: Measured) -> None:
    stats = measured.stats
    (consumer,) = stats["subscriptions"]["twice"]["consumers"]
    (producer,) = stats["publishers"]
    assert measured.single.explains(stats["msgRateIn"])
    assert measured.single.explains(producer["msgRateIn"])
    assert near(producer["averageMsgSize"], SIZE)
    assert measured.twice.explains(consumer["msgRateOut"])
    assert measured.again.explains(consumer["msgRateRedeliver"])
    assert measured.again.explains(consumer["messageAckRate"])
