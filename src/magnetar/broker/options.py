"""Options of the parts of a broker, from its settings."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from magnetar.base.life import first_ledger_id
from magnetar.base.limits import Limit
from magnetar.broker.web.connection import WebOptions
from magnetar.geo.progress.link import LinkOptions
from magnetar.ledger.local import LocalStoreOptions
from magnetar.ledger.rollover import ManagedLedgerConfig

if TYPE_CHECKING:
    from magnetar.base.life import Life
    from magnetar.base.world import Clock
    from magnetar.broker.environment import Environment
    from magnetar.broker.resources.memory_limits import MemoryLimits
    from magnetar.broker.settings.config import BrokerConfig

_MIB = 1 << 20
_MINUTE_MS = 60_000


def web_options(environment: Environment, connections_max: int) -> WebOptions:
    """Return the options of the web server, which accepts ``connections_max`` connections."""
    config, audit = environment.config, environment.audit
    is_allowed = connections_max == config.maxHttpServerConnections
    return WebOptions(
        connections_max=connections_max,
        connections_limit=Limit.HTTP_CONNECTIONS if is_allowed else Limit.OPEN_FILES,
        header_size_max=config.httpMaxRequestHeaderSize,
        timeout_s=config.httpRequestTimeoutSeconds,
        logged_calls=config.adminAccessLog,
        authentication=environment.authentication,
        authenticates_metrics=config.authenticateMetricsEndpoint,
        record=None if audit is None else audit.record,
    )


def store_options(config: BrokerConfig, clock: Clock, memory: MemoryLimits) -> LocalStoreOptions:
    """Return the options of the log."""
    return LocalStoreOptions(
        sync=config.journalSyncData,
        segment_bytes=config.logSizeLimit,
        reserve_bytes=config.diskReserveBytes,
        low_water_bytes=config.diskLowWaterBytes,
        tail_cache_bytes=memory.cache,
        table_cache_bytes=memory.tables,
        identity=secrets.token_hex(8),
        first_ledger_id=max(first_ledger_id(clock.now()), config.firstLedgerId),
    )


def link_options(config: BrokerConfig, life: Life | None) -> LinkOptions:
    """Return the options of progress links."""
    return LinkOptions(
        interval_s=config.replicatedSubscriptionProgressIntervalMs / 1000,
        full_state_interval_s=config.replicatedSubscriptionFullStateIntervalSeconds,
        at_risk_after_s=config.replicatedSubscriptionAtRiskAfterMs / 1000,
        life=life,
    )


def ledger_config(config: BrokerConfig) -> ManagedLedgerConfig:
    """Return the limits of ledgers."""
    return ManagedLedgerConfig(
        max_entries_per_ledger=config.managedLedgerMaxEntriesPerLedger,
        max_size_per_ledger_bytes=config.managedLedgerMaxSizePerLedgerMbytes * _MIB,
        min_rollover_ms=config.managedLedgerMinLedgerRolloverTimeMinutes * _MINUTE_MS,
        max_rollover_ms=config.managedLedgerMaxLedgerRolloverTimeMinutes * _MINUTE_MS,
    )
