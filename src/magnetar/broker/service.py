"""The composition root: one broker, from its configuration to its listening sockets."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from magnetar.admin.api import build_app
from magnetar.base.errors import ConfigurationError, DiskFullError
from magnetar.base.lock import DirectoryLock
from magnetar.base.real import SystemClock, SystemFiles
from magnetar.broker.admin.administration import Administration
from magnetar.broker.admin.bounded_metadata import BoundedMetadataStore
from magnetar.broker.audit.file import AuditWriter
from magnetar.broker.audit.log import AuditLog
from magnetar.broker.authentication.building import build_authentication
from magnetar.broker.delayed.store import DELAYED, DelayedStore
from magnetar.broker.delayed.thread import StoreThread
from magnetar.broker.domains import Domains
from magnetar.broker.environment import Environment
from magnetar.broker.first_start import NAMESPACE, check_name, register_cluster, update_addresses
from magnetar.broker.housekeeping.maintenance import Maintenance
from magnetar.broker.housekeeping.non_persistent import NonPersistentMaintenance
from magnetar.broker.loop.cycles import CycleCollector
from magnetar.broker.loop.stack_sampler import StackSampler
from magnetar.broker.loop.stalls import LOGGED_FROM_S
from magnetar.broker.loop.turns import LoopTurns
from magnetar.broker.metadata_sync import MetadataSync, synchronized_store
from magnetar.broker.options import ledger_config, link_options, store_options, web_options
from magnetar.broker.ports import Ports, connections_allowed
from magnetar.broker.resources.limit_hits import LimitHits
from magnetar.broker.resources.memory import MemoryBudget
from magnetar.broker.resources.memory_limits import memory_limits
from magnetar.broker.resources.memory_trim import MemoryTrim
from magnetar.broker.resources.process import (
    allocated_blocks,
    machine_memory_bytes,
    raise_descriptor_limit,
    resident_bytes,
    tune,
)
from magnetar.broker.risks import find_risks, log_risks
from magnetar.broker.routed_clients import RoutedClients
from magnetar.broker.session.permissions.building import access_of
from magnetar.broker.session.permissions.revocation import Revocation
from magnetar.broker.session.server import Server
from magnetar.broker.settings.data_directory import LEDGERS, METADATA
from magnetar.broker.settings.dynamic import with_values
from magnetar.broker.settings.listeners import advertised
from magnetar.broker.settings.peers import own_address, peer_address
from magnetar.broker.starting import Starting
from magnetar.broker.tls.handshakes import waiting_max
from magnetar.broker.tls.service import BrokerTls
from magnetar.broker.topic.registry import TopicRegistry
from magnetar.broker.web.server import WebServer
from magnetar.geo.progress.link import ProgressLinks
from magnetar.ledger.agreement import bring_to_agreement, read_named_ledgers
from magnetar.ledger.local import LocalLedgerStore
from magnetar.ledger.medium.space import give_reserve
from magnetar.metadata.local import LocalMetadataStore
from magnetar.metadata.policies import Addresses, ClusterData
from magnetar.metadata.resources import Resources
from magnetar.metadata.sqlite_wal import write_wal_again

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.applications import Starlette

    from magnetar.base.logs.log_limit import LogLimit
    from magnetar.base.world import Clock, Files
    from magnetar.broker.settings.config import BrokerConfig
    from magnetar.client.options import PeerAddress
    from magnetar.metasync.store import SynchronizedStore

log = structlog.get_logger(__name__)

_FILES = SystemFiles()


class Broker:
    """The server of one cluster in this process. It can be started and stopped once."""

    def __init__(self, config: BrokerConfig, files: Files = _FILES, log_limit: LogLimit | None = None) -> None:
        """Create a stopped broker; ``files`` stores the log, and ``log_limit`` limits this process's log lines."""
        self.config = config
        self._log_limit = log_limit
        self._files = files
        self._clock = SystemClock()
        self._lifecycle = asyncio.Lock()
        """Held during start and stop."""
        self._synchronized: SynchronizedStore | None = None
        """The metadata store, if the metadata are synchronized with other clusters."""
        self._opened = AsyncExitStack()
        """Closes the opened parts in reverse order."""

    async def start(self) -> None:
        """Recover the data directory and serve it; raises StorageError, ConfigurationError.

        If a part fails, the opened parts are closed again.
        """
        async with self._lifecycle, AsyncExitStack() as opened:
            # From start to stop: with the default thresholds it would examine all objects several times.
            loop, idle_s = asyncio.get_running_loop(), lambda: self.environment.turns.idle_s()  # noqa: PLW0108 - made below
            cycles = CycleCollector(loop, idle_s)
            opened.callback(cycles.stop)
            cycles.start()
            starting = Starting(self._clock)
            environment = await self._open_storage(opened, starting)
            await self._serve(opened, starting, environment, cycles)
            self._opened = opened.pop_all()

    async def _open_storage(self, opened: AsyncExitStack, starting: Starting) -> Environment:
        """Recover the data directory; ``opened`` closes the opened parts in reverse order."""
        loop, config = asyncio.get_running_loop(), self.config
        loop.set_exception_handler(_log_unhandled)
        try:
            _FILES.make_directory(config.dataDirectory)
        except OSError as error:
            message = f"cannot use dataDirectory {config.dataDirectory}: {error.strerror}\nhint: name another directory"
            raise ConfigurationError(message) from error
        opened.callback(DirectoryLock(config.dataDirectory).release)
        _write_metadata_again(config.dataDirectory)
        memory, limit_hits = MemoryBudget(memory_limits(config, machine_memory_bytes())), LimitHits(self._log_limit)
        audit = _open_audit_log(opened, config, self._clock, limit_hits)
        record = (lambda _: None) if audit is None else audit.record
        authentication = build_authentication(config, self._clock, limit_hits, record)
        if authentication is not None:
            opened.callback(authentication.close)
        metadata = LocalMetadataStore(config.dataDirectory / METADATA, self._clock)
        opened.callback(metadata.close)
        check_name(Resources.over(metadata), config.clusterName)
        delayed = StoreThread(DelayedStore(config.dataDirectory / DELAYED), loop)
        opened.push_async_callback(asyncio.to_thread, delayed.close)
        named = read_named_ledgers(metadata)
        options = replace(store_options(config, self._clock, memory.limits), named_ledger_id=named.highest)
        store = LocalLedgerStore(config.dataDirectory / LEDGERS, self._files, loop, options)
        await store.open(lambda done, total: starting.report("segments", done, total))
        opened.push_async_callback(store.close)
        loss_boundaries = bring_to_agreement(store, metadata, named)
        metadata.serve(loop)
        self._synchronized = synchronized_store(config, metadata, self._clock)
        resources = Resources.over(self._synchronized or metadata)
        links = ProgressLinks(
            config.clusterName, partial(_address, config, resources), self._clock, link_options(config, store.life)
        )
        opened.callback(links.close)
        opened.callback(resources.clusters.watch(links.address_changed))
        return Environment(
            config=config,
            access=access_of(config, resources, record),
            clock=self._clock,
            loop=loop,
            store=store,
            metadata=metadata,
            resources=resources,
            links=links,
            ledger_config=ledger_config(config),
            delayed=delayed,
            turns=LoopTurns(loop, self._clock, time.thread_time),
            memory=memory,
            resident_bytes=resident_bytes,
            allocated_blocks=allocated_blocks,
            loss_boundaries=loss_boundaries,
            limit_hits=limit_hits,
            authentication=authentication,
            audit=audit,
        )

    async def _serve(
        self, opened: AsyncExitStack, starting: Starting, environment: Environment, cycles: CycleCollector
    ) -> None:
        """Load the topics that must be loaded, and listen."""
        config = self.config
        self.environment = environment
        _reconfigure(environment)
        self.topics = TopicRegistry(environment, ClusterData())
        opened.callback(environment.sliced.stop)
        opened.callback(environment.schemas.close)
        connections, web_connections = connections_allowed(config)
        domains = _domains(environment, self.topics)
        server = Server(environment, domains, connections)
        opened.push_async_callback(server.stop)
        if environment.access is not None:
            opened.callback(Revocation(environment, environment.access, server.sessions).stop)
        opened.push_async_callback(domains.stop)
        tls = _start_tls(opened, environment)
        ports = Ports(config, tls)
        opened.callback(ports.close)
        server.start()
        addresses = await ports.open(server)
        self.topics.addresses = Addresses(addresses, advertised(config))
        admin_url = addresses.serviceUrl or addresses.serviceUrlTls or ""
        if await register_cluster(environment.resources, config.clusterName, addresses):
            log.info("cluster_registered", cluster=config.clusterName, namespace=str(NAMESPACE))
        if await update_addresses(environment.resources, config.clusterName, addresses):
            log.info("cluster_addresses_updated", cluster=config.clusterName, **addresses.model_dump(exclude_none=True))
        loaded = await self.topics.linked.load_all(lambda done, total: starting.report("topics", done, total))
        metadata_sync = await self._synchronize(opened, environment)
        risks = find_risks(config, ports.listening)
        administration = Administration(
            environment, domains, admin_url, metadata_sync, tls.state if tls else lambda: None, risks
        )
        app = self._app(environment, administration)
        options = web_options(environment, web_connections)
        web = WebServer(
            app,
            options,
            environment.limit_hits,
            environment.clock,
            environment.memory.answers,
            environment.turns,
        )
        opened.push_async_callback(web.stop)
        await web.start(*ports.web)
        for work in _periodic_work(environment, domains):
            opened.callback(work.stop)
            work.start()
        tune()
        # Logged stalls are longer than INTERVAL_S, so that the sampler takes at least one sample of each.
        sampler = StackSampler(self._clock, LOGGED_FROM_S)
        sampler.start()
        opened.callback(sampler.stop)

        def beat() -> str:
            where = sampler.beat()
            cycles.collect_new()
            return where

        opened.callback(environment.stalls.watch(environment.loop, self._clock, beat))
        log_risks(risks)
        log.info(
            "broker_started",
            cluster=config.clusterName,
            **addresses.model_dump(exclude_defaults=True),
            data=str(config.dataDirectory),
            topics_loaded=loaded,
            topics_failed=len(self.topics.load_failures.reasons),
        )

    def _app(self, environment: Environment, administration: Administration) -> Starlette:
        bounded = BoundedMetadataStore(self._synchronized or environment.metadata, environment.objects)
        # The names of topics are kept once: they are not documents of the admin API.
        resources = replace(Resources.over(bounded), topics=environment.resources.topics)
        return build_app(administration, resources, environment.access)

    async def _synchronize(self, opened: AsyncExitStack, environment: Environment) -> MetadataSync | None:
        """Start the metadata synchronizer and return it; None if it is off."""
        if self._synchronized is None:
            return None
        address = own_address(environment.config, self.topics.addresses.internal)
        synchronizer = MetadataSync(environment, self._synchronized, address)
        opened.callback(synchronizer.stop)
        await synchronizer.prepare()
        synchronizer.start()
        return synchronizer

    async def stop(self) -> None:
        """Close all connections and topics; everything is durable on return. A second call has no effect.

        Waits for a start in progress. Everything is closed even if a part fails; the failure is raised afterwards.
        """
        async with self._lifecycle:
            opened, self._opened = self._opened, AsyncExitStack()
            await opened.aclose()
        log.info("broker_stopped", cluster=self.config.clusterName)

    async def run(self) -> None:
        """Serve until SIGINT or SIGTERM; a second signal has no effect."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await self.start()
        await stop.wait()
        await self.stop()


def _domains(environment: Environment, topics: TopicRegistry) -> Domains:
    """Return the topics of both domains, whose clients follow the routes."""
    domains = Domains(topics)
    RoutedClients(environment, domains)
    return domains


def _periodic_work(
    environment: Environment, domains: Domains
) -> tuple[Maintenance, NonPersistentMaintenance, MemoryTrim]:
    """Return the periodic work, in the order of its start."""
    return (
        Maintenance(environment, domains.persistent),
        NonPersistentMaintenance(environment, domains.non_persistent),
        MemoryTrim(environment.memory, environment.loop),
    )


def _write_metadata_again(directory: Path) -> None:
    """Make the metadata store durable before it is read; use the disk reserve if the disk is full."""
    try:
        write_wal_again(directory / METADATA, _FILES)
    except DiskFullError:
        if not give_reserve(_FILES, directory / LEDGERS):
            raise
        write_wal_again(directory / METADATA, _FILES)


def _log_unhandled(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an unhandled exception of a callback or task of the broker's loop."""
    error = context.get("exception")
    log.error("unhandled_exception", message=context.get("message"), error=repr(error), exc_info=error)


