"""The broker's settings. Names are those of Pulsar's ``broker.conf`` where Pulsar has the setting."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, TypeAdapter

from magnetar.base import limits
from magnetar.broker.settings.sections.authentication import AuthenticationSettings
from magnetar.broker.settings.sections.authorization import AuthorizationSettings
from magnetar.broker.settings.sections.connections import ConnectionSettings
from magnetar.broker.settings.sections.deduplication import DeduplicationSettings
from magnetar.broker.settings.sections.dispatch import DelayedDeliverySettings, DispatchSettings
from magnetar.broker.settings.sections.log import LogSettings
from magnetar.broker.settings.sections.metadata_sync import MetadataSyncSettings
from magnetar.broker.settings.sections.metrics import MetricsSettings
from magnetar.broker.settings.sections.rates import RateSettings
from magnetar.broker.settings.sections.replication import ReplicationSettings
from magnetar.broker.settings.sections.retention import RetentionSettings
from magnetar.broker.settings.sections.schemas import SchemaSettings
from magnetar.broker.settings.sections.service import ServiceSettings
from magnetar.broker.settings.sections.storage import StorageSettings
from magnetar.broker.settings.sections.topics import TopicSettings
from magnetar.broker.settings.tls.section import TlsSettings
from magnetar.metadata.policy.values import SubscriptionType
from magnetar.wire.listeners import BINARY_TLS, WEB_TLS

TLS_SCHEMES: Final = (BINARY_TLS, WEB_TLS)

SECTIONS: Final[tuple[type[BaseModel], ...]] = (
    ServiceSettings,
    TlsSettings,
    AuthenticationSettings,
    AuthorizationSettings,
    ConnectionSettings,
    TopicSettings,
    SchemaSettings,
    DispatchSettings,
    RateSettings,
    StorageSettings,
    RetentionSettings,
    DeduplicationSettings,
    DelayedDeliverySettings,
    ReplicationSettings,
    MetadataSyncSettings,
    LogSettings,
    MetricsSettings,
)
"""In the order of the reference page."""


SUBSCRIPTION_TYPES: Final[TypeAdapter[list[SubscriptionType]]] = TypeAdapter(list[SubscriptionType])


class BrokerConfig(
    MetricsSettings,
    LogSettings,
    MetadataSyncSettings,
    ReplicationSettings,
    DelayedDeliverySettings,
    DeduplicationSettings,
    RetentionSettings,
    StorageSettings,
    RateSettings,
    DispatchSettings,
    SchemaSettings,
    TopicSettings,
    ConnectionSettings,
    AuthorizationSettings,
    AuthenticationSettings,
    TlsSettings,
    ServiceSettings,
):
    """All settings with their defaults. Unknown keys are rejected. Fields of the last base class come first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @property
    def enabled_subscription_types(self) -> list[SubscriptionType]:
        """Return the types of subscriptions that consumers may use."""
        return SUBSCRIPTION_TYPES.validate_python([each.strip() for each in self.subscriptionTypesEnabled.split(",")])

    @property
    def has_tls(self) -> bool:
        """Return whether a port has TLS."""
        ports = (self.brokerServicePortTls, self.webServicePortTls)
        return any(port is not None for port in ports) or any(
            f"{each}://" in self.bindAddresses for each in TLS_SCHEMES
        )

    @property
    def partitions_max(self) -> int:
        """Return the maximum number of partitions of a topic."""
        return self.maxNumPartitionsPerPartitionedTopic or limits.PARTITIONS_MAX
