"""Objects that all parts of one broker share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from magnetar.broker.loop.cycles import Retired
from magnetar.broker.loop.slices import SharedSlices, SlicedWork
from magnetar.broker.loop.stalls import LoopStalls
from magnetar.broker.resources.client_limits import ConnectionLimits, LookupsInFlight
from magnetar.broker.resources.connection_counts import ConnectionCounts
from magnetar.broker.resources.limit_hits import LimitHits
from magnetar.broker.resources.namespace_totals import NamespaceTotals
from magnetar.broker.resources.objects import ObjectMemory
from magnetar.broker.resources.tenant_rates import TenantRates
from magnetar.broker.resources.token_bucket import Rate
from magnetar.broker.schemas.registry import SchemaRegistry
from magnetar.broker.settings.sections.authorization import names_in, replicators_in
from magnetar.broker.settings.topic_policies import PoliciesOfTopics
from magnetar.cursor.limits import CursorLimits
from magnetar.geo.losses import Losses
from magnetar.geo.resting_links import RestingLinks
from magnetar.geo.snapshots.controller import SnapshotCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.authorization.access import Access
    from magnetar.base.errors import StorageError
    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.base.world import Clock
    from magnetar.broker.audit.log import AuditLog
    from magnetar.broker.authentication.authentication import Authentication
    from magnetar.broker.delayed.thread import StoreThread
    from magnetar.broker.loop.turns import LoopTurns
    from magnetar.broker.resources.memory import MemoryBudget
    from magnetar.broker.settings.config import BrokerConfig
    from magnetar.geo.progress.link import ProgressLinks
    from magnetar.ledger.rollover import ManagedLedgerConfig
    from magnetar.ledger.store import LedgerStore
    from magnetar.metadata.resources import Resources
    from magnetar.metadata.store import MetadataStore
    from magnetar.security.audit import AuditEvent


@dataclass(frozen=True, slots=True)
class Environment:
    """Settings, clock, storage and peers; created by the composition root."""

    config: BrokerConfig
    clock: Clock
    loop: asyncio.AbstractEventLoop
    store: LedgerStore
    metadata: MetadataStore
    resources: Resources
    links: ProgressLinks
    ledger_config: ManagedLedgerConfig
    delayed: StoreThread
    turns: LoopTurns
    """The queue of work for clients that is done in turns of the event loop."""
    memory: MemoryBudget
    """Memory held for clients."""
    resident_bytes: Callable[[], int] = lambda: 0
    allocated_blocks: Callable[[], int] = lambda: 0
    """Measure the memory of the process (``ObjectMemory``). The defaults, for simulated brokers, reach no limit."""
    stalls: LoopStalls = field(default_factory=LoopStalls)
    loss_boundaries: Sequence[int] = ()
    """Ledger ids, ascending: confirmed entries in lower ledgers may be lost (see ``bring_to_agreement``)."""
    limit_hits: LimitHits = field(default_factory=LimitHits)
    connections: ConnectionCounts = field(default_factory=ConnectionCounts)
    authentication: Authentication | None = None
    """Authentication of clients; None if each client may connect."""
    access: Access | None = None
    """Permissions of roles; None if each client may do everything."""
    audit: AuditLog | None = None
    """Denials and administrative changes; None without ``auditLogFile``."""
    snapshots: SnapshotCounts = field(default_factory=SnapshotCounts)
    """Snapshots of all topics since the start, also of topics that are not loaded any more."""
    sliced: SlicedWork[object, Any] = field(init=False)
    """Sliced work on many consumers and producers."""
    slices: SharedSlices = field(init=False)
    """Sliced work of large requests."""
    searching: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by a search by publish time while it reads and examines entries. Searches take turns, so that neither their
    memory nor their work in one turn of the event loop adds up."""
    retired: Retired = field(init=False)
    """Closed objects that are to be freed."""
    objects: ObjectMemory = field(init=False)
    """Memory for further topics and clients."""
    started_with: BrokerConfig = field(init=False)
    """The settings of the start, without changes at run time."""
    policies: PoliciesOfTopics = field(init=False)
    schemas: SchemaRegistry = field(init=False)
    """The schemas of the topics."""
    totals: NamespaceTotals = field(init=False)
    """Counters of the namespaces."""
    resting_links: RestingLinks = field(init=False)
    """The links of all topics, with those that have nothing to carry."""
    losses: Losses = field(init=False)
    """The topics that this cluster has lost since the start of the broker."""

    connection_limits: ConnectionLimits = field(init=False)
    lookups: LookupsInFlight = field(init=False)
    tenant_rates: TenantRates = field(init=False)
    """The publish rate of the broker."""

    def __post_init__(self) -> None:
        """Create the queues of sliced work, and the limits of clients."""
        config = self.config
        exempt = frozenset((*names_in(config.superUserRoles), *replicators_in(config.replicatorRoles)))
        per_address, per_role = config.brokerMaxConnectionsPerIp, config.brokerMaxConnectionsPerRole
        object.__setattr__(self, "connection_limits", ConnectionLimits(per_address, per_role, exempt))
        object.__setattr__(self, "lookups", LookupsInFlight(config.maxConcurrentLookupRequest))
        rate = Rate(config.brokerPublisherThrottlingMaxMessageRate, config.brokerPublisherThrottlingMaxByteRate)
        object.__setattr__(self, "tenant_rates", TenantRates(rate, self.clock.monotonic()))
        object.__setattr__(self, "started_with", self.config)
        object.__setattr__(self, "sliced", SlicedWork(self.loop, self.clock))
        object.__setattr__(self, "slices", SharedSlices(self.loop, self.clock))
        measures = self.resident_bytes, self.allocated_blocks, self.allocated_blocks()
        object.__setattr__(self, "objects", ObjectMemory(self.memory.limits.total, self.clock, *measures))
        object.__setattr__(self, "retired", Retired(self.loop, self.clock, self.sliced))
        object.__setattr__(self, "policies", PoliciesOfTopics(self.config, self.resources))
        object.__setattr__(self, "schemas", SchemaRegistry(self.config, self.metadata, self.loop))
        object.__setattr__(self, "totals", NamespaceTotals(self.resources.namespaces))
        object.__setattr__(self, "resting_links", RestingLinks(self.loop, self.sliced, self._rest_after_s))
        object.__setattr__(self, "losses", Losses(f"{self.store.life}@{self.clock.now():.6f}"))

    def _rest_after_s(self) -> float:
        return self.config.replicationRestAfterMs / 1000

    def reconfigure(self, config: BrokerConfig) -> None:
        """Use other values of dynamic settings from now on."""
        object.__setattr__(self, "config", config)
        self.policies.reconfigure(config)

    def record(self, event: AuditEvent) -> None:
        """Record an event in the audit log, if there is one."""
        if self.audit is not None:
            self.audit.record(event)

    @property
    def cursor_limits(self) -> CursorLimits:
        """Limits of the persisted state of each cursor."""
        config = self.config
        return CursorLimits(
            record_bytes_max=config.managedLedgerMaxCursorRecordSizeBytes,
            unacked_ranges_max=config.managedLedgerMaxUnackedRangesToPersist,
            batch_deleted_max=config.managedLedgerMaxBatchDeletedIndexToPersist,
            metadata_ranges_max=config.managedLedgerMaxUnackedRangesToPersistInMetadataStore,
        )

    @property
    def cluster(self) -> str:
        """The name of this cluster."""
        return self.config.clusterName

    def targets_of(self, namespace: NamespaceName) -> list[str]:
        """Return the other clusters that a namespace is replicated to; empty if it excludes this cluster."""
        policies = self.resources.namespaces.get(namespace)
        if policies is None or self.cluster not in policies.replication_clusters:
            return []
        return sorted(set(policies.replication_clusters) - {self.cluster})

    def targets_of_topic(self, topic: TopicName) -> list[str]:
        """Return the other clusters that a topic is replicated to: those of its own policy, or of its namespace."""
        own = self.own_targets_of(topic)
        return self.targets_of(topic.namespace_name) if own is None else own

    def own_targets_of(self, topic: TopicName) -> list[str] | None:
        """Return the other clusters in the policy of a topic; None if it names none, so that its namespace decides."""
        own = self.resources.topic_policies.get(topic)
        if own is None or not own.replicationClusters:
            return None
        if self.cluster not in own.replicationClusters or not self.resources.namespaces.exists(topic.namespace_name):
            return []
        return sorted(set(own.replicationClusters) - {self.cluster})

    async def durable(self) -> None:
        """Return when everything written until now is durable; raises StorageError if a write failed."""
        future: asyncio.Future[None] = self.loop.create_future()
        self.barrier(partial(settle, future))
        await future

    async def recorded(self) -> None:
        """Return when all metadata written until now are durable; raises StorageError if a write failed."""
        future: asyncio.Future[None] = self.loop.create_future()
        self.metadata.barrier(partial(settle, future))
        await future

    def barrier(self, done: Callable[[StorageError | None], None]) -> None:
        """Call ``done`` when everything written until now is durable, or with the error of a failed write.

        Entries that wait for the registration of their ledger are appended after it; metadata are made durable first.
        """
        self.metadata.barrier(lambda failure: self.store.barrier(lambda error: done(error or failure)))


def settle(future: asyncio.Future[None], error: StorageError | None) -> None:
    """Set the result of ``future`` to the outcome of a write, unless it was cancelled."""
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
