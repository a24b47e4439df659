"""A simulated cluster with the metadata synchronizer."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError
from magnetar.broker.metadata_sync import MetadataSync, synchronized_store
from magnetar.metadata.policies import ClusterData
from magnetar.metadata.resources import PARTITIONED_TOPICS, Resources
from magnetar.metadata.routes.document import ROUTES
from magnetar.sim.cluster import PORT, address_of
from magnetar.sim.metasync.history import OUTBOX
from magnetar.sim.metasync.observed import ObservedStore
from magnetar.sim.metasync.replay import route_order
from magnetar.sim.metasync.scenario import EVENT_NAMESPACE, EVENT_TOPIC
from magnetar.sim.site import Site

if TYPE_CHECKING:
    from magnetar.broker.settings.config import BrokerConfig
    from magnetar.metadata.store import Change, MetadataStore
    from magnetar.metasync.store import SynchronizedStore
    from magnetar.sim.metasync.history import History
    from magnetar.sim.metasync.scenario import MetadataScenario
    from magnetar.sim.virtual.network import Network
    from magnetar.sim.virtual.scheduler import Scheduler
    from magnetar.sim.virtual.tap import Tap

RETRY_S = 0.5
"""Virtual seconds until a failed operation of an operator is repeated."""

_OWN = (f"/{EVENT_NAMESPACE}/", f"/{EVENT_NAMESPACE.tenant}/")


class SynchronizedSite(Site):
    """See Site. Its administration changes metadata through ``environment.resources``."""

    history: History
    """Set before the first start."""
    sync: MetadataSync
    """The synchronizer of the running process."""

    def __init__(
        self, name: str, scenario: MetadataScenario, scheduler: Scheduler, network: Network, tap: Tap[Site]
    ) -> None:
        """Create the cluster ``name``; it knows the clusters that are members from the beginning."""
        self.members = scenario.members
        """The clusters that an operator has registered here, or is about to."""
        self.plan = scenario
        super().__init__(name, scenario, scheduler, network, tap)

    @property
    def is_member(self) -> bool:
        """Return whether the cluster belongs to the others."""
        return self.name in self.members

    def is_own(self, path: str) -> bool:
        """Return whether a document belongs to the namespace of the event topic or its tenant."""
        return f"{path}/".startswith((f"/admin/policies{_OWN[1]}", *(f"/admin/{root}{_OWN[0]}" for root in _ROOTS)))

    def set_members(self, members: tuple[str, ...]) -> None:
        """Register these clusters now, or after the next start."""
        self.members = members
        if self.running:
            self.loop.create_task(self._register())

    async def _register(self) -> None:
        clusters = self.environment.resources.clusters
        while (known := clusters.names()) != sorted(self.members):
            try:
                for name in self.members:
                    if name not in known:
                        await clusters.create(name, _data(name))
                for name in known:
                    if name not in self.members:
                        await clusters.delete(name)
            except MagnetarError:
                await asyncio.sleep(RETRY_S)

    def _set_up(self) -> None:
        super()._set_up()
        clusters = Resources.over(self.metadata).clusters
        for name in self.members:
            clusters.create(name, _data(name))

    def start(self) -> None:
        """See Site."""
        self.history.restarted(self)
        super().start()
        self.metadata.watch("/admin", self._document_changed)
        self.metadata.watch(PARTITIONED_TOPICS, self._partitions_changed)
        self.metadata.watch(ROUTES, self._route_changed)
        self.metadata.watch(OUTBOX, self._outbox_changed)

    def _config(self) -> BrokerConfig:
        settings = {
            "metadataSyncEventTopic": EVENT_TOPIC,
            "metadataSyncSnapshotDurationSecond": self.plan.snapshot_s,
        }
        return super()._config().model_copy(update=settings)

    def _documents(self, config: BrokerConfig) -> MetadataStore:
        store = synchronized_store(config, self.metadata, self.clock)
        assert store is not None
        self._synchronized: SynchronizedStore = store
        return ObservedStore(store, self, self.history)

    async def _apply_policies(self) -> None:
        """Leave the policies to the synchronizer."""

    async def _serve(self) -> None:
        await super()._serve()
        self.sync = MetadataSync(self.environment, self._synchronized, address_of(self.name))
        while True:
            try:
                await self.sync.prepare()
                await self.environment.recorded()
            except MagnetarError:  # the broker does not start, and is started again
                await asyncio.sleep(RETRY_S)
            else:
                break
        self.history.adopted(self)
        self.sync.start()
        await self._register()

    def _document_changed(self, change: Change) -> None:
        if change.after is None:
            self.history.deleted_in(self, change.path)

    def _partitions_changed(self, change: Change) -> None:
        """M: the number of partitions never shrinks."""
        if change.after is None or change.before is None or self.is_own(change.path):
            return
        before, after = (json.loads(each.value)["partitions"] for each in (change.before, change.after))
        if after < before:
            self.history.violate(f"M: {change.path} in {self.name} has {after} partitions instead of {before}")

    def _route_changed(self, change: Change) -> None:
        """M: the epoch of a route never shrinks, and no route is forgotten."""
        if change.before is None:
            return
        before = json.loads(change.before.value)["route"]
        after = None if change.after is None else json.loads(change.after.value)["route"]
        if after is None or route_order(after) <= route_order(before):
            self.history.violate(f"M: {change.path} in {self.name} has {after} instead of {before}")

    def _outbox_changed(self, change: Change) -> None:
        if change.after is not None:
            self.history.queued(self.name, change.after.value)


_ROOTS = ("policies", "partitioned-topics", "topic-policies")


def _data(name: str) -> ClusterData:
    return ClusterData(brokerServiceUrl=f"pulsar://{name}:{PORT}")
