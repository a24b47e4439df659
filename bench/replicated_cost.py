"""The broker's cost of replicated subscriptions, where they are used and where they are not.

Two clusters and the pipeline; all messages are replicated. Every turn publishes, receives and acknowledges messages of
100 bytes individually, each an entry, with the official client. The figure is the processor time per message of the
broker with the subscription, until everything is replicated and durable. The kinds alternate, in separate namespaces:

* *forbidden*: the policy ``replicatedSubscriptionsAllowed`` is false: the broker does nothing for them;
* *off*: no client requests them, the default;
* *markers*: the subscription is replicated by PIP-33's snapshots;
* *exact*: it is replicated exactly.

*of forbidden* is the median of the ratios of each round. Requires only Magnetar.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import time
from typing import TYPE_CHECKING

import pulsar
from pulsar import ConsumerType
from rich.console import Console
from rich.table import Table

from bench.options import parse
from tests.kit.clusters import UP_TIMEOUT_S, LocalClusters
from tests.kit.measure import describe_machine
from tests.kit.messages import publish, receive
from tests.kit.processes import cpu_seconds
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

KINDS = ("forbidden", "off", "markers", "exact")
NAMES = HERE, THERE = ("here", "there")
SUBSCRIPTION = "worker"
MESSAGE = bytes(100)
WARM_UP = 1_000
"""Messages of each kind before the first round."""

FULL = (8, 20_000)
QUICK = (3, 5_000)
"""Rounds, and messages of each kind in a round."""

Costs = dict[str, float]
"""Microseconds of the broker's processor time per message, by kind."""


class MeasuredTopic:
    """One topic with its producer and its consumer."""

    def __init__(self, clusters: LocalClusters, kind: str) -> None:
        """Create them in a separate namespace."""
        self._clusters = clusters
        self._stats = f"persistent/bench/{kind}/orders/stats"
        clusters.make_namespace(f"bench/{kind}", NAMES)
        for name in NAMES:
            policies = f"namespaces/bench/{kind}"
            clusters.rest(name).post(f"{policies}/replicatedSubscriptionsAllowed", kind != "forbidden")
            if kind in ("markers", "exact"):
                clusters.rest(name).post(f"{policies}/replicatedSubscriptionSync", kind)
        topic, client = f"persistent://bench/{kind}/orders", clusters.client(HERE)
        self._consumer = client.subscribe(
            topic, SUBSCRIPTION, ConsumerType.Shared, replicate_subscription_state_enabled=kind in ("markers", "exact")
        )
        publish(client, topic, [MESSAGE])
        receive(self._consumer, 1, acknowledge=True)
        self._producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)

    def turn(self, messages: int) -> float:
        """Process ``messages`` messages; return the broker's processor time per message, in microseconds."""
        broker = self._clusters.brokers[HERE].pid
        before = cpu_seconds(broker)
        results: list[pulsar.Result] = []
        for _ in range(messages):
            self._producer.send_async(MESSAGE, lambda result, _id: results.append(result))
        receive(self._consumer, messages, acknowledge=True)
        self._producer.flush()
        assert set(results) == {pulsar.Result.Ok}, set(results)
        wait_until(self._is_done, UP_TIMEOUT_S, what="acknowledged and replicated", interval_s=0.2)
        return (cpu_seconds(broker) - before) / messages * 1e6

    def _is_done(self) -> bool:
        stats = self._clusters.rest(HERE).get(self._stats)
        backlog = stats["subscriptions"][SUBSCRIPTION]["msgBacklog"]
        return bool(backlog == 0 and stats["replication"][THERE].get("replicationBacklog") == 0)


def measure(directory: Path, rounds: int, messages: int) -> list[Costs]:
    """Return the costs of each round."""
    with LocalClusters(directory, NAMES) as clusters:
        clusters.start_pipeline()
        topics = {kind: MeasuredTopic(clusters, kind) for kind in KINDS}
        for topic in topics.values():
            topic.turn(WARM_UP)
        time.sleep(1.0)
        return [{kind: topic.turn(messages) for kind, topic in topics.items()} for _ in range(rounds)]


def rows(rounds: Sequence[Costs]) -> list[dict[str, float | str]]:
    """Return a row of the table for each kind: microseconds, and their ratio to the first kind."""
    return [
        {
            "kind": kind,
            "cpu_us_per_message": round(statistics.median(costs[kind] for costs in rounds), 1),
            "of_forbidden": round(statistics.median(costs[kind] / costs[KINDS[0]] for costs in rounds), 3),
        }
        for kind in KINDS
    ]


def main() -> int:
    """Measure and print."""
    options = parse("replicated_cost", __doc__, quick="three short rounds instead of eight")
    machine = describe_machine(options.directory)
    found = rows(measure(options.directory, *(QUICK if options.quick else FULL)))
    shutil.rmtree(options.directory)
    if options.output == "json":
        sys.stdout.write(json.dumps({"machine": machine, "kinds": found}, indent=2) + "\n")
    else:
        table = Table("replicated subscription", "broker CPU, us per message", "of forbidden")
        for row in found:
            table.add_row(*map(str, row.values()))
        Console(width=100).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
