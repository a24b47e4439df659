"""The session with two clusters: latency of geo-replication, catching up, and moving subscriptions."""

from __future__ import annotations

import multiprocessing
import time
from functools import partial
from typing import TYPE_CHECKING, Self

from bench import end_to_end
from bench.catalogue import GEO_BYTES, PERCENTILES, PUBLISH_WINDOWS
from bench.frames import publish_frames
from bench.load import Publisher
from bench.outcome import Outcome
from bench.sessions.moving import Moving
from bench.systems import HERE, PAIR, THERE, two_clusters
from tests.geo.helpers import entries
from tests.kit.measure import percentiles
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from bench.scale import Scale
    from bench.systems import System

NAMESPACE = "bench/geo"
TOPIC = f"persistent://{NAMESPACE}/loaded"
REPLICATION_TIMEOUT_S = 120.0
POLL_S = 0.05
LINK_ENTRIES = 100
"""Entries that open a topic's link before its measurement."""


class Geo:
    """Two clusters that replicate to each other."""

    def __init__(self, system: System, directory: Path, scale: Scale) -> None:
        """Nothing runs yet."""
        self._scale = scale
        self._pair = two_clusters(system, directory)

    def __enter__(self) -> Self:
        """Start the clusters, and warm up the replication between them."""
        self._pair.__enter__()
        try:
            self._pair.group.make_namespace(NAMESPACE, PAIR)
            self._publish(TOPIC, self._scale.geo_warm_up_entries)
            self._wait_for(TOPIC, self._scale.geo_warm_up_entries)
        except BaseException:
            self._pair.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop the clusters."""
        self._pair.__exit__(*exception)

    def measure(self, measurement: str) -> Outcome:
        """Return the figures of a measurement; the one with a kill must be the last."""
        kind, _, rate = measurement.partition(".")
        if kind == "geo":
            return self._latency(measurement, int(rate))
        if kind == "catch-up":
            return self._catch_up()
        return Moving(self._pair, NAMESPACE, self._scale.switch_seconds).run()

    def _latency(self, measurement: str, rate: int) -> Outcome:
        load = end_to_end.Load(TOPIC, rate, self._scale.geo_seconds[rate], GEO_BYTES)
        context = multiprocessing.get_context("spawn")
        results: multiprocessing.Queue[end_to_end.Samples] = context.Queue()
        ready = context.Event()
        there, here = self._url(THERE), self._url(HERE)
        consumer = context.Process(target=end_to_end.consume, args=(THERE, there, load, ready, results), daemon=True)
        consumer.start()
        if not ready.wait(REPLICATION_TIMEOUT_S):
            text = f"no consumer in {THERE} within {REPLICATION_TIMEOUT_S:g} s"
            raise TimeoutError(text)
        before = self._pair.cpu_seconds()
        producer = context.Process(target=end_to_end.produce, args=(here, load, results), daemon=True)
        producer.start()
        found = {
            samples["role"]: samples
            for samples in (results.get(timeout=load.seconds + REPLICATION_TIMEOUT_S) for _ in range(2))
        }
        spent = self._pair.cpu_seconds() - before
        consumer.join()
        producer.join()
        received = found[THERE]
        if received["missing"]:
            text = f"{received['missing']} of {load.total} messages did not come"
            raise RuntimeError(text)
        milliseconds = percentiles(received["ms"])
        return Outcome(
            {f"{measurement}.{point}": milliseconds[point] for point in PERCENTILES},
            {
                "max_ms": milliseconds["max"],
                "messages": load.total,
                "rate_reached": found["producer"]["rate"],
                "repeated": received["repeated"],
                "cpu_us_per_message": spent / load.total * 1e6,
            },
        )

    def _catch_up(self) -> Outcome:
        """Return the rate at which a restarted cluster receives the entries that it missed."""
        topic, count = f"persistent://{NAMESPACE}/backlog", self._scale.catch_up_entries
        self._publish(topic, LINK_ENTRIES)
        self._wait_for(topic, LINK_ENTRIES)
        self._pair.freeze(THERE)
        try:
            self._publish(topic, count)
        finally:
            self._pair.thaw(THERE)
        started, before = time.monotonic(), self._pair.cpu_seconds()
        self._wait_for(topic, LINK_ENTRIES + count)
        rate, spent = count / (time.monotonic() - started), self._pair.cpu_seconds() - before
        return Outcome({"catch-up": rate}, {"cpu_us_per_entry": spent / count * 1e6})

    def _url(self, name: str) -> str:
        return self._pair.group.members[name].service_url

    def _publish(self, topic: str, count: int) -> None:
        publisher = Publisher(self._url(HERE), topic, PUBLISH_WINDOWS[GEO_BYTES])
        try:
            publisher.publish(publish_frames(count, GEO_BYTES, time.time_ns() // 1_000_000))
        finally:
            publisher.close()

    def _wait_for(self, topic: str, count: int) -> None:
        wait_until(
            partial(self._holds, topic, count),
            REPLICATION_TIMEOUT_S,
            what=f"{count} entries of {topic} in {THERE}",
            interval_s=POLL_S,
        )

    def _holds(self, topic: str, count: int) -> bool:
        return entries(self._pair.group, THERE, topic) >= count
