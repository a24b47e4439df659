from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.guides.machine import Machine
from tests.guides.page import guide
from tests.kit.messages import connect, nothing_comes, numbered, publish, read_log, receive
from tests.kit.pulsar import PulsarStandalone
from tests.kit.pulsar_jars import PulsarUnavailableError, java, pulsar_jars
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "persistent://shop/orders/eu"
STOCK = "clusterName=standalone\nmanagedLedgerDefaultEnsembleSize=2\nbrokerDeduplicationEnabled=true\n"


def test_a_configuration_of_apache_pulsar_is_checked(tmp_path: Path) -> None:
    with Machine(tmp_path) as machine, machine.shell({}) as shell:
        configuration = tmp_path / "etc/pulsar/broker.conf"
        configuration.write_text(STOCK, encoding="utf-8")
        shell.follow(guide("from-pulsar").section("Before you start"))


@pytest.mark.interop
@pytest.mark.timeout(600)
def test_a_topic_moves_with_its_subscription(tmp_path: Path) -> None:
    try:
        java()
        pulsar_jars()
    except PulsarUnavailableError as error:
        pytest.skip(str(error))
    page = guide("from-pulsar")
    with ExitStack() as stack:
        legacy = stack.enter_context(PulsarStandalone(tmp_path / "legacy", "legacy"))
        machine = stack.enter_context(Machine(tmp_path / "ewr"))
        shell = stack.enter_context(machine.shell({"pulsar.example": legacy, "broker.ewr.example": machine}))
        legacy.rest.ensure("tenants/shop", {"adminRoles": [], "allowedClusters": ["legacy"]})
        legacy.rest.ensure("namespaces/shop/orders", {})
        old = connect(legacy.service_url)
        stack.callback(old.close)
        consumer = old.subscribe(TOPIC, "billing", pulsar.ConsumerType.Shared)
        publish(old, TOPIC, numbered(30))
        receive(consumer, 10, acknowledge=True)

        shell.follow(guide("one-broker").section("Configure"))
        shell.run("systemctl start magnetar")
        machine.wait_until_healthy()
        (environment,) = (block.text for block in page.section("Replicate") if block.language == "text")
        for name in ("pipeline.env", "magnetar-pipeline.service"):
            folder = "/etc/systemd/system" if name.endswith(".service") else "/etc/magnetar"
            shell.run(f"install -D deploy/systemd/{name} {folder}/{name}")
        file = machine.directory / "etc/magnetar/pipeline.env"
        file.write_text(shell.adapted(environment), encoding="utf-8")
        for section in ("Register both clusters", "Import the metadata", "Replicate"):
            shell.follow(page.section(section))
        new = connect(machine.service_url)
        stack.callback(new.close)
        wait_until(lambda: len(read_log(new, TOPIC)) == 30, 60, what="the messages in Magnetar")

        receive(consumer, 20, acknowledge=True)
        consumer.close()
        shell.follow(page.section("With a pause of the producers: nothing lost, nothing repeated"))
        moved = new.subscribe(TOPIC, "billing", pulsar.ConsumerType.Shared)
        assert nothing_comes(moved)
        publish(new, TOPIC, numbered(5, first=30))
        assert [message.data() for message in receive(moved, 5, acknowledge=True)] == numbered(5, first=30)
        wait_until(lambda: len(read_log(old, TOPIC)) == 35, 60, what="the way back")
        shell.follow(page.section("End the replication"))
