"""Clusters with a pipeline for the chaos tests, and comparisons of their logs."""

from __future__ import annotations

import os
import random
import struct
import sys
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from tests.geo.helpers import entries, log_of
from tests.geo.journey import is_confirmed, unconfirmed_s
from tests.kit.clusters import UP_TIMEOUT_S, LocalClusters
from tests.kit.messages import publish
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.geo.journey import Journey

SEED = int(os.environ.get("MAGNETAR_CHAOS_SEED", random.SystemRandom().randrange(10**6)))
RECOVERY_TIMEOUT_S = 120.0
"""Time limit in seconds for the recovery from a failure on a busy machine."""

KEPT_FOR_EVER = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
_NUMBER = struct.Struct(">Q")


def say(text: str) -> None:
    """Print progress and figures; pytest shows them with ``-s`` or ``-rP``, and after a failure."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@contextmanager
def running(
    clusters: LocalClusters, namespace: str, *pipeline: str, environment: Mapping[str, str] | None = None
) -> Iterator[LocalClusters]:
    """Start the brokers and the pipeline; the namespace is replicated between all clusters, with infinite retention.

    ``pipeline`` and ``environment`` are the arguments and additional variables of the pipeline.
    """
    names = list(clusters.members)
    with clusters:
        make_kept_namespace(clusters, namespace, names)
        clusters.start_pipeline(*pipeline, environment=environment)
        for name in names:
            wait_for_carrying(clusters, namespace, name)
        yield clusters


def make_kept_namespace(clusters: LocalClusters, namespace: str, names: Sequence[str]) -> None:
    """Create the namespace in the clusters ``names``, replicated between all clusters, with infinite retention."""
    for name in names:
        clusters.make_local_namespace(name, namespace)
        clusters.rest(name).post(f"namespaces/{namespace}/retention", KEPT_FOR_EVER)
    for name in names:
        clusters.rest(name).post(f"namespaces/{namespace}/replication", list(clusters.members))


def wait_for_carrying(
    clusters: LocalClusters, namespace: str, source: str, meanwhile: Callable[[], object] = lambda: None
) -> None:
    """Publish a message in ``source``, and wait until every cluster has it; ``meanwhile`` is called again and again."""

    def has_come(name: str) -> bool:
        meanwhile()
        return holds(clusters, name, topic, count)

    topic = f"persistent://{namespace}/first-{source}"
    publish(clusters.client(source), topic, [b"first"])
    count = entries(clusters, source, topic)
    for name in clusters.members:
        wait_until(
            partial(has_come, name),
            UP_TIMEOUT_S,
            what=f"a message of {source} in {name}",
            interval_s=0.1,
        )


def holds(clusters: LocalClusters, name: str, topic: str, count: int) -> bool:
    """Return whether the cluster's log of the topic has at least ``count`` entries."""
    return entries(clusters, name, topic) >= count


def confirms_all_before(journey: Journey, clusters: LocalClusters, topic: str, target: str, age_s: float) -> bool:
    """Return whether ``target`` has confirmed all acknowledgements older than ``age_s`` seconds."""
    age = unconfirmed_s(clusters, topic, journey.here, target)
    return age is not None and age < age_s


def linked(clusters: LocalClusters, topic: str, source: str, target: str) -> bool:
    """Return whether ``target`` has confirmed progress of ``source``, or there is none."""
    return unconfirmed_s(clusters, topic, source, target) is not None


def move(journey: Journey, clusters: LocalClusters, topic: str, there: str) -> float:
    """Make a planned switch after ``there`` has confirmed everything; return its duration in seconds."""
    began = time.monotonic()
    journey.move(there, partial(is_confirmed, clusters, topic, journey.here, there))
    return time.monotonic() - began


def numbers_in(clusters: LocalClusters, name: str, topic: str) -> list[int]:
    """Return the numbers of the journey's messages in the cluster's log, in order."""
    return [number for payload in log_of(clusters, name, topic) for (number,) in [_NUMBER.unpack(payload)]]


def wait_for_equal_logs(
    clusters: LocalClusters, topic: str, published: set[int], names: Sequence[str] | None = None
) -> int:
    """Wait until the logs of ``names``, default: all clusters, have the same messages; return their number.

    Raises AssertionError if a log lacks a message of ``published`` or has a message twice.
    """
    logs: dict[str, list[int]] = {}

    def are_equal() -> bool:
        logs.update({name: numbers_in(clusters, name, topic) for name in names or clusters.members})
        return len({frozenset(log) for log in logs.values()}) == 1

    wait_until(are_equal, RECOVERY_TIMEOUT_S, what="the same messages in all clusters", interval_s=1.0)
    for name, log in logs.items():
        repeated = [number for number, count in Counter(log).items() if count > 1]
        assert (published - set(log), repeated) == (set(), []), f"lost, repeated in the log of {name}"
    return len(log)
