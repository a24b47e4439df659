"""Runs the metadata synchronizer of this cluster (PIP-136), and prepares the namespace of its event topic."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import structlog

from magnetar.admin.models.metadata_sync import (
    HistoryEdit,
    LocalValue,
    MetadataSyncStatus,
    PreviewedChange,
    RefusedEvent,
    UndoneEdit,
    UnknownField,
)
from magnetar.admin.models.model import iso_time
from magnetar.base.errors import AdminError, InvalidTopicNameError, MagnetarError, RequestError
from magnetar.base.limits import Limit
from magnetar.base.names import TopicName
from magnetar.base.tasks import start_task
from magnetar.broker.admin.stranded import stranded_topics
from magnetar.broker.metadata_checks import check_fields
from magnetar.broker.metadata_history import MetadataHistory
from magnetar.client.client import PulsarClient
from magnetar.metadata.policies import DEFAULT_NUMBER_OF_NAMESPACE_BUNDLES, BundlesData, Policies, TenantInfo
from magnetar.metadata.resources import POLICIES
from magnetar.metasync.event_topic import ClientEventTopic
from magnetar.metasync.events import EventError, MetadataChangeEvent
from magnetar.metasync.local.allowed import AllowedClusters
from magnetar.metasync.local.preview import preview
from magnetar.metasync.local.unknown import find_unknown
from magnetar.metasync.local.values import LocalMetadata
from magnetar.metasync.places import resource_at, resources_named
from magnetar.metasync.rules import Rules, parse_rules
from magnetar.metasync.store import SynchronizedStore
from magnetar.metasync.synchronizer import Synchronizer
from magnetar.metasync.units import ResourceType
from magnetar.security.audit import AuditEvent, Kind, Result

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from magnetar.base.names import NamespaceName
    from magnetar.base.world import Clock
    from magnetar.broker.environment import Environment
    from magnetar.broker.settings.config import BrokerConfig
    from magnetar.client.options import PeerAddress
    from magnetar.metadata.store import Change, MetadataStore
    from magnetar.metasync.places import Resource
    from magnetar.metasync.timestamps import Timestamp

log = structlog.get_logger(__name__)

SETTLE_S = 60.0
"""Maximum seconds until a namespace is dropped whose last topic was deleted after its tenant forbade the cluster."""

RETRY_S = 1.0
"""Seconds until the synchronizer connects again to its own broker."""


def synchronized_store(config: BrokerConfig, metadata: MetadataStore, clock: Clock) -> SynchronizedStore | None:
    """Return the store that records edits for other clusters; None if the metadata are not synchronized."""
    if not config.metadataSyncEventTopic:
        return None
    rules = Rules(
        TopicName.parse(config.metadataSyncEventTopic).namespace_name,
        parse_rules(config.metadataSyncIncludedResources),
        parse_rules(config.metadataSyncExcludedResources),
    )
    return SynchronizedStore(metadata, config.clusterName, clock, rules, check_fields)


class MetadataSync:
    """Keeps a synchronizer connected to the event topic."""

    def __init__(self, environment: Environment, store: SynchronizedStore, broker: PeerAddress) -> None:
        """Synchronize ``store`` through the broker at an address."""
        config = environment.config
        self._environment = environment
        self._store = store
        self._broker = broker
        self._history = MetadataHistory(store)
        self._topic = TopicName.parse(config.metadataSyncEventTopic)
        self._local = LocalMetadata(store.holdings)
        self._allowed = AllowedClusters(store.holdings)
        self._stranded: list[str] = []
        self._synchronizer = Synchronizer(
            store, config.metadataSyncSnapshotDurationSecond, lambda: not environment.objects.is_full, self._audit
        )
        self._connected: ClientEventTopic | None = None
        self._failure: str | None = None
        """Reason of the end of the last connection; None while connected."""
        self._tasks: list[asyncio.Task[None]] = []
        self._tenants_changed = asyncio.Event()
        self._end_watches = [
            environment.resources.clusters.watch(self._clusters_changed),
            store.watch(POLICIES, self._policies_changed),
        ]

    async def prepare(self) -> None:
        """Record edits that were made while the synchronizer was off, and create the namespace of the event topic."""
        await self._environment.slices.run(self._store.adopt())
        resources, namespace = self._environment.resources, self._topic.namespace_name
        if not resources.tenants.exists(namespace.tenant):
            await resources.tenants.create(namespace.tenant, TenantInfo(allowedClusters=resources.clusters.names()))
        if not resources.namespaces.exists(namespace):
            bundles = BundlesData.of(DEFAULT_NUMBER_OF_NAMESPACE_BUNDLES)
            policies = Policies(replication_clusters=resources.clusters.names(), bundles=bundles)
            await resources.namespaces.create(namespace, policies)
        self._clusters_changed("")

    def start(self) -> None:
        """Start the synchronizer; ``prepare`` must have returned."""
        works = {"metadata synchronizer": self._run(), "allowed clusters of tenants": self._settle()}
        self._tasks = [start_task(self._environment.loop, work, name) for name, work in works.items()]

    def stop(self) -> None:
        """Stop the synchronizer; what it has not published stays in the outbox."""
        for end in self._end_watches:
            end()
        for task in self._tasks:
            task.cancel()

    # -- administration -------------------------------------------------------------------------------------------

    @property
    def namespace(self) -> NamespaceName:
        """See MetadataSync of the admin API."""
        return self._topic.namespace_name

    def status(self) -> Generator[None, None, MetadataSyncStatus]:
        """Return the state of the synchronizer, in steps."""
        synchronizer, stranded = self._synchronizer, 0
        for topics in stranded_topics(self._environment):
            stranded += len(topics)
            yield
        return MetadataSyncStatus(
            event_topic=str(self._topic),
            connected=self._connected is not None,
            failure=self._failure,
            unpublished_events=self._store.unpublished_count,
            applied_events=synchronizer.applied,
            local_values=self._local.count,
            refused_events=synchronizer.refused,
            conflicts=self._store.conflicts,
            stranded_topics=stranded,
            stranded_namespaces=self._stranded,
            newest_event_age_seconds=self._ages(),
        )

    def _ages(self) -> dict[str, float | None]:
        now_ms, newest_ms = self._environment.clock.now() * 1000, self._store.arrivals.newest_ms
        times = {name: newest_ms.get(name) for name in self._environment.resources.clusters.names()}
        return {name: None if ms is None else round(max(0.0, now_ms - ms) / 1000, 3) for name, ms in times.items()}

    def last_edit(self, resource: Resource) -> Timestamp | None:
        """Return the time and the cluster of the newest edit of a resource; None if none is recorded."""
        return max(self._store.record(resource).timestamps(), default=None)

    async def local(self) -> list[LocalValue]:
        """Return what is local although the rules do not say so, by resource."""
        return [
            LocalValue(
                resource_type=each.resource.kind.value,
                resource_name=each.resource.name,
                field=each.unit.removeprefix("/"),
                since=iso_time(each.since_ms),
                reason=each.reason.value,
                here=each.here,
                common=each.common,
            )
            for each in await self._environment.slices.run(self._local.values())
        ]

    async def unknown(self) -> list[UnknownField]:
        """Return the fields that this version does not know, by resource."""
        return [
            UnknownField(
                resource_type=each.resource.kind.value,
                resource_name=each.resource.name,
                field=each.pointer.removeprefix("/"),
                value=each.value,
                set_by=None if each.edit is None else each.edit.timestamp.cluster,
                set_at=None if each.edit is None else iso_time(each.edit.timestamp.time_ms),
            )
            for each in await self._environment.slices.run(find_unknown(self._store.holdings))
        ]

    async def remove_local(self, resource: str, field: str) -> None:
        """Give a resource, or a field, the values of the other clusters; raises AdminError if it is not local.

        What the other clusters do not know in a tenant or namespace is published with it.
        """
        try:
            found = resources_named(resource)
        except InvalidTopicNameError as error:
            raise AdminError(HTTPStatus.BAD_REQUEST, str(error)) from None
        try:
            if not field:
                found += [each for outer in found for each in self._local.inside(outer)]
            commits = [self._local.remove(each, f"/{field}" if field else "") for each in found]
        except EventError as error:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, str(error), Limit.METADATA_EVENT_SIZE) from error
        if not any(commits):
            what = f"{field} of {resource}" if field else resource
            raise AdminError(HTTPStatus.NOT_FOUND, f"nothing of {what} is local, see: magnetar metadata local")
        for commit in commits:
            if commit is not None:
                await commit

    def refused(self) -> list[RefusedEvent]:
        """Return the newest refused events, the oldest first."""
        return [
            RefusedEvent(refused_at=iso_time(each["time"]), reason=each["reason"], event=each["event"])
            for each in self._store.refused()
        ]

    async def snapshot(self) -> None:
        """Publish all metadata to the event topic; raises AdminError while it is not connected."""
        if self._connected is None:
            message = f"the metadata synchronizer is not connected: {self._failure or 'it is starting'}"
            raise AdminError(HTTPStatus.SERVICE_UNAVAILABLE, message)
        try:
            await self._synchronizer.snapshot(self._connected)
        except (OSError, RequestError) as error:
            message = f"the connection to the event topic was lost: {error}"
            raise AdminError(HTTPStatus.SERVICE_UNAVAILABLE, message) from error

    def events(self) -> Generator[None, None, list[bytes]]:
        """Return the events that a snapshot would publish now, as JSON; in steps."""
        found = []
        for event in self._store.snapshot():
            found.append(event)
            yield
        return found

    def preview(self, event: Mapping[str, Any]) -> list[PreviewedChange]:
        """Return what an event would change here; raises AdminError for an event that would be refused."""
        try:
            read = MetadataChangeEvent.decode(json.dumps(event, separators=(",", ":")).encode())
            changes = preview(self._store.holdings, read)
        except (EventError, RequestError, ValueError, RecursionError) as error:
            raise AdminError(HTTPStatus.BAD_REQUEST, f"the event would be refused: {error}") from error
        return [
            PreviewedChange(
                resource_type=read.resource.kind.value,
                resource=read.resource.name,
                field=each.unit.removeprefix("/"),
                here=each.before,
                after=each.after,
            )
            for each in changes
        ]

    def history(self, name: str) -> Generator[None, None, list[HistoryEdit]]:
        """Return the kept edits of a tenant, a namespace, or a topic and its policies, the oldest first."""
        return self._history.of(name)

    async def undo(self, name: str, edit: str | None, *, force: bool) -> UndoneEdit:
        """Restore the former values of what an edit changed; see MetadataSync of the admin API."""
        return await self._history.undo(name, edit, force=force)

    # -- the connection -------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            client = PulsarClient(self._broker.url, self._broker.options)
            try:
                topic = await ClientEventTopic.open(client, str(self._topic), self._environment.clock)
                log.info("metadata_synchronizer_connected", topic=str(self._topic))
                self._connected, self._failure = topic, None
                reason = await self._synchronizer.run(topic)
            except (OSError, MagnetarError) as error:
                reason = error
            finally:
                self._connected = None
                client.close()
            self._failure = str(reason)
            log.warning("metadata_synchronizer_disconnected", topic=str(self._topic), reason=str(reason))
            await asyncio.sleep(RETRY_S)

    async def _settle(self) -> None:
        """Apply the allowed clusters of tenants after each change of a tenant, and when topics may be gone."""
        while True:
            self._tenants_changed.clear()
            try:
                self._stranded = await self._environment.slices.run(self._allowed.settle())
            except Exception:  # the next change of a tenant must be applied
                log.exception("allowed_clusters_not_applied")
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLE_S):
                    await self._tenants_changed.wait()

    def _policies_changed(self, change: Change) -> None:
        resource = resource_at(change.path)
        if resource is not None and resource.kind is ResourceType.TENANTS:
            self._tenants_changed.set()
        elif resource is not None and change.after is None and self._store.holdings.has_topics(resource):
            log.warning("topics_stranded", namespace=resource.name)

    def _audit(self, event: MetadataChangeEvent) -> None:
        """Record a change of another cluster; its audit log has the role that made it."""
        name, cluster = f"{event.resource.kind.value} {event.resource.name}", event.source_cluster
        self._environment.record(AuditEvent(Kind.METADATA, Result.ALLOWED, "apply", name, cluster=cluster))

    def _clusters_changed(self, _: str) -> None:
        """Replicate the event topic to all registered clusters."""
        resources, namespace = self._environment.resources, self._topic.namespace_name
        names, found = resources.clusters.names(), resources.namespaces.get(namespace)
        if found is not None and sorted(found.replication_clusters) != names:
            resources.namespaces.update(namespace, lambda old: old.model_copy(update={"replication_clusters": names}))
            resources.tenants.update(namespace.tenant, lambda old: old.model_copy(update={"allowedClusters": names}))
