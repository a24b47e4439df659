"""The sessions with one broker: after a start, storage, and under load."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Self

import pulsar

from bench.catalogue import CONSUMER_PERMITS, LATENCY_BYTES, PERCENTILES, PUBLISH_WINDOWS
from bench.frames import payload, publish_frames
from bench.load import Consumer, Publisher, through, without_collector
from bench.many_topics import TOPIC, ManyTopics
from bench.outcome import Outcome
from bench.systems import one_broker
from magnetar.ledger.medium.space import RESERVE_NAME
from tests.kit.measure import percentiles
from tests.kit.messages import connect
from tests.kit.processes import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bench.scale import Scale
    from bench.systems import System
    from tests.kit.server import Server

QUIET_S = 2.0
"""Seconds between a start or the creation of topics and the measurement of memory."""

AFTERMATH_S = 0.3
"""Seconds after a load whose processor time counts, because acknowledgements have no response."""

BACKLOG_AGE_S = 3.0
"""Age of a backlog in seconds, so that the newest entries have left caches."""

WARM_UP_REPEATS = 8
"""Number of times that the warm-up publishes its entries, before it consumes them once live and once as a backlog."""

BLOCK_BYTES = 512
"""The unit of st_blocks."""

MEGABYTE = 1_000_000


class OneBroker:
    """A broker that runs for one session."""

    def __init__(self, system: System, directory: Path, scale: Scale) -> None:
        """Nothing runs yet."""
        self.scale = scale
        self.directory = directory
        self.server: Server = one_broker(system, directory)

    def __enter__(self) -> Self:
        """Start the broker with ``public/default``, and prepare it; stop it if that fails."""
        started = time.monotonic()
        self.server.start()
        self.start_seconds = time.monotonic() - started
        try:
            self.server.make_default_namespace()
            self.prepare()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        """Kill the broker if it runs; its data is not used again."""
        self.server.kill_if_running()
        self.server.__exit__(*exception)

    def prepare(self) -> None:
        """Prepare the broker before the first measurement; does nothing by default."""

    def publisher(self, topic: str, window: int) -> Publisher:
        """Return a raw producer."""
        return Publisher(self.server.service_url, topic, window)

    def consumer(self, topic: str) -> Consumer:
        """Return a raw consumer."""
        return Consumer(self.server.service_url, topic, CONSUMER_PERMITS)

    def throughput(self, measurement: str, count: int, load: Callable[[], float]) -> Outcome:
        """Run a load that returns its seconds; return the rate, and the broker's processor time per entry."""
        with without_collector():
            before = cpu_seconds(self.server.pid)
            seconds = load()
            time.sleep(AFTERMATH_S)
            spent = cpu_seconds(self.server.pid) - before
        return Outcome({f"{measurement}.rate": count / seconds, f"{measurement}.cpu": spent / count * 1e6})


class Fresh(OneBroker):
    """A broker after its start: the duration of the start, and memory with an increasing number of topics."""

    def __init__(self, system: System, directory: Path, scale: Scale) -> None:
        """Nothing runs yet."""
        super().__init__(system, directory, scale)
        self._topics: ManyTopics | None = None

    def __exit__(self, *exception: object) -> None:
        """Close the connection, and kill the broker."""
        if self._topics is not None:
            self._topics.close()
        super().__exit__(*exception)

    def measure(self, measurement: str) -> Outcome:
        """Return the seconds of the start, or the resident memory after creating a number of topics."""
        kind, _, count = measurement.partition(".")
        if kind == "start":
            return Outcome({measurement: self.start_seconds})
        if self._topics is None:
            self._topics = ManyTopics(self.server.service_url)
        self._topics.grow(int(count))
        time.sleep(QUIET_S)
        return Outcome({measurement: self.server.resident_bytes() / MEGABYTE})


class Storage(OneBroker):
    """A broker that stores entries of 1 KiB and is stopped orderly."""

    def measure(self, _measurement: str) -> Outcome:
        """Return the bytes on disk per byte of payload."""
        count, size = self.scale.storage_entries, 1024
        publisher = self.publisher(TOPIC, PUBLISH_WINDOWS[size])
        publisher.publish(publish_frames(count, size, _now_ms()))
        publisher.close()
        self.server.stop()
        return Outcome({"disk": bytes_on_disk(self.directory) / (count * size)})


