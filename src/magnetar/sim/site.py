"""One cluster of the simulation: a running broker, and the storage that survives it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError, RequestError, StorageError
from magnetar.base.life import first_ledger_id
from magnetar.base.limits import MAX_MESSAGE_SIZE
from magnetar.base.position import Position
from magnetar.broker.delayed.store import DelayedStore
from magnetar.broker.domains import Domains
from magnetar.broker.environment import Environment
from magnetar.broker.housekeeping.maintenance import Maintenance
from magnetar.broker.loop.slices import at_once
from magnetar.broker.loop.turns import LoopTurns
from magnetar.broker.resources.memory import MemoryBudget
from magnetar.broker.resources.memory_limits import memory_limits
from magnetar.broker.session.server import Server, ServerProtocol
from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.topic.lifecycle import Event
from magnetar.broker.topic.registry import TopicRegistry
from magnetar.geo.progress.link import LinkOptions, ProgressLinks
from magnetar.ledger.agreement import bring_to_agreement, read_named_ledgers
from magnetar.ledger.local import LocalLedgerStore, LocalStoreOptions
from magnetar.ledger.medium.blocking import run_blocking
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.policies import ClusterData, TenantInfo
from magnetar.metadata.resources import Resources, managed_ledger_path
from magnetar.sim.cluster import MACHINE_BYTES, PORT, address_of
from magnetar.sim.limits import LEDGER_ENTRIES
from magnetar.sim.scenario import NAMESPACE
from magnetar.sim.virtual.committer import VirtualCommitter
from magnetar.sim.virtual.disk import FaultyDisk
from magnetar.sim.virtual.loop import HandClock
from magnetar.sim.virtual.metadata import FaultyMetadataStore
from magnetar.sim.virtual.scheduler import MachineLoop
from magnetar.sim.virtual.thread import HandThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from random import Random

    from magnetar.base.names import TopicName
    from magnetar.broker.topic.lifecycle import Lifecycle, State
    from magnetar.broker.topic.topic import Topic
    from magnetar.ledger.shared_log.log import Log, Operation, Report
    from magnetar.metadata.policies import Policies
    from magnetar.metadata.store import MetadataStore
    from magnetar.sim.scenario import Scenario
    from magnetar.sim.virtual.network import Network
    from magnetar.sim.virtual.scheduler import Scheduler
    from magnetar.sim.virtual.tap import Tap

FIRST_S = 0.5
"""Virtual seconds within which brokers start for the first time and create the topics."""

SEGMENT_BYTES = 16 << 10

_DIRECTORY = Path("ledgers")
_STORE = LocalStoreOptions(segment_bytes=SEGMENT_BYTES, tail_cache_bytes=1 << 20, ledger_id_block=64)
_LEDGERS = ManagedLedgerConfig(max_entries_per_ledger=LEDGER_ENTRIES, min_rollover_ms=0)
_LINKS = LinkOptions(interval_s=0.05, full_state_interval_s=5.0)


_REST_AFTER_MS = (50, 500, 5000)
"""Milliseconds after which links rest: one of these for each world."""


class Site:
    """A cluster with one broker. The disk and the metadata survive the broker."""

    def __init__(self, name: str, scenario: Scenario, scheduler: Scheduler, network: Network, tap: Tap[Site]) -> None:
        """Create the namespace of ``scenario``; ``start`` starts the broker."""
        self.name = name
        self.scenario = scenario
        self.replicas = {topic: Replica(self, topic) for topic in scenario.topics}
        self.clock = HandClock(scheduler)
        self.peers: dict[str, Site] = {}
        """All clusters by name, including this one."""
        self.policies = scenario.policies
        """The policies of the namespace on a new disk."""
        self.max_message_size = MAX_MESSAGE_SIZE
        """``maxMessageSize`` of the next start."""
        self.given_up: set[int] = set()
        """Ledgers of deleted topics that only damaged metadata named; not iterated."""
        self.unswept: set[int] = set()
        """Ledgers that the last start did not sweep, because metadata with ledger ids was unreadable; not iterated."""
        self.running = False
        self.crashes = 0
        self.topic_events: list[tuple[State, Event]] = []
        """Lifecycle events of topics that are not yet counted: the state before the event, and the event."""
        self.seem_older: list[tuple[float, float]] = []
        """Losses of power after which the broker cannot know that the clock was set ahead: the time on the monotonic
        clock, and the offset in seconds. All entries from before seem older by that offset.
        """
        self._ahead_s = 0.0
        self._unfinished: dict[ServerProtocol, list[Callable[[], None]]] = {}
        """By connection, the functions to call when the broker has handled all its input."""
        self._scheduler = scheduler
        self._network = network
        self._tap = tap
        self._set_up()

    def _set_up(self) -> None:
        """Create an empty disk, and metadata with the namespace."""
        self.disk = FaultyDisk()
        disk = (lambda: self.disk) if self.scenario.metadata_on_disk else None
        self.metadata = FaultyMetadataStore(self.clock, disk, lambda seconds: self.loop.wait(seconds))  # noqa: PLW0108
        self._delayed_store = DelayedStore(Path(":memory:"))
        resources = Resources.over(self.metadata)
        resources.tenants.create("public", TenantInfo())
        resources.namespaces.create(NAMESPACE, self.policies)

    def replace_disk(self) -> None:
        """Replace the storage while the broker is down, and set the clock to the latest time that it ever showed."""
        assert not self.running
        self.clock.jumped_s += max(0.0, self.clock.highest - self.clock.now())
        self._delayed_store.close()
        self._set_up()

    def start(self) -> None:
        """Start the broker with the data on the disk."""
        loop = self.loop = MachineLoop(self._scheduler, self.name, self._network)
        chance = self._network.chance
        first = first_ledger_id(self.clock.now())
        named = read_named_ledgers(self.metadata)
        options = replace(
            _STORE,
            first_ledger_id=first,
            named_ledger_id=named.highest,
            identity=f"{self.name}-{self.crashes}",
            sync=self.scenario.sync,
        )
        self.store = LocalLedgerStore(
            _DIRECTORY, self.disk, loop, options, committer=partial(self._make_committer, loop, chance)
        )
        loop.complete(self.store.open())
        link_options = replace(_LINKS, life=self.store.life)
        loss_boundaries = bring_to_agreement(self.store, self.metadata, named)
        self.metadata.serve(loop)
        self.unswept = set() if named.unreadable is None else set(self.store.list())
        self._delayed = HandThread(self._delayed_store, loop)
        config = self._config()
        self.environment = Environment(
            config=config,
            clock=self.clock,
            loop=loop,
            store=self.store,
            metadata=self.metadata,
            resources=Resources.over(self._documents(config)),
            links=ProgressLinks(self.name, address_of, self.clock, link_options),
            ledger_config=_LEDGERS,
            delayed=self._delayed,
            turns=LoopTurns(loop, self.clock),
            memory=MemoryBudget(memory_limits(config, MACHINE_BYTES)),
            loss_boundaries=loss_boundaries,
        )
        self.topics = TopicRegistry(self.environment, ClusterData(brokerServiceUrl=f"pulsar://{self.name}:{PORT}"))
        self.topics.observe(changed=self._topic_changed)
        self.maintenance = Maintenance(self.environment, self.topics)
        loop.create_task(self._serve())
        self.running = True

    def _topic_changed(self, _: Lifecycle, before: State, event: Event) -> None:
        self.topic_events.append((before, event))
        if event is Event.DRAINED:  # the last chance to read its log before a crash
            self._tap.committed(self)

    def _config(self) -> BrokerConfig:
        return _config(self.name, self.scenario, self.max_message_size)

    def _documents(self, _: BrokerConfig) -> MetadataStore:
        """Return the store that administration uses."""
        return self.metadata

    def crash(self, chance: Random) -> None:
        """Lose the process, and unsynced data of the disk."""
        self._end(chance)
        self.clock.boots += 1
        if self._ahead_s:
            self.seem_older.append((self.clock.monotonic(), self._ahead_s))
            self._ahead_s = 0.0
        self.disk.crash_in(chance.randint(1, 3), chance)
        self._committer.tear()
        self.disk = self.disk.after_crash or self.disk.crash(chance)

    def kill(self, chance: Random) -> None:
        """Lose the process, but no written data. A group in flight may be written as a whole."""
        self._end(chance)
        if chance.random() < 0.5:
            self._committer.tear()

    def set_clock(self, off_s: float) -> None:
        """Set the wall clock to an offset of ``off_s`` seconds from its initial setting."""
        self._ahead_s += max(0.0, off_s - self.clock.jumped_s)
        self.clock.jumped_s = off_s

    def _end(self, chance: Random) -> None:
        self.running = False
        self.crashes += 1
        self.loop.die()
        self._network.break_all_of(self.loop)
        self._delayed.crash()
        self.metadata = self.metadata.reopened(with_doubtful=chance.random() < 0.5)
        unfinished, self._unfinished = self._unfinished, {}
        for done in chain.from_iterable(unfinished.values()):
            done()

    @property
    def faults(self) -> tuple[int, int, int]:
        """Return a value that changes when the broker ends or one of its writes fails."""
        return self.crashes, self.disk.errors, self.metadata.failed_writes

    def close(self) -> None:
        """Release resources other than memory."""
        self._delayed_store.close()

    def create_topics(self) -> None:
        """Create missing topics and partitions."""
        for plan in self.scenario.plans:
            partitions = self.topics.partitions_of(plan.name)
            if plan.partitions and partitions in (None, plan.partitions):  # an earlier creation may have been refused
                at_once(self.topics.partitioned.creation(plan.name, plan.partitions, {}))
            elif partitions is None:
                self.topics.create(plan.name)
            elif partitions < plan.partitions:  # links create the partitions of other clusters that hold entries
                at_once(self.topics.partitioned.addition(plan.name, plan.partitions))

    async def have_topics(self) -> None:
        """Create missing topics and partitions; retry until that is possible."""
        while True:
            try:
                self.create_topics()
            except RequestError:  # a topic is being unloaded or deleted
                await asyncio.sleep(0.1)
            else:
                return

    def change_policies(self, change: Callable[[Policies], None]) -> None:
        """Change the namespace's policies now, or after the next start of the broker."""
        self.policies = self.policies.model_copy(deep=True)
        change(self.policies)
        if self.running:
            self.loop.create_task(self._apply_policies())

    async def _apply_policies(self) -> None:
        namespaces = self.environment.resources.namespaces
        while namespaces.get(NAMESPACE) != self.policies:
            try:
                await namespaces.update(NAMESPACE, lambda _: self.policies)
            except MagnetarError:  # the operator gets the error, and retries
                await asyncio.sleep(0.5)

    def _make_committer(
        self,
        loop: MachineLoop,
        chance: Random,
        log: Log,
        group_bytes: int,
        report: Report,
    ) -> VirtualCommitter:
        def reported(operations: Sequence[Operation], error: StorageError | None) -> None:
            report(operations, error)
            if error is None:
                loop.call_soon(self._tap.committed, self)  # after the callbacks of the entries

        self._committer = VirtualCommitter(loop, chance, log, group_bytes, reported)
        return self._committer

    async def _serve(self) -> None:
        site, tap = self, self._tap

        class TappedProtocol(ServerProtocol):
            def _handle(self, data: bytes, now: float) -> None:
                unfinished = site._unfinished.setdefault(self, [])
                if data:
                    unfinished.append(tap.received(site, self.session, data))
                super()._handle(data, now)
                if self._is_dropped or not (self._left or self._connection.decoder.has_more):
                    del site._unfinished[self]
                    for done in unfinished:
                        done()

            def write(self, frame: bytes) -> None:
                tap.sent(site, self.session, frame)
                super().write(frame)

        server = Server(self.environment, Domains(self.topics))
        server.protocol = TappedProtocol
        server.start()
        await server.listen(self.name, PORT)
        await self._apply_policies()
        if self._scheduler.now < FIRST_S:
            self.create_topics()
        await self.topics.linked.load_all()


