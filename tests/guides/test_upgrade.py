from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pulsar
import pytest

from magnetar.offline.check import check
from tests.guides.machine import Machine
from tests.guides.page import guide
from tests.kit.messages import connect, numbered, publish, receive, receive_until_quiet
from tests.kit.previous import NoHistoryError, unpack_previous

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "persistent://public/default/t"


def publish_and_acknowledge(machine: Machine, numbers: range) -> list[int]:
    """Publish numbers, acknowledge most of them, and return the others."""
    client = connect(machine.service_url)
    consumer = client.subscribe(TOPIC, "s", pulsar.ConsumerType.Shared)
    publish(client, TOPIC, numbered(len(numbers), numbers.start))
    left = []
    for message in [*receive(consumer, len(numbers)), *receive_until_quiet(consumer)]:
        number = int(message.data())
        if number % 3:
            consumer.acknowledge(message)
        elif number in numbers:
            left.append(number)
    client.close()
    return left


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_broker_is_upgraded_and_downgraded_without_loss(tmp_path: Path) -> None:
    """The release before is an earlier commit; it has no ``--check-config``, which succeeds here."""
    try:
        variables = unpack_previous(tmp_path / "previous")
    except NoHistoryError as error:
        pytest.skip(str(error))
    page = guide("upgrade")
    with Machine(tmp_path / "ewr") as machine, machine.shell({"broker.ewr.example": machine}) as shell:
        run = f'exec {sys.executable} -P -m magnetar.cli.main "$@"'
        is_check = 'for each in "$@"; do [ "$each" != --check-config ] || exit 0; done'
        machine.install_release("0.2.0", run)
        machine.install_release("0.1.0", f"{is_check}\nPYTHONPATH={variables['PYTHONPATH']} {run}")
        shell.follow(guide("one-broker").section("Configure"))
        shell.run(
            "sed --in-place '/^log/d; /^memory/d' /etc/magnetar/broker.conf"
        )  # settings that the earlier commit does not know
        shell.run(f"export MAGNETAR_ADMIN_URL={machine.admin_url}")
        shell.run("systemctl start magnetar")
        machine.wait_until_healthy()
        machine.rest.ensure("clusters/ewr", {"serviceUrl": machine.admin_url, "brokerServiceUrl": machine.service_url})
        machine.rest.ensure("tenants/public", {"adminRoles": [], "allowedClusters": ["ewr"]})
        machine.rest.ensure("namespaces/public/default", {})
        before = publish_and_acknowledge(machine, range(30))

        shell.follow(page.section("Install the new release beside the old one"))
        shell.follow(page.section("Upgrade a broker"))
        left = before + publish_and_acknowledge(machine, range(30, 60))

        shell.follow(page.section("Downgrade a broker"))
        client = connect(machine.service_url)
        consumer = client.subscribe(TOPIC, "s", pulsar.ConsumerType.Shared)
        received = [int(message.data()) for message in receive(consumer, len(left), acknowledge=True)]
        assert sorted(received) == left
        client.close()
    assert check(machine.data).intact
