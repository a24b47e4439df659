"""Duplicates after a planned switch: replicated subscriptions by PIP-33's snapshots and by exact progress.

Three clusters with one broker each, and the pipeline. Every workload has one topic, 100 messages per second and one
Shared subscription, which moves from the first cluster to the second: its consumer is closed there and opened here 0.2
s later. A duplicate is a message delivered again after the receipt of its acknowledgement. The two modes alternate, in
namespaces with different values of the policy ``replicatedSubscriptionSync``:

* *caught up*: every message is acknowledged on arrival;
* *10 s behind*: every message is acknowledged 10 s after it was published;
* *with holes*: 5 % of the acknowledgements are 1 to 8 s late;
* *during a burst*: 500 messages every 5 s, with 5 ms of work each; the switch is 1 s after a burst;
* *one cluster down*: as caught up, but the third cluster's broker was killed 10 s before the switch.

Requires only Magnetar.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

from pulsar import ConsumerType
from rich.console import Console
from rich.table import Table

from bench.options import parse
from bench.sessions.moving import NUMBER, SUBSCRIPTION, RunningWorkload, Source, Target, move
from bench.switch import Workload
from tests.geo.helpers import has_subscription
from tests.kit.clusters import UP_TIMEOUT_S, LocalClusters
from tests.kit.measure import describe_machine
from tests.kit.messages import publish, receive
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

MODES = ("markers", "exact")
NAMES = HERE, THERE, THIRD = ("here", "there", "third")
SECONDS = 16.0
"""Seconds of load before the switch."""

DOWN_SECONDS = 10.0
"""Seconds of load after the third cluster went down."""

FULL_ROUNDS, QUICK_ROUNDS = 3, 1
OTHER_NUMBER = NUMBER.pack(1 << 63)
"""The number of a message that is not counted."""

WORKLOADS = (
    Workload("caught-up", "caught up"),
    Workload("behind", "10 s behind", behind_s=10.0),
    Workload("holes", "with holes", late_share=0.05),
    Workload("burst", "during a burst", burst_s=5.0, work_s=0.005),
)
DOWN = Workload("down", "one cluster down")


@dataclass(frozen=True, slots=True)
class Sample:
    """The result of one switch, in messages."""

    workload: str
    mode: str
    acknowledged: int
    """Acknowledged with a receipt before the switch."""

    repeated: int
    lost: int
    """Published and never delivered."""


class Switches:
    """The clusters and the measurements."""

    def __init__(self, directory: Path) -> None:
        """Create the clusters without starting them."""
        self._clusters = LocalClusters(directory, NAMES)

    def measure(self, rounds: int) -> list[Sample]:
        """Return all samples."""
        with self._clusters as clusters:
            clusters.start_pipeline()
            for mode in MODES:
                clusters.make_namespace(f"bench/{mode}", NAMES)
                for name in NAMES:
                    clusters.rest(name).post(f"namespaces/bench/{mode}/replicatedSubscriptionSync", mode)
            return [
                sample for number in range(rounds) for mode in MODES for sample in self._switch(mode, f"round-{number}")
            ]

    def _switch(self, mode: str, name: str) -> list[Sample]:
        """Move the subscription of every workload once."""
        workloads = [
            RunningWorkload(number, workload, f"persistent://bench/{mode}/{name}-{workload.id}")
            for number, workload in enumerate((*WORKLOADS, DOWN))
        ]
        for running in workloads:
            self._make_known(running.topic)
        *together, down = workloads
        source = Source(self._clusters.members[HERE].service_url, workloads)
        target = Target(self._clusters.members[THERE].service_url)
        third = self._clusters.brokers[THIRD]
        try:
            _load(source, SECONDS)
            move(source, target, together)
            third.kill()
            _load(source, source.elapsed_s + DOWN_SECONDS)
            move(source, target, [down])
        finally:
            source.close()
            target.close()
        third.start()
        return [
            Sample(
                running.workload.id,
                mode,
                acknowledged=len(running.account.acknowledged),
                repeated=running.account.duplicates,
                lost=running.account.missing,
            )
            for running in workloads
        ]

    def _make_known(self, topic: str) -> None:
        """Wait until all clusters have the subscription, because its creation is not part of the measurement."""
        client = self._clusters.client(HERE)
        consumer = client.subscribe(topic, SUBSCRIPTION, ConsumerType.Shared, replicate_subscription_state_enabled=True)
        publish(client, topic, [OTHER_NUMBER])
        receive(consumer, 1, acknowledge=True)
        for name in (THERE, THIRD):
            known = partial(has_subscription, self._clusters, name, topic, SUBSCRIPTION)
            wait_until(known, UP_TIMEOUT_S, what=f"{topic} in {name}", interval_s=0.1)
        consumer.close()


def _load(source: Source, until_s: float) -> None:
    while source.elapsed_s < until_s:
        source.turn()


def spread(values: Sequence[int]) -> str:
    """Return the median of the rounds, and their range."""
    text = f"{statistics.median(values):,.0f}"
    return text if min(values) == max(values) else f"{text} ({min(values):,}-{max(values):,})"


def rows(samples: Sequence[Sample]) -> Iterable[tuple[str, ...]]:
    """Yield a row of the table for each workload, and one of all lost messages."""
    for workload in (*WORKLOADS, DOWN):
        of_modes = [[one for one in samples if (one.workload, one.mode) == (workload.id, mode)] for mode in MODES]
        acknowledged = spread([sample.acknowledged for found in of_modes for sample in found])
        yield (workload.label, acknowledged, *(spread([sample.repeated for sample in found]) for found in of_modes))
    yield ("lost, in all", "", *(f"{sum(one.lost for one in samples if one.mode == mode):,}" for mode in MODES))


def main() -> int:
    """Measure and print; return 1 if a message was lost."""
    options = parse("failover_duplicates", __doc__, quick="one round instead of three, some minute and a half")
    machine = describe_machine(options.directory)
    samples = Switches(options.directory).measure(QUICK_ROUNDS if options.quick else FULL_ROUNDS)
    shutil.rmtree(options.directory)
    if options.output == "json":
        content = {"machine": machine, "samples": [asdict(sample) for sample in samples]}
        sys.stdout.write(json.dumps(content, indent=2) + "\n")
    else:
        table = Table("planned switch", "acknowledged before", *(f"repeated, {mode}" for mode in MODES))
        for row in rows(samples):
            table.add_row(*row)
        Console(width=100).print(table)
    return int(any(sample.lost for sample in samples))


if __name__ == "__main__":
    sys.exit(main())
