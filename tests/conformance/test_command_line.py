"""Changes by the command line, and their reports, at a running broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.cli.main import ExitCode, main
from tests.kit.messages import numbered, publish

if TYPE_CHECKING:
    import pulsar

    from tests.kit.broker import Broker

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(broker: Broker, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str, code: ExitCode = ExitCode.DONE) -> dict[str, Any]:
        assert main(["--admin-url", broker.admin_url, *words, "-o", "json"]) is code
        captured = capsys.readouterr()
        found: dict[str, Any] = json.loads(captured.err if code else captured.out)
        return found

    return call


def test_a_subscription_moves_and_both_places_are_reported(client: pulsar.Client, topic: str, run: Run) -> None:
    client.subscribe(topic, "s").close()
    publish(client, topic, numbered(10))
    moved = run("topics", "skip", topic, "-s", "s", "-n", "4", "--force")
    assert (moved["before"]["backlog"], moved["after"]["backlog"]) == (10, 6)
    ledger = moved["after"]["markDeletePosition"].partition(":")[0]
    assert moved["after"]["markDeletePosition"] == f"{ledger}:3"
    # Backwards and to the next entry no message is passed; beyond it one is.
    for entry in (4, 3):
        assert (
            run("topics", "reset-cursor", topic, "-s", "s", "-m", f"{ledger}:{entry}")["after"]["backlog"] == 10 - entry
        )
    refused = run("topics", "reset-cursor", topic, "-s", "s", "-m", f"{ledger}:5", code=ExitCode.FAILED)
    assert "the backlog is 7" in refused["error"]
    refused = run("topics", "reset-cursor", topic, "-s", "s", "-t", "0s", code=ExitCode.FAILED)
    assert "the backlog is 7" in refused["error"]
    assert run("topics", "reset-cursor", topic, "-s", "s", "-t", "1h")["after"]["backlog"] == 10
    assert run("topics", "clear-backlog", topic, "-s", "s", "-f")["after"]["backlog"] == 0
    assert run("topics", "reset-cursor", topic, "-s", "s", "-t", "0s")["after"]["backlog"] <= 1


def test_a_partitioned_topic_and_its_subscription(client: pulsar.Client, topic: str, run: Run) -> None:
    assert run("topics", "create-partitioned-topic", topic, "-p", "2")["after"] == {"partitions": 2}
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(10))
    cleared = run("topics", "clear-backlog", topic, "-s", "s", "-f")
    assert (cleared["before"]["backlog"], cleared["after"]["backlog"]) == (10, 0)
    assert sorted(cleared["after"]["markDeletePosition"]) == [f"{topic}-partition-{index}" for index in (0, 1)]
    # The other verb is refused at once, and names this one.
    refused = run("topics", "delete", topic, code=ExitCode.FAILED)
    assert refused["status"] == 409
    assert f"delete-partitioned-topic {topic}" in refused["hint"]
    # --yes consents, and keeps the refusal of a topic that is in use.
    refused = run("topics", "delete-partitioned-topic", topic, "--yes", code=ExitCode.FAILED)
    assert refused["status"] == 412
    deleted = run("topics", "delete-partitioned-topic", topic, "--force")
    assert deleted["before"]["partitions"] == 2
    assert deleted["before"]["consumers"] == 2
    assert deleted["after"] is None
    consumer.close()


def test_old_messages_expire(client: pulsar.Client, topic: str, run: Run) -> None:
    client.subscribe(topic, "s").close()
    publish(client, topic, numbered(3))
    time.sleep(1.1)
    publish(client, topic, numbered(2))
    expired = run("topics", "expire-messages", topic, "-s", "s", "-t", "1s", "--force")
    assert (expired["before"]["backlog"], expired["after"]["backlog"]) == (5, 2)
