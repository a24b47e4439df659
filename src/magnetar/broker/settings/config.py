"""The broker's settings. Names are those of Pulsar's ``broker.conf`` where Pulsar has the setting."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict

from magnetar.base import limits
from magnetar.broker.settings.log_settings import LogSettings
from magnetar.broker.settings.schema_section import SchemaSettings
from magnetar.broker.settings.sections import (
    ConnectionSettings,
    DeduplicationSettings,
    DelayedDeliverySettings,
    DispatchSettings,
    ReplicationSettings,
    RetentionSettings,
    ServiceSettings,
    StorageSettings,
    TopicSettings,
)

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
)
"""In the order of the reference page."""


class BrokerConfig(
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
