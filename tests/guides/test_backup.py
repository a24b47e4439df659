from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from magnetar.offline.check import check
from tests.guides.machine import Machine
from tests.guides.page import guide
from tests.kit.messages import connect, numbered, publish, receive

if TYPE_CHECKING:
    from pathlib import Path

    from tests.guides.shell import Shell

TOPIC = "persistent://public/default/orders"
GUIDE = guide("backup")


class Publisher:
    """Publishes numbers in a thread, one after the receipt of the other, and survives restarts of the broker."""

    def __init__(self, service_url: str, first: int) -> None:
        """Start with the number ``first``."""
        self._client = connect(service_url)
        self._producer = self._client.create_producer(TOPIC, send_timeout_millis=0)
        self.next = first
        """The first number without a receipt."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._producer.send(b"%d" % self.next)
            self.next += 1

    def stop(self) -> int:
        """Stop, and return the number of messages with a receipt."""
        self._stopping.set()
        self._thread.join()
        self._client.close()
        return self.next


def start_broker(shell: Shell, machine: Machine) -> None:
    shell.follow(guide("one-broker").section("Configure"))
    shell.run(f"export MAGNETAR_ADMIN_URL={machine.admin_url}")
    shell.run("systemctl start magnetar")
    machine.wait_until_healthy()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_deleted_topic_returns_with_its_messages_and_acknowledgements(tmp_path: Path) -> None:
    with Machine(tmp_path) as machine, machine.shell({"broker.ewr.example": machine}) as shell:
        start_broker(shell, machine)
        client = connect(machine.service_url)
        consumer = client.subscribe(TOPIC, "billing")
        publish(client, TOPIC, numbered(20))
        receive(consumer, 10, acknowledge=True)
        client.close()

        publisher = Publisher(machine.service_url, 20)
        shell.follow(GUIDE.section("With a stop"))
        machine.wait_until_healthy()
        before = publisher.next
        shell.follow(GUIDE.section("Without a stop"))
        received = publisher.stop()
        assert 20 < before < received
        shell.follow(GUIDE.section("Verify"))
        for copy in ("magnetar-stopped", "magnetar-frozen"):
            assert check(tmp_path / "var/backups" / copy).intact

        machine.rest.delete("persistent/public/default/orders?force=true")
        shell.follow(GUIDE.section("Restore a lone broker"))
        client = connect(machine.service_url)
        consumer = client.subscribe(TOPIC, "billing")
        rest = [int(message.data()) for message in receive(consumer, before - 10, acknowledge=True)]
        assert rest == list(
            range(10, before)
        )  # the copy has all messages with a receipt, and not the acknowledged ones
        publish(client, TOPIC, [b"later"])
        client.close()
    assert check(machine.data).intact
