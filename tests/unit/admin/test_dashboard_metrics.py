"""The metrics that the usual dashboards for Apache Pulsar use: names, labels and kinds."""

from __future__ import annotations

import asyncio

from magnetar.admin.metrics.exposition import exposition
from tests.kit.dashboard_metrics import METRICS, differences
from tests.unit.admin.exposed import fake_broker


def text() -> str:
    return b"".join(asyncio.run(exposition(fake_broker()))).decode()


def test_all_are_exposed() -> None:
    assert differences(text()) == []


def test_a_difference_is_found() -> None:
    changed = text().replace("# TYPE pulsar_rate_in gauge", "# TYPE pulsar_rate_in untyped")
    changed = changed.replace("pulsar_msg_backlog", "pulsar_msg_back_log").replace("consumer_id=", "consumer=")
    found = differences(changed)
    assert "pulsar_msg_backlog is missing" in found
    assert len(found) == 2 + len(
        METRICS["cluster", "namespace", "topic", "subscription", "consumer_name", "consumer_id"].split()
    )
