"""``kill -9`` at random moments under load: no message is lost or duplicated in any log, without manual help.

``MAGNETAR_CHAOS_SEED`` repeats the random choices of a run, ``MAGNETAR_CHAOS_ROUNDS`` sets the number of rounds.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.chaos.mesh import RECOVERY_TIMEOUT_S, SEED, say
from tests.geo.helpers import log_of
from tests.kit.background import Background, within
from tests.kit.clusters import NAMES, Up
from tests.kit.messages import connect
from tests.kit.processes import command_line
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sized
    from pathlib import Path

ROUNDS = int(os.environ.get("MAGNETAR_CHAOS_ROUNDS", "20"))
NAMESPACE = "chaos/kills"
TOPICS = tuple(f"persistent://{NAMESPACE}/t{number}" for number in range(3))
RATE = 100
"""Messages per second from each cluster."""

pytestmark = [pytest.mark.chaos, pytest.mark.timeout((ROUNDS + 2) * RECOVERY_TIMEOUT_S)]


class Publisher(Background):
    """Publishes numbered messages in one cluster to several topics in turn, despite broker failures."""

    def __init__(self, up: Up, origin: str) -> None:
        """Start publishing."""
        super().__init__()
        self.origin = origin
        self.receipted: dict[str, list[bytes]] = {topic: [] for topic in TOPICS}
        self.failures: list[str] = []
        self._client = connect(up.members[origin].service_url, operation_timeout_seconds=120)
        self._producers = [
            self._client.create_producer(topic, block_if_queue_full=True, send_timeout_millis=0) for topic in TOPICS
        ]
        self.begin()

    def stop(self) -> None:
        """Stop, and wait for all receipts."""
        self.end()
        for topic, producer in zip(TOPICS, self._producers, strict=True):
            within(RECOVERY_TIMEOUT_S, producer.flush, what=f"all receipts of {self.origin} for {topic}")
        within(RECOVERY_TIMEOUT_S, self._client.close, what=f"the end of the publisher in {self.origin}")

    def work(self) -> None:
        """See Background."""
        started, sent = time.monotonic(), 0
        while not self.stopping.is_set():
            while sent < (time.monotonic() - started) * RATE:
                topic = TOPICS[sent % len(TOPICS)]
                payload = b"%s-%d" % (self.origin.encode(), sent)
                self._producers[sent % len(TOPICS)].send_async(payload, self._on_receipt(topic, payload))
                sent += 1
            self.stopping.wait(0.01)

    def _on_receipt(self, topic: str, payload: bytes) -> Callable[[pulsar.Result, pulsar.MessageId], None]:
        def done(result: pulsar.Result, _id: pulsar.MessageId) -> None:
            if result == pulsar.Result.Ok:
                self.receipted[topic].append(payload)
            else:
                self.failures.append(f"{payload!r}: {result}")

        return done


def targets(up: Up, kind: str) -> list[int]:
    """Return the running processes of this kind."""
    if kind in NAMES:
        return up.broker_pids(kind)
    return up.worker_pids() if kind == "worker" else up.pipeline_pids()


class Tail:
    """Follows the log of a topic in one cluster, and records the highest number of each origin."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        """Read from the beginning."""
        self.last = dict.fromkeys(NAMES, -1)
        self._reader = client.create_reader(topic, pulsar.MessageId.earliest)

    def reaches(self, origin: str, number: int) -> bool:
        """Read further; return whether the log has this message."""
        while self.last[origin] < number:
            try:
                name, _, seen = self._reader.read_next(100).data().decode().partition("-")
            except pulsar.PulsarException:
                return False
            self.last[name] = max(self.last[name], int(seen))
        return True


def has_at_least(found: Sized, count: int) -> bool:
    """Return whether ``found``, which another thread fills, has at least ``count`` items."""
    return len(found) >= count


def has_at_least_logged(up: Up, name: str, topic: str, count: int) -> bool:
    """Return whether the cluster's log of the topic has at least ``count`` messages."""
    return len(log_of(up, name, topic)) >= count


