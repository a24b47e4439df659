"""Settings of topics."""

# ruff: noqa: N815 - the settings carry Pulsar's names

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from magnetar.base import limits


class TopicSettings(BaseModel):
    """Topics and their limits."""

    enablePersistentTopics: bool = Field(default=True, description="Serve clients of persistent topics.")
    enableNonPersistentTopics: bool = Field(default=True, description="Serve clients of non-persistent topics.")
    maxConcurrentNonPersistentMessagePerConnection: int = Field(
        1000,
        ge=0,
        description="Maximum number of messages of a connection to non-persistent topics that wait to be sent to "
        "consumers. Further ones are dropped.",
    )
    allowAutoTopicCreation: bool = Field(default=True, description="Create a missing topic when a client asks for it.")
    allowAutoTopicCreationType: Literal["non-partitioned", "partitioned"] = Field(
        "non-partitioned", description="Type of an automatically created topic."
    )
    defaultNumPartitions: int = Field(1, gt=0, description="Number of partitions of an automatically created topic.")
    maxNameLength: int = Field(
        limits.NAME_LENGTH_MAX,
        ge=1024,
        description="Maximum length in bytes of the name of a topic, with its tenant and namespace, or of a tenant, "
        "namespace, subscription, producer or consumer. It applies to new names only.",
    )
    maxProducerMetadataSize: int = Field(
        16 * 1024, ge=0, description="Maximum number of characters of the keys and values in a producer's metadata."
    )
    maxConsumerMetadataSize: int = Field(
        1024, ge=0, description="Maximum number of characters of the keys and values in a consumer's metadata."
    )
    maxPropertiesSize: int = Field(
        64 * 1024,
        ge=0,
        description="Maximum characters of keys and values in the properties of a new subscription or topic.",
    )
    maxNumPartitionsPerPartitionedTopic: int = Field(
        1000,
        ge=0,
        description=f"Maximum number of partitions of a topic; 0: {limits.PARTITIONS_MAX}.",
    )
    maxProducersPerTopic: int = Field(
        0,
        ge=0,
        description="Maximum number of producers of a topic, waiting ones included, without links; 0: no limit.",
    )
    maxTopicsPerNamespace: int = Field(
        0, ge=0, description="Maximum number of topics of a namespace, with partitions; links are exempt. 0: no limit."
    )
    encryptionRequireOnProducer: bool = Field(
        default=False, description="Refuse messages that are not encrypted, in all topics."
    )
    maxSubscriptionsPerTopic: int = Field(0, ge=0, description="Maximum subscriptions of a topic; 0: no limit.")
    maxConsumersPerTopic: int = Field(
        0, ge=0, description="Maximum number of consumers of a topic, over all subscriptions; 0: no limit."
    )
    maxConsumersPerSubscription: int = Field(
        0, ge=0, description="Maximum number of consumers of a subscription; 0: no limit."
    )
    allowAutoSubscriptionCreation: bool = Field(
        default=True, description="Create a missing subscription when a consumer asks for it."
    )
