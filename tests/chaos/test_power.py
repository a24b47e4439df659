"""One broker whose machine loses power at random moments under load, on a disk that drops unsynced data.

``tests/kit/lossy_disk.py`` describes the disk. Ledgers and segments are tiny, so that publishing, acknowledging,
rollover, trimming and metadata writes are in progress at any moment. ``MAGNETAR_CHAOS_SEED`` repeats the random choices
of a run, ``MAGNETAR_CHAOS_POWER_LOSSES`` sets the number of power losses.
"""

from __future__ import annotations

import os
import random
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.chaos.mesh import SEED, say
from tests.chaos.test_one_broker import Acknowledger
from tests.kit.background import Background, within
from tests.kit.broker import Broker
from tests.kit.lossy_disk import LossyDisk, NoCompilerError, build_library
from tests.kit.messages import connect, entry_of, read_log
from tests.kit.raw import ClosedByPeerError, RawConnection, entry, name_of, part_of
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOSSES = int(os.environ.get("MAGNETAR_CHAOS_POWER_LOSSES", "30"))
RATE = 300
"""Messages per second on each topic."""

PAYLOAD_BYTES_MAX = 1000
"""Maximum size of a payload, so that a group of entries takes several pages."""

SETTINGS = {
    "managedLedgerMaxEntriesPerLedger": 60,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "logSizeLimit": 150_000,
    "diskReserveBytes": 100_000,
    "retentionCheckIntervalInSeconds": 1,
    "brokerDeduplicationEnabled": "true",
    "brokerDeduplicationEntriesInterval": 50,
    "brokerDeduplicationSnapshotIntervalSeconds": 1,
}
KEPT, TRIMMED = "persistent://public/kept/t", "persistent://public/trimmed/t"
TOPICS = (KEPT, TRIMMED)
UP_S = (0.0, 2.0)
"""Bounds of the time between the start of publishing and the kill, in seconds."""

STARTING_S = (0.0, 0.6)
"""Bounds of the time between the start of a process and a loss of power during recovery, in seconds."""

KILLED_FIRST, DOWN_AGAIN = 0.3, 0.3
"""Probabilities that a broker is killed and restarted before the loss of power, and loses power again in recovery."""

SYNCS_AHEAD_MAX = {".log": 100, ".sqlite-wal": 3}
"""By end of the file name, the maximum number of syncs until one fails."""

CLOSE_TIMEOUT_S = 60.0
"""Time limit for the official client's close, which has no time-out of its own."""

SUBSCRIPTION = "s"
SYNCED_FILES = ("log", "sqlite", "sqlite-wal")
"""Ends of the names of files with syncs in the journal; without them the journal does not cover all durable data."""

Position = tuple[int, int]
"""Ledger id and entry id."""

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300 + LOSSES * 30)]


class Publisher(Background):
    """Publishes consecutive numbers on one topic, and records the receipts.

    It does not resend. The official client would, but it cannot always be stopped after the permanent loss of its
    broker. After ``end``, messages without a receipt may be in the log or not.
    """

    def __init__(self, service_url: str, topic: str, first: int, chance: random.Random) -> None:
        """Start publishing."""
        super().__init__()
        self.receipted: dict[int, Position] = {}
        self.following = first
        """The next number."""
        self._service_url, self._topic, self._chance = service_url, topic, chance
        self.begin()

    def work(self) -> None:
        """See Background."""
        while not self.stopping.wait(0.02):
            with suppress(OSError, ClosedByPeerError), RawConnection.connected(self._service_url) as connection:
                connection.create_producer(self._topic)
                self._publish(connection)

    def _publish(self, connection: RawConnection) -> None:
        """Publish until the broker refuses a message, closes the producer, or dies."""
        started, first = time.monotonic(), self.following
        while not self.stopping.is_set():
            while self.following - first < (time.monotonic() - started) * RATE:
                payload = (b"%d" % self.following).ljust(self._chance.randrange(PAYLOAD_BYTES_MAX))
                sequence_id = self.following
                self.following += 1
                connection.send("SEND", entry(payload, sequence_id), producer_id=1, sequence_id=sequence_id)
            for frame in connection.gather(0.01):
                if name_of(frame) != "SEND_RECEIPT":
                    return
                receipt = part_of(frame)
                self.receipted[receipt.sequence_id] = (receipt.message_id.ledgerId, receipt.message_id.entryId)