Tails = dict[tuple[str, str], Tail]


def wait_for_recovery(tails: Tails, publishers: list[Publisher]) -> None:
    """Wait until each publisher has another receipt on each topic, and all logs have that message."""
    for publisher in publishers:
        for topic in TOPICS:
            receipted = publisher.receipted[topic]
            enough = len(receipted) + 1
            wait_until(
                partial(has_at_least, receipted, enough), RECOVERY_TIMEOUT_S, what=f"receipt in {publisher.origin}"
            )
            newest = int(receipted[-1].partition(b"-")[2])
            for name in NAMES:
                tail = tails[name, topic]
                wait_until(
                    partial(tail.reaches, publisher.origin, newest),
                    RECOVERY_TIMEOUT_S,
                    what=f"message {newest} of {publisher.origin} on {topic} in {name}, which has {tail.last}",
                )


def test_no_kill_loses_or_duplicates_a_message(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    say(f"\nMAGNETAR_CHAOS_SEED={SEED} MAGNETAR_CHAOS_ROUNDS={ROUNDS}")
    with Up(tmp_path) as up:
        up.make_namespace(NAMESPACE)
        # messages of topics without a subscription are trimmed with the ledger that a restart closes, but the test
        # counts them
        for name in NAMES:
            up.rest(name).post(
                f"namespaces/{NAMESPACE}/retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
            )
        publishers = [Publisher(up, name) for name in NAMES]
        tails = {(name, topic): Tail(up.client(name), topic) for name in NAMES for topic in TOPICS}
        try:
            wait_for_recovery(tails, publishers)
            for number in range(ROUNDS):
                kind = ("driver", "worker", chance.choice(NAMES))[number % 3]
                time.sleep(chance.uniform(0.0, 3.0))  # the random moment
                pids = wait_until(partial(targets, up, kind), RECOVERY_TIMEOUT_S, what=f"a {kind} to kill")
                pid = chance.choice(sorted(pids))
                command = command_line(pid)[:100]
                os.kill(pid, signal.SIGKILL)
                started = time.monotonic()
                wait_for_recovery(tails, publishers)
                took = time.monotonic() - started
                say(f"round {number + 1}: killed {kind} ({pid}: {command}); recovered in {took:.1f} s")
        finally:
            for publisher in publishers:
                publisher.stop()
        wait_for_equal_logs(up, publishers)
        check_logs(up, publishers)


def wait_for_equal_logs(up: Up, publishers: list[Publisher]) -> None:
    """Wait until every log has as many entries as the logs of their origins."""
    for topic in TOPICS:
        own = sum(
            sum(payload.startswith(publisher.origin.encode()) for payload in log_of(up, publisher.origin, topic))
            for publisher in publishers
        )
        for name in NAMES:
            wait_until(
                partial(has_at_least_logged, up, name, topic, own),
                RECOVERY_TIMEOUT_S,
                what=f"{own} messages of {topic} in {name}",
                interval_s=1.0,
            )


def check_logs(up: Up, publishers: list[Publisher]) -> None:
    """Check that every log has the entries of each origin in its order, and that the origins have all receipted ones.

    A producer that resends after the death of its broker may repeat messages in the origin's own log. All clusters have
    the same repetitions.
    """
    for publisher in publishers:
        origin = publisher.origin.encode()
        assert publisher.failures == []
        for topic in TOPICS:
            logs = {
                name: [payload for payload in log_of(up, name, topic) if payload.startswith(origin)] for name in NAMES
            }
            original = logs[publisher.origin]
            assert list(dict.fromkeys(original)) == publisher.receipted[topic], f"{topic} of {publisher.origin}"
            for name, log in logs.items():
                lost, repeated = Counter(original) - Counter(log), Counter(log) - Counter(original)
                assert (lost, repeated) == (Counter(), Counter()), f"{topic} of {publisher.origin} in {name}"
                assert log == original, f"order of {topic} of {publisher.origin} in {name}"
