"""Metrics of Apache Pulsar: the list that Magnetar is compared with, and the figures under the same known load."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.dashboard_metrics import differences
from tests.kit.known_load import BATCHED, INTERVAL_S, SINGLE, Measured, Scrape, measure
from tests.kit.pulsar import PulsarStandalone

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.interop

SETTINGS = {
    "exposeConsumerLevelMetricsInPrometheus": "true",
    "exposeProducerLevelMetricsInPrometheus": "true",
    "managedLedgerStatsPeriodSeconds": int(INTERVAL_S),
    "statsUpdateFrequencyInSecs": int(INTERVAL_S),
    "statsUpdateInitialDelayInSecs": 1,
}


@pytest.fixture(scope="module")
def measured(peer: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    with PulsarStandalone(tmp_path_factory.mktemp("measured"), settings=SETTINGS) as pulsar:
        yield measure(pulsar)


def test_the_list_of_metrics_is_that_of_apache_pulsar(measured: Measured) -> None:
    assert differences(measured.text, without=["remote_cluster"]) == []


def test_figures_have_the_same_meaning(measured: Measured) -> None:
    """What ``tests/conformance/test_known_load.py`` expects of Magnetar, as far as both count the same."""
    scrape = Scrape(measured.text)
    shared = {"topic": SINGLE, "subscription": "shared"}
    assert measured.single.explains(scrape.value("pulsar_rate_in", {"topic": SINGLE}))
    assert measured.single.explains(scrape.value("pulsar_storage_write_rate", {"topic": SINGLE}))
    assert measured.single.explains(scrape.value("pulsar_entry_size_le_4_kb", {"topic": SINGLE}) / INTERVAL_S)
    assert measured.batched.explains(scrape.value("pulsar_rate_in", {"topic": BATCHED}))
    assert measured.shared.explains(scrape.value("pulsar_consumer_msg_ack_rate", {**shared, "consumer_name": "c"}))
    assert measured.shared.explains(scrape.value("pulsar_subscription_msg_ack_rate", shared))
