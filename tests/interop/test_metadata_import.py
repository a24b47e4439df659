"""The metadata of Apache Pulsar are imported completely, once: afterwards there is no difference."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.admin.client import AdminClient
from magnetar.admin.cluster_metadata.reading import read_metadata
from magnetar.base.names import NamespaceName, TopicName
from magnetar.cli.main import ExitCode, main
from magnetar.metadata.policy.table import Policy
from tests.kit.broker import Broker
from tests.kit.clusters import UP_TIMEOUT_S
from tests.kit.policy_samples import BACKLOG_QUOTAS, policy_samples
from tests.kit.pulsar import PulsarStandalone
from tests.kit.wait import wait_until
from tests.unit.schema.definitions import ADDED_REQUIRED, OPTIONAL, REQUIRED, record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.timeout(4 * UP_TIMEOUT_S)]

TENANTS = ("acme", "media", "shop")
NAMESPACES = [NamespaceName(TENANTS[number % len(TENANTS)], f"n{number}") for number in range(20)]
WITH_TOPICS = NAMESPACES[:6]
"""Namespaces with topics. They have no policies of storage that their topics could not be opened with."""

NOT_FOR_TOPICS = frozenset({Policy.OFFLOAD_POLICIES, Policy.OFFLOAD_THRESHOLD, Policy.OFFLOAD_THRESHOLD_IN_SECONDS})
SUBSCRIPTION = "billing"
RATE = {"dispatchThrottlingRateInMsg": 7, "dispatchThrottlingRateInByte": 8}
SCHEMAS = [
    {"type": "AVRO", "schema": record(*fields).decode(), "properties": {"owner": "ops"}}
    for fields in ([REQUIRED], [REQUIRED, OPTIONAL], [ADDED_REQUIRED])
]
"""Three versions, of which the last one is not compatible with the others."""


@pytest.fixture(scope="module")
def clusters(peer: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PulsarStandalone, Broker]]:
    directory = tmp_path_factory.mktemp("import")
    with PulsarStandalone(directory / "apache", "apache") as apache, Broker(directory / "ewr", "ewr") as magnetar:
        client = AdminClient(apache.admin_url)
        for tenant in TENANTS:
            client.tenants.create(tenant, ["apache"], ["b", "a"])
        for number, namespace in enumerate(NAMESPACES):
            client.namespaces.create(namespace, ["apache"], number + 1)
            set_policies(client, namespace, number)
        for number, namespace in enumerate(WITH_TOPICS):
            make_topics(client, namespace, number)
        client.close()
        yield apache, magnetar


def set_policies(client: AdminClient, namespace: NamespaceName, number: int) -> None:
    """Set every policy of a namespace."""
    for policy, value in policy_samples(number).items():
        if policy.namespace is not None and not (namespace in WITH_TOPICS and policy in NOT_FOR_TOPICS):
            client.policies.set(namespace, policy, value)
    for kind, quota in BACKLOG_QUOTAS.items():
        client.policies.set_backlog_quota(namespace, kind, **quota)  # type: ignore[arg-type]
    client.namespaces.set_auto_update_of_schemas(namespace, allowed=False)
    client.permissions.grant(namespace, f"role{number}", ["produce", "consume"])
    client.permissions.grant_for_subscription(namespace, SUBSCRIPTION, ["r", "q"])
    client.properties.update(namespace, {"number": str(number), "team": "data"})
    client.placement.set_anti_affinity_group(namespace, f"g{number}")
    client.placement.set_bookie_affinity_group(namespace, {"bookkeeperAffinityGroupPrimary": "p"})


def make_topics(client: AdminClient, namespace: NamespaceName, number: int) -> None:
    """Create two partitioned topics and one without partitions, with every policy of topics and with schemas."""
    partitioned, plain, single = (
        TopicName("persistent", *names(namespace), name) for name in ("parts", "plain", "single")
    )
    client.topics.create_partitioned(partitioned, number + 1)
    client.properties.update(partitioned, {"k": "v"})
    client.topics.create_partitioned(plain, 2)
    client.topics.create(single, {"a": "b"})
    for topic in (partitioned, single):
        for policy, value in policy_samples(number).items():
            if policy.topic is not None and policy not in NOT_FOR_TOPICS:
                client.policies.set(topic, policy, value)
        for kind, quota in BACKLOG_QUOTAS.items():
            client.policies.set_backlog_quota(topic, kind, **quota)  # type: ignore[arg-type]
        client.permissions.grant(topic, "r", ["consume"])
    client.policies.set(plain, Policy.OFFLOAD_POLICIES, policy_samples(number)[Policy.OFFLOAD_POLICIES])
    client.subscriptions.create(single, SUBSCRIPTION)
    client.topic_documents.set_dispatch_rate(single, SUBSCRIPTION, RATE)
    client.policies.set(partitioned, Policy.SCHEMA_COMPATIBILITY_STRATEGY, "ALWAYS_COMPATIBLE")
    client.policies.set(namespace, Policy.SCHEMA_COMPATIBILITY_STRATEGY, "ALWAYS_COMPATIBLE")
    for schema in SCHEMAS:
        client.schemas.upload(partitioned, schema)
    client.policies.set(partitioned, Policy.SCHEMA_COMPATIBILITY_STRATEGY, "FULL")
    client.policies.set(namespace, Policy.SCHEMA_COMPATIBILITY_STRATEGY, "BACKWARD")
    client.schemas.upload(single, {"type": "STRING", "schema": "", "properties": {}})


def names(namespace: NamespaceName) -> tuple[str, str]:
    return namespace.tenant, namespace.namespace


def import_once(
    clusters: tuple[PulsarStandalone, Broker], capsys: pytest.CaptureFixture[str], *options: str
) -> dict[str, Any]:
    apache, magnetar = clusters
    command = ["metadata", "import", "--from", apache.admin_url, "--admin-url", magnetar.admin_url, "--output", "json"]
    code = main([*command, *options])
    captured = capsys.readouterr()
    assert code is ExitCode.DONE, captured
    found: dict[str, Any] = json.loads(captured.out)
    return found


def test_everything_is_imported_once(
    clusters: tuple[PulsarStandalone, Broker], capsys: pytest.CaptureFixture[str]
) -> None:
    apache, magnetar = clusters
    planned = import_once(clusters, capsys, "--dry-run")
    started = time.monotonic()
    made = import_once(clusters, capsys)
    taken_s = time.monotonic() - started
    assert made["refused"] == []
    assert made["changes"] == planned["changes"]
    others = {each["resourceType"] for each in made["notImported"]}
    assert {"tenant", "bookie"} <= others <= {"tenant", "bookie", "subscriptions of a topic"}

    assert main(["metadata", "diff", apache.admin_url, magnetar.admin_url, "--rename", "apache=ewr", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"equal": True, "differences": []}
    again = import_once(clusters, capsys)
    assert (again["changes"], again["refused"]) == ([], [])

    with AdminClient(apache.admin_url) as source, AdminClient(magnetar.admin_url) as target:
        read, known = read_metadata(source), read_metadata(target)
    assert len(read.resources) > 3 + 20 + 2 * len(WITH_TOPICS)
    assert (known.placements, known.properties) == (read.placements, read.properties)
    assert len(known.schemas) == 2 * len(WITH_TOPICS)
    for topic, versions in read.schemas.items():
        assert [without_time(each) for each in known.schemas[topic]] == [without_time(each) for each in versions]
    print(f"{len(made['changes'])} changes in {taken_s:.1f} s")  # noqa: T201


def test_an_import_goes_on_after_it_was_killed(
    clusters: tuple[PulsarStandalone, Broker], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    apache, _ = clusters
    with Broker(tmp_path / "lhr", "lhr") as target:
        totals = [total_of_killed_import(apache, target) for _ in range(3)]
        assert totals[0] > totals[1] > totals[2]

        made = import_once((apache, target), capsys)
        assert 0 < len(made["changes"]) < totals[2]
        assert made["refused"] == []
        assert main(["metadata", "diff", apache.admin_url, target.admin_url, "--rename", "apache=lhr"]) == 0


def total_of_killed_import(apache: PulsarStandalone, target: Broker) -> int:
    """Kill an import when it has made some changes; return the number of changes that it had to make."""
    command = ["metadata", "import", "--from", apache.admin_url, "--admin-url", target.admin_url]
    with subprocess.Popen(
        [sys.executable, "-m", "magnetar.cli.main", *command], stderr=subprocess.PIPE, text=True
    ) as importing:
        assert importing.stderr is not None
        events = map(json.loads, importing.stderr)
        progress = next(event for event in events if event["event"] == "metadata_imported")
        importing.kill()
    assert importing.returncode == -signal.SIGKILL
    return int(progress["total"])


def without_time(version: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in version.items() if name != "timestamp"}


def test_later_changes_are_imported(
    clusters: tuple[PulsarStandalone, Broker], capsys: pytest.CaptureFixture[str]
) -> None:
    apache, _ = clusters
    import_once(clusters, capsys)
    namespace, topic = WITH_TOPICS[0], TopicName("persistent", *names(WITH_TOPICS[0]), "parts")
    with AdminClient(apache.admin_url) as client:
        client.policies.set(namespace, Policy.MESSAGE_TTL, 1)
        client.policies.remove(namespace, Policy.MAX_PRODUCERS)
        client.policies.remove(topic, Policy.MESSAGE_TTL)
        client.topics.update_partitioned(topic, 5)
        client.permissions.revoke(namespace, "role0")
        wait_until(lambda: client.policies.get(topic, Policy.MESSAGE_TTL) is None, 10, what="the removal of a policy")
    found = {(each["field"], each["after"]) for each in import_once(clusters, capsys)["changes"]}
    assert found == {
        ("message_ttl_in_seconds", 1),
        ("max_producers_per_topic", None),
        ("messageTTLInSeconds", None),
        ("partitions", 5),
        ("auth_policies/namespace_auth/role0", None),
    }
    assert import_once(clusters, capsys)["changes"] == []
