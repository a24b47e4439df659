"""Links and progress links between brokers that have only ports with TLS, and require certificates and tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.geo.helpers import wait_for_backlog, wait_for_entries
from tests.kit.clusters import UP_TIMEOUT_S
from tests.kit.messages import numbered, publish, receive
from tests.kit.secured_clusters import SecureClusters

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.timeout(2 * UP_TIMEOUT_S)]

NAMES = ("ewr", "jfk")
TOPIC = "persistent://geo/secured/orders"


def test_entries_and_progress_pass_with_tls_certificates_and_tokens(tmp_path: Path) -> None:
    with SecureClusters(tmp_path, NAMES) as clusters:
        clusters.make_namespace("geo/secured", NAMES)
        clusters.start_pipeline("--client-conf", str(clusters.conf), "--output", "json")
        clusters.wait_for_pipeline()
        consumer = clusters.client("ewr").subscribe(TOPIC, "s", replicate_subscription_state_enabled=True)
        publish(clusters.client("ewr"), TOPIC, numbered(10))
        wait_for_entries(clusters, TOPIC, 10, NAMES)
        receive(consumer, 10, acknowledge=True)
        wait_for_backlog(clusters, TOPIC, "s", 0, NAMES)
        consumer.close()
        other = clusters.client("jfk").subscribe(TOPIC, "s", replicate_subscription_state_enabled=True)
        publish(clusters.client("jfk"), TOPIC, numbered(10, first=10))
        assert [each.data() for each in receive(other, 10, acknowledge=True)] == numbered(10, first=10)
        wait_for_entries(clusters, TOPIC, 20, NAMES)
        wait_for_backlog(clusters, TOPIC, "s", 0, NAMES)
        for name in NAMES:
            log = clusters.brokers[name].process.log.read_text()
            assert "not_authorized" not in log
            assert "authentication_failed" not in log