@lru_cache(maxsize=16)
def _config(cluster: str, scenario: Scenario, max_message_size: int) -> BrokerConfig:
    return BrokerConfig(
        clusterName=cluster,
        maxMessageSize=max_message_size,
        acknowledgmentFlushIntervalMs=scenario.ack_flush_ms,
        brokerDeduplicationEnabled=scenario.deduplication,
        brokerDeduplicationEntriesInterval=10,
        diskLowWaterBytes=0,
        activeConsumerFailoverDelayTimeMillis=100,
        replicationRestAfterMs=_REST_AFTER_MS[scenario.seed % len(_REST_AFTER_MS)],
        delayedDeliveryTickTimeMillis=100,
        **({} if scenario.markers is None else scenario.markers.settings),
    )


class Replica:
    """A view of one topic in one cluster for the checks, also valid while the topic is unloaded or the broker down."""

    def __init__(self, site: Site, name: TopicName) -> None:
        """Create a view of the topic ``name`` of ``site``."""
        self.site = site
        self.name = name

    @property
    def cluster(self) -> str:
        """Return the cluster's name."""
        return self.site.name

    @property
    def crashes(self) -> int:
        """Return the number of crashes of the broker."""
        return self.site.crashes

    @property
    def topic(self) -> Topic | None:
        """Return the topic if it is loaded."""
        return self.site.topics.loaded.get(self.name) if self.site.running else None

    @property
    def is_unloading(self) -> bool:
        """Return whether the topic rejects clients until it is loaded again."""
        return self.site.topics.is_shut(self.name)

    def has_listed(self, position: Position) -> bool:
        """Return whether the topic's ledger list has the ledger of a position, and not if it was trimmed or lost."""
        topic = self.topic
        if topic is not None and position < topic.ledger.first_position:
            return False  # trimmed, perhaps before the list without it is durable
        return position.ledger_id in self.listed()

    def listed(self) -> list[int]:
        """Return the ids in the topic's ledger list in the metadata, whether the broker runs or not."""
        stored = self.site.metadata.written(managed_ledger_path(self.name))
        return [] if stored is None else [each["ledgerId"] for each in json.loads(stored.value).get("ledgers", ())]

    def has_stored(self, position: Position) -> bool:
        """Return whether the broker's store has an entry at a position of the topic."""
        try:
            return position.entry_id < self.site.store.length(position.ledger_id)
        except StorageError:
            return False

    def durable_entries(self, after: Position) -> Iterator[tuple[Position, bytes]]:
        """Yield the durable entries after ``after``, from the disk if they are no longer in memory.

        Damaged entries are yielded as they were written.
        """
        topic, store = self.topic, self.site.store
        if topic is None:
            return
        last = topic.ledger.last_confirmed_entry
        for ledger in topic.ledger.ledgers():
            position = Position(ledger.ledger_id, after.entry_id + 1 if ledger.ledger_id == after.ledger_id else 0)
            if ledger.ledger_id < after.ledger_id or position > last or not self.has_stored(position):
                continue
            end = last.entry_id + 1 if ledger.ledger_id == last.ledger_id else store.length(ledger.ledger_id)
            while position.entry_id < end:
                entries = store.read_cached(*position, 1000, 1 << 20)
                if entries is None:
                    with self.site.disk.intact():
                        entries = run_blocking(store._reader.read, *position, 1000, 1 << 20)  # noqa: SLF001 - without waiting
                if not entries:  # the topic counts entries that the store does not have
                    return
                for entry in entries[: end - position.entry_id]:
                    yield position, entry
                    position = position._replace(entry_id=position.entry_id + 1)
