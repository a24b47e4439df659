"""A streaming query whose driver, virtual machine and workers are killed at random: each result is in the topic once.

Now and then, the broker is killed as well. ``MAGNETAR_CHAOS_SEED`` repeats the random choices of a run,
``MAGNETAR_CHAOS_SINK_KILLS`` sets the number of kills.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.chaos.mesh import SEED, say
from tests.kit.background import Background
from tests.kit.broker import Broker
from tests.kit.child import ChildProcess
from tests.kit.messages import close_after_kill, connect, read_log
from tests.kit.processes import find
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

KILLS = int(os.environ.get("MAGNETAR_CHAOS_SINK_KILLS", "50"))
BROKER_KILLED_AFTER = 10
"""Kills of the query between two kills of the broker."""

RATE = 200
"""Messages per second."""

KEYS = 20
SOURCE, TARGET = "persistent://public/default/source", "persistent://public/default/target"
PARTITIONS = 2
PAUSE_S = (0.2, 3.0)
"""Range of the time for which processes run before the next kill, while the query makes progress."""

WORKERS, JVM = ("pyspark",), ("SparkSubmit",)
PROGRESS_TIMEOUT_S = 120.0
FINISH_TIMEOUT_S = 300.0

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600 + KILLS * 60)]


class Publisher(Background):
    """Publishes numbers to the source, each once, also while the broker is killed."""

    def __init__(self, service_url: str) -> None:
        """Start publishing."""
        super().__init__()
        self.published = 0
        self._client = connect(service_url)
        self.begin()

    def work(self) -> None:
        """Publish until the end."""
        producer = self._client.create_producer(SOURCE, producer_name="numbers", send_timeout_millis=0)
        while not self.stopping.is_set():
            started = time.monotonic()
            for number in range(self.published, self.published + RATE // 10):
                producer.send_async(b"%d" % number, _ignore, partition_key=f"key-{number % KEYS}")
            self.published += RATE // 10
            producer.flush()
            self.stopping.wait(max(0.0, started + 0.1 - time.monotonic()))
        producer.close()
        close_after_kill(self._client)


def _ignore(*_: object) -> None:
    """The flush waits for the receipts."""


class Query:
    """The processes of the query, which are started again when the driver has ended."""

    def __init__(self, broker: Broker, directory: Path) -> None:
        """Start the driver."""
        self._directory = directory
        arguments = (broker.service_url, broker.admin_url, SOURCE, TARGET, str(directory / "checkpoint"))
        self._command = [sys.executable, "-m", "tests.chaos.sink_query", *arguments]
        self._drivers: list[ChildProcess] = []
        self.start()

    def start(self) -> None:
        """Start another driver; processes of the one before may still run."""
        name, environment = f"driver-{len(self._drivers)}", {"PYSPARK_PYTHON": sys.executable}
        self._drivers.append(ChildProcess(self._command, self._directory, name, environment))

    def keep_running(self) -> None:
        """Start the driver again if it has ended."""
        if self._drivers[-1].exit_status is not None:
            self.start()

    def kill(self, chance: random.Random) -> str:
        """Kill a process with SIGKILL; return its kind."""
        driver = self._drivers[-1]
        kind = chance.choices(["worker", "driver", "virtual machine"], [6, 2, 2])[0]
        if kind == "driver":
            driver.send_signal(signal.SIGKILL)
            return kind
        found = find(driver.pid, *(WORKERS if kind == "worker" else JVM))
        if not found:
            return ""
        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(found), signal.SIGKILL)
        return kind

    def stop(self) -> None:
        """Kill everything."""
        for driver in self._drivers:
            driver.kill()


class Target:
    """The messages of the target so far."""

    def __init__(self, broker: Broker) -> None:
        """Read from the beginning."""
        self._broker = broker

    def size(self) -> int:
        """Return the number of messages that the broker counts."""
        total = 0
        for index in range(PARTITIONS):
            path = f"persistent/public/default/target-partition-{index}/stats"
            total += self._broker.rest.get(path)["msgInCounter"]
        return total

    def numbers(self) -> list[int]:
        """Return all messages."""
        client = connect(self._broker.service_url)
        found: list[int] = []
        for index in range(PARTITIONS):
            found += [int(message.data()) for message in read_log(client, f"{TARGET}-partition-{index}")]
        client.close()
        return found


def test_each_result_is_in_the_topic_once(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    kinds: Counter[str] = Counter()
    with Broker(tmp_path / "broker", settings={"brokerDeduplicationEnabled": "true"}) as broker:
        retention = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
        broker.rest.post("namespaces/public/default/retention", retention)
        broker.rest.put("persistent/public/default/target/partitions", PARTITIONS)
        publisher, query, target = Publisher(broker.service_url), Query(broker, tmp_path), Target(broker)
        try:
            while kinds.total() < KILLS:
                wait_until(partial(_progresses, query, target, target.size()), PROGRESS_TIMEOUT_S, what="progress")
                time.sleep(chance.uniform(*PAUSE_S))
                kind = query.kill(chance)
                kinds.update([kind] if kind else [])
                if kind and kinds.total() % BROKER_KILLED_AFTER == 0:
                    broker.kill()
                    broker.start()
            publisher.end()
            wanted = list(range(publisher.published))
            wait_until(lambda: _is_complete(query, target, len(wanted)), FINISH_TIMEOUT_S, what="all results")
            time.sleep(2)
            found = target.numbers()
        finally:
            query.stop()
    counts = Counter(found)
    assert not [number for number in wanted if not counts[number]], "lost"
    assert not [number for number, count in counts.items() if count > 1], "repeated"
    assert sorted(found) == wanted
    say(f"{len(found)} results, each once; killed: {dict(kinds)}, broker: {KILLS // BROKER_KILLED_AFTER}")


def _progresses(query: Query, target: Target, before: int) -> bool:
    query.keep_running()
    return target.size() != before


def _is_complete(query: Query, target: Target, count: int) -> bool:
    query.keep_running()
    return len(target.numbers()) >= count