class Load(OneBroker):
    """A warmed-up broker under load."""

    def prepare(self) -> None:
        """Warm up the broker, because a virtual machine compiles hot code."""
        count = self.scale.warm_up_entries
        frames = publish_frames(count // WARM_UP_REPEATS, 100, _now_ms())
        publisher = self.publisher(f"{TOPIC}-warm-up", PUBLISH_WINDOWS[100])
        for _ in range(WARM_UP_REPEATS):
            publisher.publish(frames)
        publisher.close()
        self._tail("warm-up", frames)
        self._backlog("warm-up-backlog", frames)

    def measure(self, measurement: str) -> Outcome:
        """Return the figures of a measurement."""
        kind, _, number = measurement.partition(".")
        return {
            "publish": self._publish,
            "client": self._publish_by_client,
            "backlog": self._from_backlog,
            "burst": self._burst,
            "tail": self._from_tail,
            "latency": self._latency,
        }[kind](measurement, int(number or 0))

    def _publish(self, measurement: str, size: int) -> Outcome:
        frames = publish_frames(self.scale.publish_entries[size], size, _now_ms())
        publisher = self.publisher(f"{TOPIC}-{measurement}", PUBLISH_WINDOWS[size])
        try:
            return self.throughput(measurement, len(frames), lambda: publisher.publish(frames))
        finally:
            publisher.close()

    def _publish_by_client(self, measurement: str, size: int) -> Outcome:
        client = connect(self.server.service_url)
        producer = client.create_producer(f"{TOPIC}-{measurement}", batching_enabled=True, block_if_queue_full=True)
        count, content = self.scale.client_messages[size], payload(size)
        refused: list[pulsar.Result] = []

        def on_receipt(result: pulsar.Result, _id: pulsar.MessageId) -> None:
            if result != pulsar.Result.Ok:
                refused.append(result)

        def load() -> float:
            started = time.monotonic()
            for _ in range(count):
                producer.send_async(content, on_receipt)
            producer.flush()
            return time.monotonic() - started

        try:
            outcome = self.throughput(measurement, count, load)
        finally:
            client.close()
        if refused:
            text = f"{len(refused)} messages refused: {refused[0]}"
            raise RuntimeError(text)
        return outcome

    def _from_backlog(self, measurement: str, _number: int) -> Outcome:
        frames = publish_frames(self.scale.dispatch_entries, 100, _now_ms())
        return self._backlog(measurement, frames)

    def _burst(self, measurement: str, _number: int) -> Outcome:
        """Publish to a connected consumer without permits, and then consume at once."""
        topic = f"{TOPIC}-{measurement}"
        frames = publish_frames(self.scale.burst_entries, 100, _now_ms())
        consumer = self.consumer(topic)
        publisher = self.publisher(topic, PUBLISH_WINDOWS[100])
        try:
            publisher.publish(frames)
            return self.throughput(measurement, len(frames), lambda: consumer.consume(len(frames)))
        finally:
            publisher.close()
            consumer.close()

    def _from_tail(self, measurement: str, _number: int) -> Outcome:
        return self._tail(measurement, publish_frames(self.scale.dispatch_entries, 100, _now_ms()))

    def _backlog(self, measurement: str, frames: Sequence[bytes]) -> Outcome:
        """Publish without a consumer, and consume later."""
        topic = f"{TOPIC}-{measurement}"
        self.consumer(topic).close()  # the subscription remains
        publisher = self.publisher(topic, PUBLISH_WINDOWS[100])
        publisher.publish(frames)
        publisher.close()
        time.sleep(BACKLOG_AGE_S)
        consumer = self.consumer(topic)
        try:
            return self.throughput(measurement, len(frames), lambda: consumer.consume(len(frames)))
        finally:
            consumer.close()

    def _tail(self, measurement: str, frames: Sequence[bytes]) -> Outcome:
        """Publish and consume at the same time."""
        topic = f"{TOPIC}-{measurement}-tail"
        consumer = self.consumer(topic)
        publisher = self.publisher(topic, PUBLISH_WINDOWS[100])
        try:
            return self.throughput(measurement, len(frames), lambda: through(publisher, consumer, frames))
        finally:
            publisher.close()
            consumer.close()

    def _latency(self, measurement: str, rate: int) -> Outcome:
        frames = publish_frames(int(rate * self.scale.latency_seconds), LATENCY_BYTES, _now_ms())
        publisher = self.publisher(f"{TOPIC}-{measurement}", PUBLISH_WINDOWS[LATENCY_BYTES])
        try:
            before = cpu_seconds(self.server.pid)
            with without_collector():
                milliseconds = publisher.publish_paced(frames, rate)
            spent = cpu_seconds(self.server.pid) - before
        finally:
            publisher.close()
        found = percentiles(milliseconds)
        figures = {f"{measurement}.{point}": found[point] for point in PERCENTILES}
        return Outcome(figures, {"max_ms": found["max"], "cpu_us_per_entry": spent / len(frames) * 1e6})


def bytes_on_disk(directory: Path) -> int:
    """Return the disk usage of the files below ``directory`` in whole blocks, without holes.

    Excludes the file of constant size that reserves space for a full disk.
    """
    total = 0
    for path in (path for path in directory.rglob("*") if path.name != RESERVE_NAME):
        with contextlib.suppress(FileNotFoundError):  # a running broker removes files
            total += path.stat().st_blocks * BLOCK_BYTES
    return total


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
