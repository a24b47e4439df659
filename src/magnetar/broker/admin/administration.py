"""Operations of the broker for its admin API."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

import magnetar
from magnetar.admin.metrics.measurements import AuthenticationTotals, Durations, Totals
from magnetar.admin.metrics.options import MetricsOptions
from magnetar.base.errors import AdminError, StorageError
from magnetar.broker.admin.dynamic import DynamicSettings
from magnetar.broker.admin.fences.operations import FenceOperations
from magnetar.broker.admin.logs import LogOperations
from magnetar.broker.admin.non_persistent import NonPersistentOperations
from magnetar.broker.admin.schemas import SchemaOperations
from magnetar.broker.admin.stranded import StrandedTopics
from magnetar.broker.admin.subscriptions import SubscriptionOperations
from magnetar.broker.admin.topics import TopicOperations
from magnetar.broker.housekeeping.maintenance import RATE_INTERVAL_S
from magnetar.broker.log.refusal import reason_against
from magnetar.broker.resources.process import resident_bytes
from magnetar.broker.settings.sections.authentication import HIDDEN, SECRETS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from magnetar.admin.fence_service import FenceOperations as Fences
    from magnetar.admin.metrics.tls import TlsState
    from magnetar.admin.service import MetadataSync
    from magnetar.base.limits import Limit
    from magnetar.base.memory_share import Share
    from magnetar.base.names import TopicName
    from magnetar.broker.domains import Domains
    from magnetar.broker.environment import Environment
    from magnetar.metadata.policies import Addresses
    from magnetar.security.exposure import Finding


Result = TypeVar("Result")


class Administration:
    """Implementation of ``magnetar.admin.service.AdminService``."""

    def __init__(
        self,
        environment: Environment,
        domains: Domains,
        admin_url: str,
        metadata_sync: MetadataSync | None = None,
        tls: Callable[[], TlsState | None] = lambda: None,
        risks: Sequence[Finding] = (),
    ) -> None:
        """Administer the topics of both domains.

        ``metadata_sync`` is the metadata synchronizer, None if it is off; ``tls`` returns the state of TLS.
        """
        topics = domains.persistent
        self.metadata_sync = metadata_sync
        self._environment = environment
        self._topics = topics
        self._admin_url = admin_url
        self.tls = tls
        self.risks = risks
        self.topics = TopicOperations(environment, topics)
        self.non_persistent = NonPersistentOperations(environment, domains.non_persistent)
        self.stranded = StrandedTopics(environment, topics)
        self.subscriptions = SubscriptionOperations(environment, topics)
        self.dynamic = DynamicSettings(environment)
        self.fences: Fences = FenceOperations(environment, topics)
        self.logs = LogOperations(environment, topics)
        self.schemas = SchemaOperations(environment)

    @property
    def cluster_name(self) -> str:
        """Name of this cluster."""
        return self._environment.cluster

    @property
    def addresses(self) -> Addresses:
        """See AdminService."""
        return self._topics.addresses

    @property
    def admin_url(self) -> str:
        """URL of the admin API."""
        return self._admin_url

    @property
    def name_length_max(self) -> int:
        """See AdminService."""
        return self._environment.config.maxNameLength

    @property
    def version(self) -> str:
        """Version of the broker."""
        return magnetar.__version__

    @property
    def metrics_options(self) -> MetricsOptions:
        """See AdminService."""
        config = self._environment.config
        by_topic = config.exposeTopicLevelMetricsInPrometheus
        return MetricsOptions(
            by_topic=by_topic,
            by_consumer=by_topic and config.exposeConsumerLevelMetricsInPrometheus,
            by_producer=by_topic and config.exposeProducerLevelMetricsInPrometheus,
            split_partition=config.splitTopicAndPartitionLabelInPrometheus,
            reused_s=RATE_INTERVAL_S if config.metricsBufferResponse else 0.0,
        )

    async def in_slices(self, steps: Generator[None, None, Result]) -> Result:
        """See AdminService."""
        return await self._environment.slices.run(steps)

    def runtime_configuration(self) -> dict[str, str]:
        """See AdminService."""
        values = self._environment.config.model_dump(mode="json")
        shown = {key: _text(value) for key, value in values.items()}
        return shown | {key: HIDDEN for key in SECRETS if shown[key]}

    async def health(self) -> None:
        """Return if the broker can store and serve messages; otherwise refuse with the reason."""
        reason = reason_against(self._environment.store.state)
        if reason is None:
            try:
                await self._environment.durable()
            except StorageError as error:
                reason = f"storage has failed: {error}"
        if reason is not None:
            raise AdminError(HTTPStatus.INTERNAL_SERVER_ERROR, reason)

    def load_failures(self) -> Mapping[TopicName, str]:
        """See AdminService."""
        return self._topics.load_failures.reasons

    def storage_refuses(self) -> tuple[bool, bool]:
        """See AdminService."""
        state = self._environment.store.state
        return state.failure is not None, state.shortage is not None

    def limit_hits(self) -> Mapping[str, int]:
        """See AdminService."""
        return self._environment.limit_hits.counts()

    def limit_hit(self, limit: Limit) -> None:
        """See AdminService."""
        self._environment.limit_hits.hit(limit)

    @property
    def bodies(self) -> Share:
        """See AdminService."""
        return self._environment.memory.bodies

    def memory(self) -> Mapping[str, tuple[int, int]]:
        """See AdminService."""
        memory, store = self._environment.memory, self._environment.store
        limits = memory.limits
        return {
            "total": (resident_bytes(), limits.total),
            "publishes": (memory.publishes_in_flight, limits.publishes),
            "unfinished_frames": (memory.frames_held, 2 * memory.first_frames.limit),
            "deferred_frames": (memory.deferred, 2 * memory.first_frames.limit),
            "reads": (memory.reads.used, limits.reads),
            "send_buffers": (memory.sending.used, limits.sending),
            "rest_bodies": (memory.bodies.used, limits.bodies),
            "rest_answers": (memory.answers.used, limits.answers),
            "caches": (store.cached_bytes, limits.cache + limits.tables),
        }

    def connections(self) -> Mapping[str, int]:
        """See AdminService."""
        counts = self._environment.connections
        return {
            "active_connections": counts.active,
            "connection_created_total_count": counts.created,
            "connection_create_success_count": counts.succeeded,
            "connection_create_fail_count": counts.failed,
            "connection_closed_total_count": counts.closed,
        }

    def durations(self) -> Durations:
        """See AdminService."""
        store = self._environment.store
        return Durations(
            loop_stalls=self._environment.stalls.late,
            commits=store.commit_times,
            writes=store.write_latencies,
            metadata_commits=self._environment.metadata.commit_times,
            snapshots=self._environment.snapshots,
        )

    def totals(self) -> Totals:
        """See AdminService."""
        totals = self._environment.totals
        clients, audit = self._environment.authentication, self._environment.audit
        return Totals(
            totals.deduplicated,
            totals.handovers,
            None if clients is None else AuthenticationTotals(clients.successes, clients.failures),
            None if audit is None else audit.totals(),
        )


def _text(value: object) -> str:
    """Return a setting in the form of the configuration file."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
