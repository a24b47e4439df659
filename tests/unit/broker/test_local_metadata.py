"""Local changes and the allowed clusters of tenants, through the admin API of a broker with the synchronizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.errors import AdminError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.real import SystemFiles
from magnetar.metadata.policy.table import Policy
from tests.kit.in_process import BrokerInProcess
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ORDERS = NamespaceName("acme", "orders")
SECRET = NamespaceName("acme", "secret")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[AdminClient]:
    settings = {
        "metadataSyncEventTopic": "persistent://pulsar/metadata/events",
        "metadataSyncExcludedResources": "acme/secret",
        "clusterName": "ewr",
    }
    with BrokerInProcess(tmp_path, SystemFiles(), **settings) as broker, AdminClient(broker.admin_url) as found:
        found.clusters.create("jfk", {"serviceUrl": "http://127.0.0.1:1"})
        found.tenants.create("acme", ["ewr", "jfk"], [])
        found.namespaces.create(ORDERS, ["ewr"], 1)
        yield found


def test_a_local_change_is_shown_and_ends(client: AdminClient) -> None:
    client.policies.set(ORDERS, Policy.MESSAGE_TTL, 60)
    with AdminClient(client.url) as local:
        local.keep_changes_local()
        local.policies.set(ORDERS, Policy.MESSAGE_TTL, 5)
        local.namespaces.create(NamespaceName("acme", "mine"), ["ewr"], 1)
    found = {(each["resourceName"], each["field"]): each for each in client.metadata_sync.local()}
    assert list(found) == [("acme/mine", ""), ("acme/orders", "message_ttl_in_seconds")]
    assert (found["acme/orders", "message_ttl_in_seconds"]["here"], client.metadata_sync.status()["localValues"]) == (
        5,
        2,
    )
    client.metadata_sync.remove_local("acme/orders", "message_ttl_in_seconds")
    assert client.policies.get(ORDERS, Policy.MESSAGE_TTL) == 60
    client.metadata_sync.remove_local("acme/mine")
    assert client.metadata_sync.local() == []
    with pytest.raises(AdminError, match="nothing of acme/mine is local"):
        client.metadata_sync.remove_local("acme/mine")
    with pytest.raises(AdminError, match="invalid tenant name"):
        client.metadata_sync.remove_local("a b")


def test_the_namespaces_of_a_tenant_that_does_not_allow_the_cluster_are_dropped(client: AdminClient) -> None:
    names = [ORDERS, SECRET, NamespaceName("acme", "full")]
    for name in names[1:]:
        client.namespaces.create(name, ["ewr"], 1)
    client.topics.create(TopicName.parse("persistent://acme/full/topic"))
    for name in names:
        client.namespaces.set_clusters(name, ["jfk"])
    client.tenants.update("acme", ["jfk"], [])
    kept = names[1:]
    wait_until(lambda: sorted(map(str, client.namespaces.of_tenant("acme"))) == sorted(map(str, kept)), what="the rest")
    wait_until(lambda: client.metadata_sync.status()["strandedNamespaces"] == ["acme/full"], what="the status")
    assert [(each["resourceName"], each["reason"]) for each in client.metadata_sync.local()] == [
        ("acme/orders", "dropped")
    ]
    client.tenants.update("acme", ["ewr", "jfk"], [])
    wait_until(lambda: len(client.namespaces.of_tenant("acme")) == len(names), what="the namespaces")
    assert client.metadata_sync.local() == []


def test_the_fields_of_later_versions_are_shown(client: AdminClient) -> None:
    assert client.metadata_sync.unknown() == []
    with httpx.Client(base_url=f"{client.url}/admin/v2/") as http:
        assert http.put("tenants/later", json={"allowedClusters": ["ewr"], "ofTomorrow": 1}).is_success
    (found,) = client.metadata_sync.unknown()
    assert (found["resourceName"], found["field"], found["value"], found["setBy"]) == ("later", "ofTomorrow", 1, "ewr")