class History:
    """The results that clients got on one topic, run by run; a run ends with the death of its broker."""

    def __init__(self) -> None:
        """Begin without runs."""
        self.receipted: dict[int, Position] = {}
        self.numbers: dict[Position, int] = {}
        """The message of each id, which must never change."""
        self.lost: set[int] = set()
        """Receipted messages that a loss of power removed."""
        self.delivered: set[int] = set()
        self.acknowledged: set[int] = set()
        """Messages with a receipt of their acknowledgement that survived a loss of power."""
        self.doubtful: set[int] = set()
        """Messages acknowledged since the last loss of power."""
        self.repeated = 0
        self.following = 0
        self.unsettled_from = 0
        """The first number published since the last loss of power."""

    def published(self, publisher: Publisher) -> None:
        """Add the results of a run's publisher."""
        self.receipted.update(publisher.receipted)
        self.following = publisher.following
        self.name(publisher.receipted)

    def name(self, positions: dict[int, Position]) -> None:
        """Raise AssertionError if an id stood for another message before."""
        for number, position in positions.items():
            assert self.numbers.setdefault(position, number) == number, f"{position} given again"

    def consumed(self, consumer: Acknowledger, *, synced: bool) -> None:
        """Add the results of a run's consumer; with ``synced`` no acknowledgement may be lost."""
        assert consumer.repeated == []
        repeated = consumer.delivered & self.acknowledged
        assert repeated == set(), "acknowledged before the last loss of power but one"
        again = consumer.delivered & self.doubtful
        assert not (synced and again), f"acknowledged, and delivered again: {sorted(again)}"
        self.repeated += len(again)
        self.doubtful -= again
        self.doubtful |= consumer.acknowledged
        self.delivered |= consumer.delivered
        if synced or max(consumer.delivered, default=-1) >= self.unsettled_from:
            # Older messages are delivered first, so acknowledgements that are not lost by now are durable.
            self.acknowledged |= self.doubtful - consumer.acknowledged

    def read(self, log: dict[int, Position], *, synced: bool) -> None:
        """Compare with the log after a loss of power; without ``synced`` the newest messages may be missing."""
        self.name(log)
        for number, position in log.items():
            assert self.receipted.get(number, position) == position, f"{number} has another id"
        lost = self.receipted.keys() - log.keys() - self.lost
        newest = max(log, default=-1)
        assert not (synced and lost), f"lost: {sorted(lost)}"
        assert all(number >= self.unsettled_from for number in lost), f"lost, though old: {sorted(lost)}"
        assert all(number > newest for number in lost), f"lost before {newest}: {sorted(lost)}"
        self.lost |= lost
        self.unsettled_from = self.following


class Machine:
    """A broker on a lossy disk, and its clients with their results."""

    def __init__(self, directory: Path, library: Path, chance: random.Random, *, synced: bool) -> None:
        """Start a broker with ``journalSyncData`` = ``synced``, and create the namespaces."""
        self.synced = synced
        self.chance = chance
        self.broker = Broker(directory / "broker", settings={**SETTINGS, "journalSyncData": str(synced).lower()})
        self.disk = LossyDisk(directory / "broker" / "data", directory / "disk", library, chance)
        self.broker.environment.update(self.disk.environment)
        self.histories = {topic: History() for topic in TOPICS}
        self.broker.start()
        self.broker.make_default_namespace()
        for namespace, limit in (("kept", -1), ("trimmed", 0)):
            self.broker.rest.put(f"namespaces/public/{namespace}", {})
            retention = {"retentionTimeInMinutes": limit, "retentionSizeInMB": limit}
            self.broker.rest.post(f"namespaces/public/{namespace}/retention", retention)
        for topic in TOPICS:  # without a subscription, messages of a topic without retention would be deleted
            self.broker.rest.put(f"{topic.replace('://', '/')}/subscription/{SUBSCRIPTION}", "earliest")

    def run_and_kill(self) -> None:
        """Publish and consume for a random time, and kill the broker."""
        url = self.broker.service_url
        consumers = {topic: Acknowledger(url, topic, self._spawn()) for topic in TOPICS}
        publishers: dict[str, Publisher] = {}
        try:
            for topic, history in self.histories.items():
                publishers[topic] = Publisher(url, topic, history.following, self._spawn())
            time.sleep(self.chance.uniform(*UP_S))
        finally:
            self.broker.kill()
            for publisher in publishers.values():
                publisher.end()
            for consumer in consumers.values():
                consumer.end()
        for topic, history in self.histories.items():
            history.consumed(consumers[topic], synced=self.synced)
            history.published(publishers[topic])

    def kill_first(self) -> None:
        """Restart the killed broker with all data of the kernel, and kill it again."""
        self.disk.settle()
        self.broker.start()
        self.run_and_kill()

    def lose_power(self) -> None:
        """Lose power, and maybe once more during recovery."""
        self.disk.lose_power()
        while self.chance.random() < DOWN_AGAIN:
            self.broker.launch()
            time.sleep(self.chance.uniform(*STARTING_S))
            self.broker.kill()
            self.disk.lose_power()
        if self.synced:
            self.broker.require_intact()

    def recover(self) -> None:
        """Start the broker, and compare its log with the results of the clients."""
        self.broker.start()
        self.histories[KEPT].read(self.read_log(), synced=self.synced)
        self.histories[TRIMMED].unsettled_from = self.histories[TRIMMED].following

    def read_log(self) -> dict[int, Position]:
        """Return the messages in the log of the topic with retention; they must be in order and unique."""
        client = connect(self.broker.service_url)
        try:
            messages = read_log(client, KEPT)
        finally:
            within(CLOSE_TIMEOUT_S, client.close, what="the end of a reader's client")
        numbers = [int(message.data()) for message in messages]
        assert numbers == sorted(set(numbers)), f"repeated, or out of order: {numbers[-300:]}"
        return {int(message.data()): entry_of(message.message_id()) for message in messages}

    def finish(self) -> None:
        """Consume everything that is left, stop the broker, and check its data directory."""
        for topic, history in self.histories.items():
            consumer = Acknowledger(self.broker.service_url, topic, self._spawn(), leaves_holes=False)
            try:
                wait_until(partial(self._is_consumed, topic), 120, what=f"all of {topic}")
            finally:
                consumer.end()
            history.consumed(consumer, synced=self.synced)
            if self.synced or topic == KEPT:
                assert history.receipted.keys() - history.lost - history.delivered == set()
        self.broker.stop()
        self.broker.require_intact()
        ledgers = [{ledger for ledger, _ in history.numbers} for history in self.histories.values()]
        assert set.intersection(*ledgers) == set(), "one ledger of two topics"
        figures = self.disk.figures
        assert all(figures.syncs[end] for end in SYNCED_FILES[0 if self.synced else 1 :]), figures

    def report(self, what: str) -> None:
        """Print the figures."""
        kept, trimmed = self.histories[KEPT], self.histories[TRIMMED]
        figures = self.disk.figures
        say(f"{what}: {figures.power_losses} losses of power, {figures.failed_syncs} failed syncs")
        say(f"receipted {len(kept.receipted)} messages, lost {len(kept.lost)}, ids given twice 0")
        say(f"delivered again after the receipt of their acknowledgement {kept.repeated + trimmed.repeated}")
        say(f"not synced when the power failed: {figures.unsynced_pages} pages, {figures.unsynced_entries} names")
        say(f"syncs: {', '.join(f'{count} of {end}' for end, count in sorted(figures.syncs.items()))}")

    def _spawn(self) -> random.Random:
        """Return a random generator for another thread."""
        return random.Random(self.chance.randrange(1 << 32))

    def _is_consumed(self, topic: str) -> bool:
        return self.broker.rest.backlog(topic, SUBSCRIPTION) == 0


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the journal's library; skip the tests if there is no C compiler."""
    try:
        return build_library(tmp_path_factory.mktemp("library"))
    except NoCompilerError as error:
        pytest.skip(str(error))


