"""Settings of retention, expiry and backlog quotas."""

# ruff: noqa: N815 - the settings carry Pulsar's names

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class RetentionSettings(BaseModel):
    """Retention, expiry and backlog quotas."""

    defaultRetentionTimeInMinutes: int = Field(
        0, ge=-1, description="Minutes for which acknowledged entries are retained; -1: no limit."
    )
    defaultRetentionSizeInMB: int = Field(
        0, ge=-1, description="Size of the retained acknowledged entries; -1: no limit."
    )
    brokerUnloadInactiveTopicsMaxInactiveDurationSeconds: float = Field(
        3600, ge=0, description="Seconds after which an unused topic is unloaded; 0: never."
    )
    brokerUnloadInactiveTopicsFrequencySeconds: float = Field(
        60, gt=0, description="Seconds between two checks for unused topics."
    )
    brokerDeleteInactiveTopicsEnabled: bool = Field(
        default=False, description="Delete topics without clients, with all their messages."
    )
    brokerDeleteInactiveTopicsMode: Literal["delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"] = (
        Field(
            "delete_when_no_subscriptions",
            description="Topics that are deleted: those without subscriptions, or also those without a backlog. Never "
            "replicated ones.",
        )
    )
    brokerDeleteInactiveTopicsFrequencySeconds: int = Field(
        60, gt=0, description="Seconds between two checks for topics to delete."
    )
    brokerDeleteInactiveTopicsMaxInactiveDurationSeconds: int = Field(
        0,
        ge=0,
        description="Seconds without clients after which a topic is deleted; 0: the seconds between two checks.",
    )
    subscriptionExpirationTimeMinutes: int = Field(
        0,
        ge=0,
        description="Minutes without consumers after which a subscription that is not replicated is deleted; 0: never.",
    )
    subscriptionExpiryCheckIntervalInMinutes: float = Field(
        5, gt=0, description="Minutes between two checks for such subscriptions."
    )
    retentionCheckIntervalInSeconds: int = Field(120, gt=0, description="Seconds between two trims of all topics.")

    ttlDurationDefaultInSeconds: int = Field(
        0, ge=0, description="Age in seconds at which messages are acknowledged for every subscription; 0: never."
    )
    messageExpiryCheckIntervalInMinutes: float = Field(
        5, gt=0, description="Minutes between two checks for expired messages."
    )
    backlogQuotaCheckIntervalInSeconds: float = Field(
        60, gt=0, description="Seconds between two checks of backlog quotas."
    )
    backlogQuotaDefaultLimitBytes: int = Field(
        -1, ge=-1, description="Maximum backlog of a topic in bytes; -1: no limit."
    )
    backlogQuotaDefaultLimitSecond: int = Field(
        -1, ge=-1, description="Maximum age of a topic's oldest unacknowledged message, in seconds; -1 or 0: no limit."
    )
    backlogQuotaDefaultRetentionPolicy: Literal[
        "producer_request_hold", "producer_exception", "consumer_backlog_eviction"
    ] = Field("producer_request_hold", description="Policy of a topic that exceeds its backlog quota.")
