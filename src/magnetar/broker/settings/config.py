"""The broker's settings. Names are those of Pulsar's ``broker.conf`` where Pulsar has the setting."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict

from magnetar.base import limits
from magnetar.broker.settings.sections.connections import ConnectionSettings
from magnetar.broker.settings.sections.deduplication import DeduplicationSettings
from magnetar.broker.settings.sections.dispatch import DelayedDeliverySettings, DispatchSettings
from magnetar.broker.settings.sections.log import LogSettings
from magnetar.broker.settings.sections.metrics import MetricsSettings
from magnetar.broker.settings.sections.replication import ReplicationSettings
from magnetar.broker.settings.sections.retention import RetentionSettings
from magnetar.broker.settings.sections.schemas import SchemaSettings
from magnetar.broker.settings.sections.service import ServiceSettings
from magnetar.broker.settings.sections.storage import StorageSettings
from magnetar.broker.settings.sections.topics import TopicSettings

SECTIONS: Final[tuple[type[BaseModel], ...]] = (
    ServiceSettings,
    ConnectionSettings,
    TopicSettings,
    SchemaSettings,
    DispatchSettings,
    StorageSettings,
    RetentionSettings,
    DeduplicationSettings,
    DelayedDeliverySettings,
    ReplicationSettings,
    LogSettings,
    MetricsSettings,
)
"""In the order of the reference page."""


class BrokerConfig(
    MetricsSettings,
    LogSettings,
    ReplicationSettings,
    DelayedDeliverySettings,
    DeduplicationSettings,
    RetentionSettings,
    StorageSettings,
    DispatchSettings,
    SchemaSettings,
    TopicSettings,
    ConnectionSettings,
    ServiceSettings,
):
    """All settings with their defaults. Unknown keys are rejected. Fields of the last base class come first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @property
    def partitions_max(self) -> int:
        """Return the maximum number of partitions of a topic."""
        return self.maxNumPartitionsPerPartitionedTopic or limits.PARTITIONS_MAX