@contextmanager
def machine(directory: Path, library: Path, chance: random.Random, *, synced: bool = True) -> Iterator[Machine]:
    """Run the broker; kill all processes at the end."""
    found = Machine(directory, library, chance, synced=synced)
    try:
        yield found
    finally:
        found.broker.kill_if_running()
        found.broker.rest.close()


def test_power_loss_loses_nothing_that_was_receipted(tmp_path: Path, library: Path) -> None:
    say(f"\nMAGNETAR_CHAOS_SEED={SEED} MAGNETAR_CHAOS_POWER_LOSSES={LOSSES}")
    chance = random.Random(SEED)
    with machine(tmp_path, library, chance) as it:
        for _ in range(LOSSES):
            it.run_and_kill()
            if chance.random() < KILLED_FIRST:
                it.kill_first()
            it.lose_power()
            it.recover()
        it.finish()
        it.report("journalSyncData=true")


def test_power_loss_without_syncs_loses_only_what_is_recent(tmp_path: Path, library: Path) -> None:
    say(f"\nMAGNETAR_CHAOS_SEED={SEED} MAGNETAR_CHAOS_POWER_LOSSES={LOSSES}")
    chance = random.Random(SEED)
    with machine(tmp_path, library, chance, synced=False) as it:
        for _ in range(LOSSES):
            it.run_and_kill()
            it.lose_power()
            it.recover()
        it.finish()
        it.report("journalSyncData=false")


def test_power_loss_after_a_failed_sync_loses_nothing_that_was_receipted(tmp_path: Path, library: Path) -> None:
    """The kernel counts the pages of a failed sync as clean; the restarted broker must not."""
    say(f"\nMAGNETAR_CHAOS_SEED={SEED} MAGNETAR_CHAOS_POWER_LOSSES={LOSSES}")
    chance = random.Random(SEED)
    with machine(tmp_path, library, chance) as it:
        for _ in range(LOSSES // 2):
            end, most = chance.choice(sorted(SYNCS_AHEAD_MAX.items()))
            it.disk.fail_sync(chance.randint(1, most), end)
            it.run_and_kill()
            it.disk.fail_sync(0)
            it.kill_first()
            it.lose_power()
            it.recover()
        it.finish()
        it.report("failed syncs")
