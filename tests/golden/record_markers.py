"""Record the markers of replicated subscriptions again: ``python -m tests.golden.record_markers [MOVE ...]``."""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pulsar

from magnetar.base.position import Position
from magnetar.wire.entries import markers
from magnetar.wire.entries.entry import parse_metadata
from tests.golden.marked_log import Logged, MarkedLogs, to_text
from tests.kit.bookie import entries_on_disk
from tests.kit.messages import numbered, publish, receive
from tests.kit.pulsar import PulsarClusters
from tests.kit.pulsar_jars import PulsarUnavailableError
from tests.kit.wait import PATIENCE_S, holds_for, wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kit.pulsar import PulsarStandalone

MARKERS = Path(__file__).parent / "markers"
NAMESPACE = "golden/markers"
TOPIC = f"persistent://{NAMESPACE}/t"
SUBSCRIPTION = "moves"
MESSAGES = 6
"""Number of messages published in each cluster with a consumer."""

QUIET_S = 2.5
"""Seconds without traffic after which no snapshot is in progress: one begins each second at most."""


@dataclass(frozen=True, slots=True)
class SubscriptionMove:
    """Clusters between which a subscription moves, from the first to the second."""

    name: str
    summary: str
    clusters: tuple[str, ...]


MOVES = (
    SubscriptionMove(
        "two_clusters", "A subscription moves from one to two; a snapshot takes one round.", ("one", "two")
    ),
    SubscriptionMove(
        "three_clusters",
        "A subscription moves from one to two, beside three; a snapshot takes two rounds.",
        ("one", "two", "three"),
    ),
)


def log_on_disk(server: PulsarStandalone, topic: str) -> tuple[Logged, ...]:
    """Return the topic's log in a cluster, including markers."""
    ledgers = [ledger["ledgerId"] for ledger in server.rest.internal_stats(topic)["ledgers"]]
    found = {
        Position(ledger_id, entry_id): entry
        for ledger_id, entry_id, entry in entries_on_disk(server.directory / "bookkeeper")
        if ledger_id in ledgers
    }
    return tuple(Logged(position, found[position]) for position in sorted(found))


def play(group: PulsarClusters) -> None:
    """Move a subscription from the first cluster to the second, and consume there until an update is sent."""
    first, second, *_ = names = list(group.members)
    group.make_namespace(NAMESPACE, names)
    for name in names:  # all clusters need the topic before the first snapshot
        group.client(name).create_producer(TOPIC).close()
    for here in (first, second):
        consumer = group.client(here).subscribe(
            TOPIC,
            SUBSCRIPTION,
            pulsar.ConsumerType.Shared,
            initial_position=pulsar.InitialPosition.Earliest,
            replicate_subscription_state_enabled=True,
        )
        publish(group.client(here), TOPIC, numbered(MESSAGES), batching_enabled=False)
        receive(consumer, MESSAGES, acknowledge=True)
        wait_until(partial(has_update, group.pulsars[here]), PATIENCE_S, what=f"an update in {here}", interval_s=0.2)
        consumer.close()


def has_update(server: PulsarStandalone) -> bool:
    """Return whether the cluster has sent an update of the subscription."""
    metadata = [parse_metadata(logged.entry) for logged in log_on_disk(server, TOPIC)]
    return any(part.marker_type == markers.UPDATE and not part.HasField("replicated_from") for part in metadata)


def is_carried(group: PulsarClusters) -> bool:
    """Return whether every cluster has replicated everything."""
    return not any(
        replication["replicationBacklog"]
        for server in group.pulsars.values()
        for replication in server.rest.stats(TOPIC)["replication"].values()
    )


def record(move: SubscriptionMove) -> MarkedLogs:
    """Run a move, and return the resulting logs."""
    with tempfile.TemporaryDirectory(prefix="markers-") as directory:
        group = PulsarClusters(Path(directory), move.clusters)
        try:
            with ThreadPoolExecutor() as starting:
                for started in [starting.submit(server.start) for server in group.servers()]:
                    started.result()
            play(group)
            quiet = partial(holds_for, partial(is_carried, group), QUIET_S, interval_s=0.2)
            wait_until(quiet, PATIENCE_S, what="all markers carried")
            return MarkedLogs(
                move.summary, {name: log_on_disk(server, TOPIC) for name, server in group.pulsars.items()}
            )
        finally:
            group.disconnect()
            for server in group.servers():
                server.kill_if_running()


def main(names: Sequence[str]) -> int:
    """Record the moves of these names, or all."""
    known = {move.name: move for move in MOVES}
    unknown = sorted(set(names) - set(known))
    if unknown:
        sys.stderr.write(f"error: no move {', '.join(unknown)}\nhint: there are {', '.join(known)}\n")
        return 2
    try:
        for name in names or known:
            sys.stderr.write(f"recording {name}\n")
            (MARKERS / f"{name}.txt").write_text(to_text(record(known[name])), encoding="utf-8")
    except PulsarUnavailableError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
