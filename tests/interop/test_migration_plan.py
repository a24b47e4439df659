"""The plan of a migration from a stock Apache Pulsar, which has only its admin API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pulsar
import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.names import NamespaceName, TopicName
from magnetar.cli.main import ExitCode, main
from magnetar.metadata.policy.table import Policy
from tests.kit.broker import Broker
from tests.kit.clusters import UP_TIMEOUT_S
from tests.kit.messages import connect, numbered, publish

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.pulsar import PulsarStandalone

pytestmark = [pytest.mark.interop, pytest.mark.timeout(4 * UP_TIMEOUT_S)]

ORDERS = NamespaceName("shop", "orders")
EU, US = (TopicName.parse(f"persistent://shop/orders/{name}") for name in ("eu", "us"))
MESSAGES, BACKLOG_MAX = 100, 1_000


def groups(found: dict[str, Any], severity: str) -> dict[str, list[str]]:
    """Return the resources of the findings of a severity, by the area and the beginning of the problem."""
    return {
        f"{each['area']}: {' '.join(each['problem'].split()[:3])}": [one["name"] for one in each["resources"]]
        for each in found["findings"]
        if each["severity"] == severity
    }


def make_tenant(client: AdminClient) -> None:
    """Create a namespace with a policy that has no effect in Magnetar, a small quota, and a partitioned topic."""
    client.tenants.create("shop", ["apache"])
    client.namespaces.create(ORDERS, ["apache"])
    client.policies.set(ORDERS, Policy.COMPACTION_THRESHOLD, 1 << 20)
    client.policies.set_backlog_quota(
        ORDERS, "destination_storage", "consumer_backlog_eviction", limit_size=BACKLOG_MAX
    )
    client.permissions.grant(ORDERS, "r", ["consume"])
    client.topics.create_partitioned(US, 2)


def test_a_plan_from_apache_pulsar(
    apache: PulsarStandalone, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with AdminClient(apache.admin_url) as source:
        make_tenant(source)
    client = connect(apache.service_url)
    consumer = client.subscribe(str(EU), "billing", consumer_type=pulsar.ConsumerType.Shared)
    publish(client, str(EU), [payload * 50 for payload in numbered(MESSAGES, 100)])
    with Broker(tmp_path, "ewr") as magnetar:
        arguments = ["migrate", "plan", "shop", "--from", apache.admin_url, "--to", magnetar.admin_url, "-o", "json"]
        assert main(arguments) is ExitCode.FAILED
        found = json.loads(capsys.readouterr().out)
        assert "shop" not in magnetar.rest.get("tenants"), "a plan changes nothing"
    consumer.close()
    client.close()
    assert (found["source"], found["target"], found["namespaces"]) == ("apache", "ewr", 1)
    assert (found["topics"], found["subscriptions"]) == (3, 1)
    assert found["storageBytes"] > MESSAGES * 150
    blockers, warnings = groups(found, "blocker"), groups(found, "warning")
    assert blockers == {
        "clusters: apache is not": ["ewr"],
        "quotas: the backlog exceeds": [str(EU)],
    }
    assert warnings["subscriptions: Apache Pulsar does"] == ["apache"]
    assert warnings["policies: compaction_threshold is stored"] == [str(ORDERS)]
    assert warnings["permissions: permissions are stored"] == [str(ORDERS)]
    (version,) = {each["version"] for each in found["clients"]}
    assert version.startswith("Pulsar-CPP-")