def _reconfigure(environment: Environment) -> None:
    """Apply the settings that were changed at run time before the start."""
    values = environment.resources.dynamic_configuration.values()
    try:
        environment.reconfigure(with_values(environment.config, values))
    except ConfigurationError as error:  # the limits of the setting have changed since
        log.warning("dynamic_configuration_ignored", error=str(error))


def _address(config: BrokerConfig, resources: Resources, cluster: str) -> PeerAddress | None:
    data = resources.clusters.get(cluster)
    return peer_address(config, data) if data is not None else None


def _open_audit_log(
    opened: AsyncExitStack, config: BrokerConfig, clock: Clock, limit_hits: LimitHits
) -> AuditLog | None:
    """Open the audit log and begin to write it; None if it has no file."""
    if not config.auditLogFile:
        return None
    writer = AuditWriter(config.auditLogFile, config.auditLogFileMaxMB << 20, config.auditLogFilesKept)
    opened.push_async_callback(asyncio.to_thread, writer.close)
    audit = AuditLog(config.clusterName, clock, limit_hits, writer)
    opened.callback(audit.stop)
    audit.start(asyncio.get_running_loop())
    return audit


def _start_tls(opened: AsyncExitStack, environment: Environment) -> BrokerTls | None:
    """Load the certificate and begin to renew it; None if no port has TLS."""
    if not environment.config.has_tls:
        return None
    handshakes_max = waiting_max(raise_descriptor_limit())
    turns, hits = environment.turns, environment.limit_hits
    tls = BrokerTls(environment.config, environment.clock, turns, hits, handshakes_max, environment.record)
    opened.callback(tls.stop)
    tls.start(environment.loop)
    return tls
