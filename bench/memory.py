"""The broker's memory over time with consumers that keep up: it must not grow once caches and tables are full.

The official client publishes messages of 100 bytes, each an entry, at a constant rate, alternately to two topics. Each
topic has an Exclusive subscription with cumulative acknowledgements, and a Shared and a Key_Shared one with individual
acknowledgements. With ``--clusters 2`` half of the messages are published in each of two clusters that replicate to
each other, the Shared subscription is replicated, and the topics retain an hour of messages, so that a topic has
alternating entries of two origins. Limits of caches, ledgers and segments are low, so that all are reached soon.

Each sample is a line of JSON on standard output: seconds since the start, published messages, resident bytes of each
broker, largest backlog. The last line is the verdict: for each broker the medians of the first and of the last quarter
of the samples after ``--settle-minutes``, and the growth in bytes per message. The exit status is 1 if a broker grew by
more than GROWTH_MAX. Requires only Magnetar.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import statistics
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulsar
from pulsar import ConsumerType

from tests.kit.clusters import LocalClusters
from tests.kit.measure import describe_machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NAMESPACE = "bench/memory"
TOPICS = tuple(f"persistent://{NAMESPACE}/topic-{number}" for number in range(2))
MESSAGE = bytes(100)
KEYS = 100
TICK_S = 0.02
"""Seconds between two iterations of a publisher."""

SUBSCRIPTIONS = {
    "exclusive": ConsumerType.Exclusive,
    "shared": ConsumerType.Shared,
    "key-shared": ConsumerType.KeyShared,
}
SETTINGS = {
    "managedLedgerCacheSizeMB": 16,
    "managedLedgerMaxEntriesPerLedger": 5_000,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "retentionCheckIntervalInSeconds": 10,
    "logSizeLimit": 16 << 20,
}
RETENTION = {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1}
GROWTH_MAX = 0.05
"""Maximum growth of a broker after it has settled, as a fraction: the noise of the allocator and of the measurement."""

BACKLOG_MAX_S = 10
"""Maximum backlog in seconds of messages; consumers with more do not keep up."""

ONE, TWO = ("ewr",), ("ewr", "jfk")


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures at one time."""

    seconds: float
    published: int
    resident_bytes: dict[str, int]
    backlog: int
    """Largest backlog of any subscription, in entries."""

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(
            {
                "seconds": round(self.seconds, 1),
                "published": self.published,
                "resident_bytes": self.resident_bytes,
                "backlog": self.backlog,
            }
        )


