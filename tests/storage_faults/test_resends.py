"""Loss of power at any moment while producers resend: each message is stored once, receipted ones are known."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.errors import StorageError
from magnetar.base.real import SystemClock
from magnetar.broker.delayed.store import DelayedStore
from magnetar.broker.delayed.thread import StoreThread
from magnetar.broker.domains import Domains
from magnetar.broker.environment import Environment
from magnetar.broker.housekeeping.trimming import trimming
from magnetar.broker.loop.turns import LoopTurns
from magnetar.broker.resources.memory import MemoryBudget
from magnetar.broker.resources.memory_limits import memory_limits
from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.topic.registry import TopicRegistry
from magnetar.geo.progress.link import LinkOptions
from magnetar.ledger.local import LocalLedgerStore, LocalStoreOptions
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.metadata.policies import ClusterData, Policies, TenantInfo
from magnetar.metadata.resources import Resources
from magnetar.sim.cluster import NAMESPACE, TOPIC, Client, NoLinks, entry
from magnetar.sim.virtual.disk import FaultyDisk
from magnetar.wire import commands
from magnetar.wire.entries.entry import parse_metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.broker.topic.topic import Topic

DIRECTORY = Path("/log")
OPTIONS = LocalStoreOptions(segment_bytes=3000, tail_cache_bytes=3000, ledger_id_block=256, group_bytes=600)
LEDGERS = ManagedLedgerConfig(max_entries_per_ledger=6, min_rollover_ms=0)
CONFIG = BrokerConfig(clusterName="ewr", brokerDeduplicationEnabled=True, brokerDeduplicationEntriesInterval=3)
NAMES = ("a", "b")


class Broker:
    """The parts of a broker on a disk that will lose power; clients use it like a cluster."""

    def __init__(self, disk: FaultyDisk, metadata: MemoryMetadataStore) -> None:
        """Create the broker; ``open`` starts it."""
        loop = asyncio.get_running_loop()
        self.clock = SystemClock()
        self.store = LocalLedgerStore(DIRECTORY, disk, loop, OPTIONS)
        self.environment = Environment(
            config=CONFIG,
            clock=self.clock,
            loop=loop,
            store=self.store,
            metadata=metadata,
            resources=Resources.over(metadata),
            links=NoLinks("ewr", lambda _: None, self.clock, LinkOptions(interval_s=1, full_state_interval_s=1)),
            ledger_config=LEDGERS,
            delayed=StoreThread(DelayedStore(Path(":memory:")), loop),
            turns=LoopTurns(loop, self.clock),
            memory=MemoryBudget(memory_limits(CONFIG, 1 << 30)),
        )
        self.topics = TopicRegistry(self.environment, ClusterData())
        self.domains = Domains(self.topics)

    async def open(self) -> None:
        """Open the disk; raises StorageError after a loss of power."""
        await self.store.open()

    @property
    def is_up(self) -> bool:
        return self.store.state.healthy

    def do(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - as a cluster does
        return work()

    async def wait_for(self, client: Client, name: str) -> Any | None:  # noqa: ANN401 - a command's body
        """Return the next command with this name; None if power is lost first."""
        while self.is_up:
            for command in client.take(name):
                return command
            await asyncio.sleep(0)
        return None


class ResendScenario:
    """Producers that resend from any point, through several losses of power."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.metadata = MemoryMetadataStore(SystemClock())
        resources = Resources.over(self.metadata)
        resources.tenants.create("public", TenantInfo())
        resources.namespaces.create(NAMESPACE, Policies(replication_clusters=["ewr"]))
        self.receipted = dict.fromkeys(NAMES, 0)
        self.sent = dict.fromkeys(NAMES, 0)

    async def run(self, crashes: int) -> None:
        problems: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        disk = FaultyDisk()
        for _ in range(crashes):
            disk = await self.live_and_crash(disk)
        assert problems == []
        assert max(self.receipted.values()) > 0

    async def live_and_crash(self, disk: FaultyDisk) -> FaultyDisk:
        disk.crash_in(self.chance.randint(10, 200), self.chance)
        broker = Broker(disk, self.metadata)
        try:
            await broker.open()
        except StorageError:
            assert disk.after_crash is not None
            return disk.after_crash
        clients = {name: Client(broker) for name in NAMES}  # type: ignore[arg-type]
        for name, client in clients.items():
            client.produce(name=name)
            success = await broker.wait_for(client, "PRODUCER_SUCCESS")
            if success is not None:
                assert self.receipted[name] <= max(success.last_sequence_id, 0) <= self.sent[name]
                self.sent[name] = max(success.last_sequence_id, 0)
        topic = broker.topics.loaded.get(TOPIC)
        if topic is not None and broker.is_up:
            await self.check_log(topic)
        while broker.is_up:
            self.step(broker, *self.chance.choice(list(clients.items())))
            for _ in range(self.chance.choice((0, 0, 1, 5))):
                await asyncio.sleep(0)
            self.take_receipts(clients)
        await broker.store.close()
        self.take_receipts(clients)
        assert disk.after_crash is not None
        return disk.after_crash

    def step(self, broker: Broker, name: str, client: Client) -> None:
        if self.chance.random() < 0.05 and TOPIC in broker.topics.loaded:
            list(trimming(broker.topics.loaded[TOPIC]))
            return
        first = self.chance.randint(max(1, self.sent[name] - 5), self.sent[name] + 1)
        numbers = range(first, first + self.chance.randint(1, 4))
        if 1 in client.session.producers:
            self.sent[name] = max(self.sent[name], numbers[-1])
            client.say(
                *(
                    commands.send(
                        producer_id=1, sequence_id=each, entry=entry("", producer_name=name, sequence_id=each)
                    )
                    for each in numbers
                )
            )

    def take_receipts(self, clients: dict[str, Client]) -> None:
        for name, client in clients.items():
            for sequence_id, _ in client.receipts():
                self.receipted[name] = max(self.receipted[name], sequence_id)

    async def check_log(self, topic: Topic) -> None:
        """Check that the log has consecutive messages of each producer, up to the last known one."""
        found: dict[str, list[int]] = {name: [] for name in NAMES}
        position = topic.ledger.first_position
        while entries := await topic.ledger.read(position, 10, 1 << 20):
            for _, stored in entries:
                metadata = parse_metadata(stored)
                found[metadata.producer_name].append(metadata.sequence_id)
            position = topic.ledger.next_position(entries[-1][0])
        for name, numbers in found.items():
            last = topic.deduplication.last_sequence_id(name)
            assert numbers == list(range(last - len(numbers) + 1, last + 1)), name


@pytest.mark.parametrize("seed", range(25))
def test_each_message_survives_once(seed: int) -> None:
    asyncio.run(ResendScenario(seed).run(crashes=8))
