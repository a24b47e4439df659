"""Times until a change of metadata is in effect in all clusters, and until links follow it.

Two groups of three clusters with a pipeline each run side by side, and are measured in turn:

* *one call*: the metadata synchronizer is on, and one cluster gets the admin call;
* *each cluster*: it is off, and each cluster gets the admin call, one after the other.

Each time begins with the first call:

* *policy*: until all clusters show the new value;
* *namespace*: until a message that is published in the first cluster as soon as it has the namespace is stored in all;
* *topic*: the same for a new topic of a namespace that exists in all clusters.

The settings are the defaults. Requires only Magnetar.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import time
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from bench.options import parse
from tests.geo.helpers import entries
from tests.kit.clusters import NAMES, UP_TIMEOUT_S, LocalClusters
from tests.kit.measure import describe_machine
from tests.kit.messages import publish
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

GROUPS = ("one call", "each cluster")
SYNCHRONIZED = {"metadataSyncEventTopic": "persistent://pulsar/metadata/events"}
NAMESPACE = "bench/known"
HERE = NAMES[0]

POLL_S = 0.002
"""Seconds between two checks."""

FULL = {"policy": 200, "namespace": 50, "topic": 50}
QUICK = {"policy": 20, "namespace": 5, "topic": 5}
"""Numbers of changes."""


@dataclass(frozen=True, slots=True)
class Times:
    """The times of one kind of change in one group, in milliseconds."""

    change: str
    group: str
    median: float
    p99: float
    longest: float

    @classmethod
    def of(cls, change: str, group: str, seconds: Sequence[float]) -> Times:
        """Summarize ``seconds``, at least two."""
        cuts = statistics.quantiles(seconds, n=100, method="inclusive")
        return cls(change, group, *(round(each * 1000, 1) for each in (cuts[49], cuts[98], max(seconds))))


class Group:
    """Three clusters, and the changes that are measured in them."""

    def __init__(self, clusters: LocalClusters, *, synchronized: bool) -> None:
        """Measure ``clusters``, which run."""
        self._clusters = clusters
        self._called = NAMES[:1] if synchronized else NAMES
        """The clusters that get each call."""
        self._numbers = count(1)

    def prepare(self) -> None:
        """Register the clusters, start the pipeline, and create a namespace; return when it is replicated."""
        for name in NAMES:
            for other, member in self._clusters.members.items():
                addresses = {"serviceUrl": member.admin_url, "brokerServiceUrl": member.service_url}
                self._clusters.rest(name).ensure(f"clusters/{other}", addresses)
        self._clusters.start_pipeline()
        for name in self._called:
            self._clusters.rest(name).put("tenants/bench", {"adminRoles": [], "allowedClusters": list(NAMES)})
        self._create(NAMESPACE)
        for name in NAMES:
            wait_until(partial(self._has, name), UP_TIMEOUT_S, what=f"{NAMESPACE} in {name}")
            publish(self._clusters.client(name), f"persistent://{NAMESPACE}/first", [b"warm"])
        self._wait(f"persistent://{NAMESPACE}/first", len(NAMES))

    def policy(self) -> float:
        """Change a policy; return the seconds until all clusters show it."""
        value = next(self._numbers)
        began = time.monotonic()
        for name in self._called:
            self._clusters.rest(name).post(f"namespaces/{NAMESPACE}/messageTTL", value)
        for name in NAMES:
            wait_until(partial(self._shows, name, value), UP_TIMEOUT_S, what="the policy", interval_s=POLL_S)
        return time.monotonic() - began

    def namespace(self) -> float:
        """Create a namespace; return the seconds until a message of the first cluster is in all."""
        namespace = f"bench/n{next(self._numbers)}"
        began = time.monotonic()
        self._create(namespace)
        return self._until_replicated(f"persistent://{namespace}/t", began)

    def topic(self) -> float:
        """Create a topic; return the seconds until a message of the first cluster is in all."""
        return self._until_replicated(f"persistent://{NAMESPACE}/t{next(self._numbers)}", time.monotonic())

    def _create(self, namespace: str) -> None:
        for name in self._called:
            self._clusters.rest(name).put(f"namespaces/{namespace}", {"replication_clusters": list(NAMES)})

    def _until_replicated(self, topic: str, began: float) -> float:
        publish(self._clusters.client(HERE), topic, [b"first"])
        self._wait(topic, 1)
        return time.monotonic() - began

    def _wait(self, topic: str, number: int) -> None:
        for name in NAMES:
            stored = partial(self._stores, name, topic, number)
            wait_until(stored, UP_TIMEOUT_S, what=f"messages in {name}", interval_s=POLL_S)

    def _stores(self, name: str, topic: str, number: int) -> bool:
        return entries(self._clusters, name, topic) >= number

    def _has(self, name: str) -> bool:
        return self._clusters.rest(name).request("GET", f"namespaces/{NAMESPACE}").is_success

    def _shows(self, name: str, value: int) -> bool:
        return bool(self._clusters.rest(name).get(f"namespaces/{NAMESPACE}/messageTTL") == value)


def measure(directory: Path, numbers: dict[str, int]) -> list[Times]:
    """Return the times of all kinds of changes; the groups take turns."""
    with (
        LocalClusters(directory / "one", NAMES, SYNCHRONIZED) as one,
        LocalClusters(directory / "each", NAMES) as each,
    ):
        groups = dict(zip(GROUPS, (Group(one, synchronized=True), Group(each, synchronized=False)), strict=True))
        for group in groups.values():
            group.prepare()
        found = []
        for change, number in numbers.items():
            seconds: dict[str, list[float]] = {name: [] for name in groups}
            for _ in range(number):
                for name, group in groups.items():
                    work: Callable[[], float] = getattr(group, change)
                    seconds[name].append(work())
            found += [Times.of(change, name, times) for name, times in seconds.items()]
        return found


def rows(times: Iterable[Times]) -> Iterable[tuple[str, ...]]:
    """Yield the rows of the table."""
    for each in times:
        yield each.change, each.group, *(f"{value:,.1f}" for value in (each.median, each.p99, each.longest))


def main() -> int:
    """Measure and print."""
    options = parse("metadata_latency", __doc__, quick="a tenth of the changes, one minute")
    machine = describe_machine(options.directory)
    times = measure(options.directory, QUICK if options.quick else FULL)
    shutil.rmtree(options.directory)
    if options.output == "json":
        found = [{name: getattr(each, name) for name in Times.__slots__} for each in times]
        sys.stdout.write(json.dumps({"machine": machine, "times": found}, indent=2) + "\n")
    else:
        table = Table("change", "calls", "median, ms", "p99, ms", "longest, ms")
        for row in rows(times):
            table.add_row(*row)
        Console(width=100).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
