"""Producers that resend everything after ``kill -9`` of the broker, of themselves and of both: no duplicates.

``MAGNETAR_CHAOS_SEED`` repeats the random choices of a run, ``MAGNETAR_CHAOS_RESENDS`` sets the number of rounds.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.chaos.mesh import SEED, say
from tests.kit.broker import Broker
from tests.kit.child import ChildProcess
from tests.kit.messages import connect, numbered, read_log
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = int(os.environ.get("MAGNETAR_CHAOS_RESENDS", "100"))
TOPIC = "persistent://public/default/resends"
STEPS = {"alpha": 1, "beta": 3}
"""The producers, with the distance of their sequence ids."""

NEW_PER_ROUND = 100
"""Number of new messages of each producer in a round."""

ROUND_TIMEOUT_S = 60.0
KILLED_WITHIN_S = 0.8
"""Maximum seconds between the start of the producers and the kill; importing the client takes up to half of that."""

SETTINGS = {
    "brokerDeduplicationEnabled": "true",
    "brokerDeduplicationEntriesInterval": 7,  # so that snapshots are in progress all the time
    "managedLedgerMaxEntriesPerLedger": 100,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "defaultRetentionTimeInMinutes": -1,
    "defaultRetentionSizeInMB": -1,
}

PRODUCERS = """
import contextlib, os, sys, pulsar
url, topic, last, per_batch = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
client = pulsar.Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull))
options = dict(send_timeout_millis=0, block_if_queue_full=True)
if per_batch > 1:
    options |= dict(batching_enabled=True, batching_max_messages=per_batch, batching_max_publish_delay_ms=2)
steps = {name: int(step) for name, step in (argument.split(":") for argument in sys.argv[5:])}
producers = [client.create_producer(topic, producer_name=name, **options) for name in steps]
failures = []
def receipted(result, _id):
    if result != pulsar.Result.Ok:
        failures.append(result)
for number in range(1, last + 1):
    for (name, step), producer in zip(steps.items(), producers):
        producer.send_async(f"{name} {number}".encode(), receipted, sequence_id=number * step)
for producer in producers:
    producer.flush()
assert not failures, failures
with contextlib.suppress(pulsar.PulsarException):  # the broker may be killed now, too
    client.close()
"""

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(60 + ROUNDS * ROUND_TIMEOUT_S)]


class Producers:
    """A process that sends everything from the first message on, and ends after all receipts."""

    def __init__(self, broker: Broker, directory: Path) -> None:
        """Create the object; ``start`` starts the process."""
        self._broker = broker
        self._directory = directory
        self._process: ChildProcess | None = None

    def start(self, last: int, per_batch: int) -> None:
        """Send messages 1 to ``last``."""
        arguments = [self._broker.service_url, TOPIC, str(last), str(per_batch)]
        arguments += [f"{name}:{step}" for name, step in STEPS.items()]
        self._process = ChildProcess([sys.executable, "-c", PRODUCERS, *arguments], self._directory, "producers")

    def kill(self) -> None:
        """Kill the process with SIGKILL, if it runs."""
        if self._process is not None:
            self._process.kill()

    def have_ended(self) -> bool:
        """Return whether all messages have receipts; raises RuntimeError if one was refused."""
        assert self._process is not None
        if self._process.exit_status == 0:
            return True
        self._process.require_running()
        return False


def check_log(broker: Broker, last: int) -> None:
    """Check that the log has every message of every producer once, in the producer's order, and no others."""
    client = connect(broker.service_url)
    found: dict[str, list[bytes]] = {name: [] for name in STEPS}
    for message in read_log(client, TOPIC):
        name, _, number = message.data().decode().partition(" ")
        found[name].append(number.encode())
    client.close()
    assert found == dict.fromkeys(STEPS, numbered(last, first=1))


def test_each_message_is_there_once_however_often_it_was_sent(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    say(f"\nMAGNETAR_CHAOS_SEED={SEED} MAGNETAR_CHAOS_RESENDS={ROUNDS}")
    with Broker(tmp_path, settings=SETTINGS) as broker:
        producers = Producers(broker, tmp_path)
        victims = itertools.cycle(("broker", "producers", "both"))
        try:
            for number, victim in zip(range(1, ROUNDS + 1), victims, strict=False):
                last = number * NEW_PER_ROUND
                producers.start(last, per_batch=chance.choice((1, 2, 5, 30)))
                time.sleep(chance.uniform(0.0, KILLED_WITHIN_S))  # the random moment
                if victim != "broker":
                    producers.kill()
                if victim != "producers":
                    broker.restart()
                if victim != "broker":
                    producers.start(last, per_batch=chance.choice((1, 2, 5, 30)))
                wait_until(producers.have_ended, ROUND_TIMEOUT_S, what=f"receipts of round {number}, {victim} killed")
                check_log(broker, last)
        finally:
            producers.kill()