class Publisher:
    """Publishes to all topics of one cluster at a constant rate, in a thread of its own."""

    def __init__(self, client: pulsar.Client, per_second: float) -> None:
        """Start at once."""
        self.published = 0
        self.failure: str | None = None
        self._per_second = per_second
        self._producers = [
            client.create_producer(topic, batching_enabled=False, block_if_queue_full=True) for topic in TOPICS
        ]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop publishing; raises RuntimeError if a message was refused."""
        self._stopping.set()
        self._thread.join()
        for producer in self._producers:
            producer.flush()
        if self.failure is not None:
            raise RuntimeError(self.failure)

    def _run(self) -> None:
        started, number = time.monotonic(), 0
        while not self._stopping.wait(TICK_S):
            for _ in range(int((time.monotonic() - started) * self._per_second) - number):
                producer = self._producers[number % len(self._producers)]
                producer.send_async(MESSAGE, self._sent, partition_key=str(number % KEYS))
                number += 1

    def _sent(self, result: pulsar.Result, _message_id: pulsar.MessageId | None) -> None:
        if result == pulsar.Result.Ok:
            self.published += 1
        else:
            self.failure = f"a message was refused: {result}"


def consume(client: pulsar.Client, topic: str, name: str, *, replicated: bool) -> None:
    """Subscribe, and acknowledge every message in the client's threads."""

    def received(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        with contextlib.suppress(pulsar.PulsarException):  # closed with messages in its queue at the end
            if name == "exclusive":
                consumer.acknowledge_cumulative(message)
            else:
                consumer.acknowledge(message)

    client.subscribe(
        topic,
        name,
        SUBSCRIPTIONS[name],
        message_listener=received,
        replicate_subscription_state_enabled=replicated,
    )


def samples(clusters: LocalClusters, names: Sequence[str], options: argparse.Namespace) -> Iterator[Sample]:
    """Publish and consume, and yield samples at intervals until the end."""
    for name in names:
        for topic in TOPICS:
            for subscription in SUBSCRIPTIONS:
                if name == names[0] or subscription != "shared":
                    replicated = subscription == "shared" and len(names) > 1
                    consume(clusters.client(name), topic, subscription, replicated=replicated)
    publishers = [Publisher(clusters.client(name), options.rate / len(names)) for name in names]
    started = time.monotonic()
    try:
        while (seconds := time.monotonic() - started) < options.minutes * 60:
            yield Sample(
                seconds,
                sum(publisher.published for publisher in publishers),
                {name: clusters.brokers[name].resident_bytes() for name in names},
                max(backlogs(clusters, names)),
            )
            time.sleep(options.every_seconds)
    finally:
        for publisher in publishers:
            publisher.stop()


def backlogs(clusters: LocalClusters, names: Sequence[str]) -> Iterator[int]:
    """Yield the backlog of each subscription with a consumer."""
    for name in names:
        for topic in TOPICS:
            stats: dict[str, Any] = clusters.rest(name).get(f"{topic.replace('://', '/')}/stats")
            for subscription in stats["subscriptions"].values():
                if subscription["consumers"]:
                    yield subscription["msgBacklog"]


def verdict(taken: Sequence[Sample], rate: float, settle_s: float) -> dict[str, Any]:
    """Return the growth of each broker after ``settle_s``; raises ValueError for fewer than eight samples."""
    settled = [sample for sample in taken if sample.seconds >= settle_s]
    quarter = len(settled) // 4
    if quarter < 2:
        message = f"{len(settled)} samples after {settle_s:.0f} seconds are too few"
        raise ValueError(message)
    first, last = settled[:quarter], settled[-quarter:]
    messages = statistics.median(each.published for each in last) - statistics.median(each.published for each in first)
    brokers = {}
    for name in settled[0].resident_bytes:
        before, after = (statistics.median(each.resident_bytes[name] for each in part) for part in (first, last))
        brokers[name] = {
            "before_bytes": round(before),
            "after_bytes": round(after),
            "growth": round(after / before - 1, 4),
            "bytes_per_message": round((after - before) / max(messages, 1), 2),
        }
    backlog = max(sample.backlog for sample in settled)
    return {
        "brokers": brokers,
        "largest_backlog": backlog,
        "kept_up": backlog <= rate * BACKLOG_MAX_S,
        "grew": any(broker["growth"] > GROWTH_MAX for broker in brokers.values()),
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run the benchmark, print the samples, and return the verdict."""
    names = TWO if options.clusters > 1 else ONE
    taken = []
    with LocalClusters(options.directory, names, SETTINGS) as clusters:
        clusters.make_namespace(NAMESPACE, names)
        if len(names) > 1:
            for name in names:
                clusters.rest(name).post(f"namespaces/{NAMESPACE}/retention", RETENTION)
            clusters.start_pipeline()
        for sample in samples(clusters, names, options):
            sys.stdout.write(sample.to_json() + "\n")
            sys.stdout.flush()
            taken.append(sample)
    return verdict(taken, options.rate, options.settle_minutes * 60)


def main() -> int:
    """Measure and print; return 1 if the memory grew or consumers did not keep up."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__.partition("\n")[0])
    parser.add_argument("--clusters", type=int, choices=(1, 2), default=1, help="one broker, or two with a pipeline")
    parser.add_argument("--minutes", type=float, default=60.0, help="duration in minutes")
    parser.add_argument("--settle-minutes", type=float, default=10.0, help="time until the memory must be stable")
    parser.add_argument("--rate", type=float, default=500.0, help="messages per second")
    parser.add_argument("--every-seconds", type=float, default=30.0, help="seconds between two samples")
    parser.add_argument("--directory", type=Path, default=Path("build/bench/memory"), help="directory of all files")
    options = parser.parse_args()
    shutil.rmtree(options.directory, ignore_errors=True)
    options.directory.mkdir(parents=True)
    sys.stdout.write(json.dumps({"machine": describe_machine(options.directory)}) + "\n")
    found = measure(options)
    shutil.rmtree(options.directory)
    sys.stdout.write(json.dumps(found) + "\n")
    return int(found["grew"] or not found["kept_up"])


if __name__ == "__main__":
    sys.exit(main())
