"""The guides for three regions, failover and backup, on three machines with one pipeline."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.guides.machine import Machine
from tests.guides.page import guide
from tests.kit.messages import connect, numbered, publish, read_log, receive, receive_until_quiet
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.guides.shell import Shell

NAMES = ("ewr", "jfk", "lga")
TOPIC = "persistent://shop/orders/eu"
TIMEOUT_S = 180.0

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


class Regions:
    """Three machines, each with its shell."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        """Prepare the machines."""
        self.machines = {name: stack.enter_context(Machine(directory / name)) for name in NAMES}
        hosts = {f"broker.{name}.example": machine for name, machine in self.machines.items()}
        self.shells = {name: stack.enter_context(machine.shell(hosts, name)) for name, machine in self.machines.items()}

    @property
    def operator(self) -> Shell:
        """Return the shell from which all clusters are operated."""
        return self.shells["ewr"]

    def client(self, name: str) -> pulsar.Client:
        """Return a new client of a cluster."""
        return connect(self.machines[name].service_url)

    def count(self, name: str) -> int:
        """Return the number of entries of the topic in a cluster."""
        stats = self.machines[name].rest.get("persistent/shop/orders/eu/internalStats")
        return int(stats["numberOfEntries"])


@pytest.fixture(scope="module")
def regions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Regions]:
    """Follow the guide to three regions."""
    page = guide("three-regions")
    with ExitStack() as stack:
        found = Regions(tmp_path_factory.mktemp("regions"), stack)
        for shell in found.shells.values():
            shell.follow(guide("one-broker").section("Configure"))
            shell.follow(page.section("Start a broker in each region"))
        for heading in ("Register the clusters", "Start the pipeline", "Create a replicated namespace", "Check"):
            found.operator.follow(page.section(heading))
        found.operator.run(f"magnetar --cluster ewr topics create {TOPIC}")
        found.operator.run(f"magnetar --cluster ewr topics create-subscription {TOPIC} --subscription billing")
        yield found


def consume(regions: Regions, name: str, count: int) -> list[int]:
    """Receive and acknowledge ``count`` messages in a cluster."""
    client = regions.client(name)
    consumer = client.subscribe(TOPIC, "billing", pulsar.ConsumerType.Shared)
    numbers = [int(message.data()) for message in receive(consumer, count, acknowledge=True)]
    client.close()
    return numbers


def clusters_of_loops(page: str, heading: str, clusters: str) -> list[str]:
    """Return the commands of a section; its loops over all clusters run over ``clusters`` only."""
    commands = [command.text for block in guide(page).section(heading) for command in block.commands()]
    return [text.replace("for cluster in ewr jfk lga;", f"for cluster in {clusters};") for text in commands]


def set_up_again(regions: Regions, name: str) -> None:
    """Register the clusters in an empty one."""
    for command in clusters_of_loops("three-regions", "Register the clusters", name):
        regions.operator.run(command)


def wait_for_entries(regions: Regions, count: int, names: tuple[str, ...] = NAMES) -> None:
    wait_until(lambda: all(regions.count(name) == count for name in names), TIMEOUT_S, what=f"{count} entries each")


def numbers(regions: Regions, name: str) -> set[int]:
    """Return all messages in the log of a cluster."""
    client = regions.client(name)
    found = {int(message.data()) for message in read_log(client, TOPIC)}
    client.close()
    return found


def wait_for_topic(shell: Shell) -> None:
    wait_until(lambda: TOPIC in shell.run("magnetar topics list shop/orders"), TIMEOUT_S, what="the topic")


def test_consumers_move_and_return_without_loss(regions: Regions) -> None:
    page = guide("failover")
    ewr, lga = regions.client("ewr"), regions.client("lga")
    publish(ewr, TOPIC, numbered(60))
    publish(lga, TOPIC, numbered(40, first=60))
    wait_for_entries(regions, 100)
    acknowledged = consume(regions, "ewr", 30)

    regions.operator.follow(page.section("Move as planned"))
    acknowledged += consume(regions, "jfk", 50)
    assert len(set(acknowledged)) == 80, "nothing is repeated"

    regions.machines["jfk"].kill("magnetar")
    regions.operator.follow(page.section("Move after a loss"))
    publish(ewr, TOPIC, numbered(20, first=100))
    wait_for_entries(regions, 120, ("ewr", "lga"))
    rest = receive_all(regions, "lga")
    assert set(acknowledged) | rest == set(range(120)), "nothing is lost"

    regions.shells["jfk"].run("systemctl start magnetar")
    regions.operator.follow(page.section("Return after a loss"))
    publish(lga, TOPIC, numbered(5, first=120))
    assert receive_all(regions, "jfk") == set(range(120, 125)), "what lga acknowledged is not repeated"
    ewr.close()
    lga.close()


def receive_all(regions: Regions, name: str) -> set[int]:
    """Receive and acknowledge everything that the subscription has in a cluster."""
    client = regions.client(name)
    consumer = client.subscribe(TOPIC, "billing", pulsar.ConsumerType.Shared)
    messages = [*receive(consumer, 1), *receive_until_quiet(consumer)]
    for message in messages:
        consumer.acknowledge(message)
    found = {int(message.data()) for message in messages}
    client.close()
    return found


def keep_everything(regions: Regions) -> None:
    """Keep acknowledged messages, so that logs can be compared."""
    forever = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    regions.machines["ewr"].rest.post("namespaces/shop/orders/retention", forever)
    for name in NAMES:
        wait_until(lambda: retention(regions, name) == forever, TIMEOUT_S, what=f"the policy in {name}")  # noqa: B023 - called at once


def retention(regions: Regions, name: str) -> object:
    response = regions.machines[name].rest.request("GET", "namespaces/shop/orders/retention")
    return response.json() if response.is_success and response.content else None


def has_sent_metadata(regions: Regions) -> bool:
    """Let ewr publish a snapshot; return whether all clusters have the namespace and its policies."""
    regions.machines["ewr"].rest.post("metadata-sync/snapshot")
    return all(retention(regions, name) is not None for name in NAMES)


def test_an_empty_cluster_is_filled_by_the_others(regions: Regions) -> None:
    """Lose the disk of jfk, where the consumers are, after lga and ewr have everything."""
    keep_everything(regions)
    client = regions.client("jfk")
    before = regions.count("ewr")
    publish(client, TOPIC, numbered(20, first=200))
    client.close()
    wait_for_entries(regions, before + 20, ("ewr", "lga"))
    regions.operator.run("magnetar --cluster jfk subscriptions protection --namespace shop/orders --wait 5m")

    jfk = regions.shells["jfk"]
    jfk.run(f"export MAGNETAR_ADMIN_URL={regions.machines['jfk'].admin_url}")
    jfk.follow(guide("backup").section("Restore a replicated cluster"))
    set_up_again(regions, "jfk")
    jfk.follow(guide("backup").section("Metadata of a restored cluster"))
    jfk.run("magnetar namespaces set-replicated-subscription-active-cluster shop/orders --active-cluster jfk")
    wait_for_topic(jfk)
    wait_for_entries(regions, regions.count("lga"))
    regions.operator.run("magnetar --cluster lga subscriptions protection --namespace shop/orders --wait 5m")
    assert receive_all(regions, "jfk") == set(range(200, 220))


def test_all_clusters_are_rebuilt_from_one_backup(regions: Regions) -> None:
    """Messages since the backup are lost. The others are consumed in the restored cluster."""
    jfk = regions.client("jfk")
    publish(jfk, TOPIC, numbered(10, first=300))
    count = regions.count("jfk")
    wait_for_entries(regions, count)
    operator = regions.operator
    operator.run(f"export MAGNETAR_ADMIN_URL={regions.machines['ewr'].admin_url}")
    operator.follow(guide("backup").section("Without a stop"))
    publish(jfk, TOPIC, numbered(10, first=400))
    jfk.close()
    wait_for_entries(regions, count + 10)

    operator.run("systemctl stop magnetar-pipeline")
    for name in ("jfk", "lga"):
        regions.machines[name].kill("magnetar")
    operator.follow(guide("backup").section("Restore a lone broker"))
    for name in ("jfk", "lga"):
        shell = regions.shells[name]
        shell.run(f"export MAGNETAR_ADMIN_URL={regions.machines[name].admin_url}")
        shell.run("rm -rf /var/lib/magnetar-before")
        shell.follow(guide("backup").section("Restore a replicated cluster"))
    for name in ("jfk", "lga"):
        set_up_again(regions, name)
    operator.run("systemctl start magnetar-pipeline")
    wait_until(lambda: has_sent_metadata(regions), TIMEOUT_S, what="the namespace in all clusters", interval_s=1.0)
    for name in NAMES:
        operator.run(
            f"magnetar --cluster {name} namespaces set-replicated-subscription-active-cluster shop/orders"
            " --active-cluster ewr"
        )
    assert receive_all(regions, "ewr") == set(range(300, 310))
    wait_until(lambda: numbers(regions, "jfk") >= set(range(300, 310)), TIMEOUT_S, what="its own messages in jfk")
    lga = regions.client("lga")
    publish(lga, TOPIC, numbered(5, first=500))
    lga.close()
    for name in NAMES:
        wait_until(lambda: numbers(regions, name) >= set(range(500, 505)), TIMEOUT_S, what=f"new messages in {name}")  # noqa: B023 - called at once
    assert receive_all(regions, "ewr") == set(range(500, 505))
