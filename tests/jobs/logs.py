"""Logs of two clusters that no pipeline connects: the second one has what the test writes into it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magnetar.base.position import EARLIEST, Position
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.raw import RawConnection

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tests.kit.broker import Broker
    from tests.kit.one_process import OneProcess

WINDOW = 500
"""Entries without a receipt."""

PER_BATCH = 4
AUDIT_TIMEOUT_S = 200.0


def entry(number: int, payload: bytes = b"flight") -> bytes:
    """Return the entry with this number, a batch, as its producer sends it."""
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=number, publish_time=1_700_000_000_000 + number, num_messages_in_batch=PER_BATCH
    )
    return build_entry(metadata, payload * 10)


def publish(broker: Broker, topic: str, entries: Iterable[bytes]) -> list[Position]:
    """Publish entries; return their positions."""
    positions: list[Position] = []
    with RawConnection.connected(broker.service_url) as connection:
        connection.create_producer(topic, 1, producer_name="p")
        sent = 0

        def receive() -> None:
            receipt = connection.expect("SEND_RECEIPT")
            positions.append(Position(receipt.message_id.ledgerId, receipt.message_id.entryId))

        for sent, each in enumerate(entries, 1):
            connection.send("SEND", each, producer_id=1, sequence_id=sent, num_messages=PER_BATCH)
            if sent - len(positions) >= WINDOW:
                receive()
        while len(positions) < sent:
            receive()
    return positions


def stamped(entries: Sequence[bytes], positions: Sequence[Position], source: str = "ewr") -> list[bytes]:
    """Return entries as a pipeline writes them in a target."""
    previous = [EARLIEST, *positions[:-1]]
    return [
        stamp(each, Origin(source, place, before))
        for each, place, before in zip(entries, positions, previous, strict=True)
    ]


def acknowledge(broker: Broker, topic: str, subscription: str, positions: Iterable[tuple[Position, int]]) -> None:
    """Acknowledge entries of a replicated subscription, which is created; bits are the messages that remain."""
    path = f"persistent/{topic.partition('://')[2]}/subscription/{subscription}"
    broker.rest.put(f"{path}?replicated=true", "earliest")
    with RawConnection.connected(broker.service_url) as connection:
        connection.subscribe(topic, subscription, replicate_subscription_state=True)
        ids = [
            pb.MessageIdData(
                ledgerId=place.ledger_id,
                entryId=place.entry_id,
                ack_set=[bits] if bits else [],
                batch_size=PER_BATCH if bits else 0,
            )
            for place, bits in positions
        ]
        for first in range(0, len(ids), WINDOW):
            connection.acknowledge(*ids[first : first + WINDOW])


@dataclass(frozen=True)
class Audited:
    """The result of the command."""

    status: int
    report: dict[str, Any]
    log: str

    def findings(self) -> list[tuple[str, str, str | None, int]]:
        """Return kind, cluster, origin position and number of entries of the findings, sorted."""
        return sorted(
            (each["kind"], each["cluster"], each.get("originPosition"), each.get("entries"))
            for each in self.report["findings"]
        )

    def counts(self, name: str) -> dict[str, int]:
        """Return a count by cluster."""
        return {each["cluster"]: each[name] for each in self.report["topics"]}


def audit(commands: OneProcess, clusters: dict[str, Broker], *arguments: str, work: Path) -> Audited:
    """Run the command with ``arguments`` in the process of ``commands``."""
    done = commands.run(audit_command(clusters, *arguments, work=work), AUDIT_TIMEOUT_S)
    return Audited(done.status, json.loads(done.output) if done.output else {}, done.log)


def audit_command(clusters: dict[str, Broker], *arguments: str, work: Path) -> list[str]:
    """Return the arguments of ``magnetar``."""
    named = ",".join(f"{name}={broker.admin_url}" for name, broker in clusters.items())
    options = ["--clusters", named, "--master", "local[2]", "--work-dir", str(work / "work"), "--output", "json"]
    return ["pipeline", "audit", *options, "--settle-seconds", "1", *arguments]
