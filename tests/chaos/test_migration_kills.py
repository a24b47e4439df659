"""A tenant moves there and back until 30 processes were killed at random moments, and the audit is clean at the end.

The migrator, the pipeline, a broker, or one of two instances of the lookup service is killed. Stock clients publish
and consume all the time. ``MAGNETAR_CHAOS_SEED`` repeats the random choices of a run, ``MAGNETAR_CHAOS_KILLS`` sets the
number of kills.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.chaos.mesh import RECOVERY_TIMEOUT_S, SEED, say
from tests.kit.lookup import Instance
from tests.kit.migration import Migrator, before_a_move
from tests.kit.traffic import Traffic
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.kit.child import ChildProcess
    from tests.kit.clusters import LocalClusters

KILLS = int(os.environ.get("MAGNETAR_CHAOS_KILLS", "30"))
NAMESPACE = "shop/orders"
TOPICS = [f"persistent://{NAMESPACE}/{number}" for number in range(4)]
PARTITIONS = {TOPICS[0]: 2}
MOVES = {"switch": "switched", "rollback": "ready"}
"""By command, the step at its end."""

MIGRATOR = "migrator"
PAUSE_S = (0.1, 8.0)
"""Bounds of the time between two kills, in seconds; short times are more frequent."""

KILLS_PER_COMMAND = 3
"""Maximum number of kills until a command has done its work, so that all commands meet some."""

ATTEMPTS = 10
"""Attempts at a command without a kill, of which one must succeed."""

pytestmark = [pytest.mark.chaos, pytest.mark.timeout((KILLS + 5) * RECOVERY_TIMEOUT_S)]


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[LocalClusters]:
    """Two clusters with a pipeline; the tenant exists in ewr only, and its producers are deduplicated."""
    with before_a_move(tmp_path, NAMESPACE, make_topics) as running:
        yield running


def make_topics(clusters: LocalClusters) -> None:
    clusters.rest("ewr").post(f"namespaces/{NAMESPACE}/deduplication", True)
    for topic, partitions in PARTITIONS.items():
        clusters.rest("ewr").put(f"{topic.replace('://', '/')}/partitions", partitions)


@pytest.fixture
def lookups(clusters: LocalClusters) -> Iterator[list[Instance]]:
    urls = [member.admin_url for member in clusters.members.values()]
    instances = [Instance(clusters.directory / f"lookup-{number}", urls).start() for number in range(2)]
    yield instances
    for each in instances:
        each.kill()


class Killer:
    """Kills processes at random moments, and starts them again."""

    def __init__(self, clusters: LocalClusters, lookups: Sequence[Instance], chance: random.Random) -> None:
        self._chance = chance
        self._clusters = clusters
        self.counts: Counter[str] = Counter()
        self._restarts: dict[str, Callable[[], object]] = {
            "pipeline": self._restart_pipeline,
            **{f"broker {name}": broker.restart for name, broker in clusters.brokers.items()},
            **{f"lookup {number}": lookup.restart for number, lookup in enumerate(lookups)},
        }

    @property
    def kills(self) -> int:
        return self.counts.total()

    def until_the_end(self, migrator: ChildProcess, kills_max: int) -> int | None:
        """Kill processes until the migrator has ended; return its exit status, negative if it was killed."""
        while self.kills < min(KILLS, kills_max):
            low, high = PAUSE_S
            due = time.monotonic() + low * (high / low) ** self._chance.random()
            while time.monotonic() < due:
                if migrator.exit_status is not None:
                    return migrator.exit_status
                time.sleep(0.02)
            name = self._chance.choice([MIGRATOR, *self._restarts])
            self.counts[name] += 1
            say(f"kill {self.kills} during {migrator.name}: {name}")
            if name == MIGRATOR:
                migrator.kill()
            else:
                self._restarts[name]()
        wait_until(lambda: migrator.exit_status is not None, RECOVERY_TIMEOUT_S, what=f"end of {migrator.name}")
        return migrator.exit_status

    def _restart_pipeline(self) -> None:
        self._clusters.kill_pipeline()
        self._clusters.start_pipeline()  # replication goes on later, so other kills meet its start, too


def test_a_migration_resumes_after_kills(clusters: LocalClusters, lookups: list[Instance]) -> None:
    say(f"\nMAGNETAR_CHAOS_SEED={SEED} MAGNETAR_CHAOS_KILLS={KILLS}")
    killer = Killer(clusters, lookups, random.Random(SEED))
    migrator = Migrator("shop", clusters.brokers["ewr"], clusters.brokers["jfk"], clusters.directory / "migration")
    service_url = ",".join([lookups[0].service_url, lookups[1].service_url.removeprefix("pulsar://")])
    traffic = Traffic(service_url, TOPICS, send_timeout_millis=0)
    moves = 0
    try:
        while moves == 0 or killer.kills < KILLS:
            for command in ("run", "verify", "switch", "rollback"):
                perform(migrator, command, killer)
            moves += 2
            before = traffic.published
            wait_until(lambda: traffic.failures or traffic.published > before + 100, 60, what="traffic")  # noqa: B023
        perform(migrator, "run", killer)
        assert migrator.run("verify")["verdict"] == "equal"
    finally:
        traffic.stop()
    repeated = {name: traffic.repeated(name) for name in traffic.received}
    say(f"{traffic.published} messages, {moves} moves, kills {dict(killer.counts)}, delivered again {repeated}")
    assert traffic.failures == []
    for subscription, received in traffic.received.items():
        assert len(received) == traffic.published, f"{subscription} has lost messages"
    assert traffic.out_of_order == []


def perform(migrator: Migrator, command: str, killer: Killer) -> None:
    """Run a command again and again until it has done its work."""
    without_kill, kills_max = 0, killer.kills + KILLS_PER_COMMAND
    while True:
        kills = killer.kills
        process = migrator.start(command, f"{command}-{kills}")
        status = killer.until_the_end(process, kills_max)
        say(f"{command} ended with {status}")
        if status == 0 and migrator.run("status")["step"] == MOVES.get(command, "ready"):
            return
        without_kill = without_kill + 1 if kills == killer.kills else 0
        assert without_kill < ATTEMPTS, process.log.read_text(errors="replace")[-3000:] + process.output.read_text()
