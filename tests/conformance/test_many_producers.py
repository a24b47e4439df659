"""Deduplication with very many producers: all of them are known after ``kill -9``."""

from __future__ import annotations

import random
import sys
import time
from typing import TYPE_CHECKING

import pytest

from magnetar.base.position import EARLIEST, Position
from magnetar.wire import commands
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.message_id import position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.broker import Broker
from tests.kit.raw import RawConnection, name_of

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "persistent://public/default/many"
SETTINGS = {
    "brokerDeduplicationEnabled": "true",
    "managedLedgerMaxEntriesPerLedger": 10_000,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "retentionCheckIntervalInSeconds": 5,  # so that the log alone has not all sequence ids
}
PER_WRITE = 1000
SAMPLES = 300
BYTES_PER_PRODUCER_MAX = 600
"""Maximum memory of the broker per known producer after a restart."""

_SLACK_BYTES = 100 << 20
"""Growth of a broker that is independent of the number of producers."""


def name_at(number: int) -> str:
    return f"service-{number % 97:02d}/instance-{number:07d}"


def last_at(number: int) -> int:
    return 5 + number


def entry_at(number: int) -> bytes:
    """Return an entry of a different producer for each number, as carried by a link from another cluster."""
    metadata = pb.MessageMetadata(producer_name=name_at(number), sequence_id=last_at(number), publish_time=1)
    previous = Position(1, number - 1) if number else EARLIEST
    return stamp(build_entry(metadata, b""), Origin("elsewhere", Position(1, number), previous, previous))


def replicate(service_url: str, producers: int) -> None:
    """Replicate one message of each producer."""
    with RawConnection.connected(service_url) as link:
        link.create_producer(TOPIC, producer_name="pulsar.repl.elsewhere-->standalone")
        for first in range(0, producers, PER_WRITE):
            numbers = range(first, min(first + PER_WRITE, producers))
            link.socket.sendall(
                b"".join(commands.send(producer_id=1, sequence_id=each, entry=entry_at(each)) for each in numbers)
            )
            receipts = 0
            while receipts < len(numbers):
                frames = [frame for frame in link.gather(20) if name_of(frame) != "PONG"]
                assert {name_of(frame) for frame in frames} <= {"SEND_RECEIPT"}
                receipts += len(frames)


@pytest.mark.parametrize(
    "producers", [20_000, pytest.param(1_000_000, marks=[pytest.mark.long, pytest.mark.timeout(900)])]
)
def test_every_producer_is_known_after_kill_9(tmp_path: Path, producers: int) -> None:
    chance = random.Random(producers)
    with Broker(tmp_path, settings=SETTINGS) as broker:
        fresh = broker.resident_bytes()
        replicate(broker.service_url, producers)
        grown = broker.resident_bytes()
        broker.kill()
        broker.start()
        started = time.monotonic()
        with RawConnection.connected(broker.service_url) as client:
            client.create_producer(TOPIC, producer_name=name_at(0))
            took = time.monotonic() - started
            known = broker.resident_bytes()
            for producer_id, number in enumerate(chance.sample(range(1, producers), SAMPLES), start=2):
                success = client.create_producer(TOPIC, producer_id=producer_id, producer_name=name_at(number))
                assert success.last_sequence_id == last_at(number)
                receipt = client.publish(b"again", producer_id=producer_id, sequence_id=last_at(number))
                assert position_of(receipt.message_id) == EARLIEST
        sys.stdout.write(
            f"\n{producers} producers: {grown >> 20} MiB before kill -9 ({fresh >> 20} when fresh), "
            f"{known >> 20} MiB after it; known again in {took:.2f} s\n"
        )
        assert known - fresh <= BYTES_PER_PRODUCER_MAX * producers + _SLACK_BYTES
