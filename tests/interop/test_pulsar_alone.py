"""Apache Pulsar alone, with the official client and Magnetar's command line, which uses the same admin API."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.kit.clusters import MAGNETAR
from tests.kit.messages import connect, numbered, publish, receive_data

if TYPE_CHECKING:
    from tests.kit.pulsar import PulsarStandalone
    from tests.kit.rest import Json

pytestmark = pytest.mark.interop

COMMAND_TIMEOUT_S = 30


def magnetar(apache: PulsarStandalone, line: str) -> Json:
    """Run a command against Apache Pulsar; return its JSON output."""
    done = subprocess.run(
        [*MAGNETAR, *line.split(), "--output", "json"],
        env={**os.environ, "MAGNETAR_ADMIN_URL": apache.admin_url},
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else None


def test_the_official_client_publishes_and_consumes(apache: PulsarStandalone) -> None:
    topic = "persistent://public/default/greetings"
    client = connect(apache.service_url)
    consumer = client.subscribe(topic, "all")
    publish(client, topic, numbered(100))
    assert receive_data(consumer, 100, acknowledge=True) == numbered(100)
    client.close()


def test_tenants_and_namespaces(apache: PulsarStandalone) -> None:
    magnetar(apache, "tenants create shop --allowed-clusters apache")
    assert "shop" in magnetar(apache, "tenants list")
    assert magnetar(apache, "tenants get shop")["allowedClusters"] == ["apache"]
    magnetar(apache, "namespaces create shop/orders")
    assert magnetar(apache, "namespaces list shop") == ["shop/orders"]
    magnetar(apache, "namespaces set-clusters shop/orders --clusters apache")
    assert magnetar(apache, "namespaces get-clusters shop/orders") == ["apache"]
    magnetar(apache, "namespaces delete shop/orders --force")
    magnetar(apache, "tenants delete shop --force")
    assert "shop" not in magnetar(apache, "tenants list")


def test_topics_and_their_stats(apache: PulsarStandalone) -> None:
    topic = "persistent://public/default/counted"
    magnetar(apache, f"topics create {topic}")
    assert topic in magnetar(apache, "topics list public/default")
    client = connect(apache.service_url)
    consumer = client.subscribe(topic, "some", initial_position=pulsar.InitialPosition.Earliest)
    publish(client, topic, numbered(10))
    receive_data(consumer, 4, acknowledge=True)
    consumer.close()
    client.close()
    stats = magnetar(apache, f"topics stats {topic}")
    assert stats["msgInCounter"] == 10
    assert stats["subscriptions"]["some"]["msgBacklog"] == 6
    assert magnetar(apache, f"topics stats-internal {topic}")["entriesAddedCounter"] == 10
    magnetar(apache, f"topics delete {topic} --force")
    assert topic not in magnetar(apache, "topics list public/default")
