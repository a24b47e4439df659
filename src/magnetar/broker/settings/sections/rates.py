"""Settings of rates."""

# ruff: noqa: N815 - the settings carry Pulsar's names

from __future__ import annotations

from pydantic import BaseModel, Field


class RateSettings(BaseModel):
    """Rates. 0 is no limit."""

    brokerPublisherThrottlingMaxMessageRate: int = Field(
        0,
        ge=0,
        description="Maximum number of messages per second that clients publish to the broker. Tenants share it: each "
        "one that publishes more than an equal part gets an equal part of what the others leave.",
    )
    brokerPublisherThrottlingMaxByteRate: int = Field(
        0, ge=0, description="The same for the bytes that clients publish."
    )
    maxPublishRatePerTopicInMessages: int = Field(
        0, ge=0, description="Maximum number of messages per second that clients publish to a topic."
    )
    maxPublishRatePerTopicInBytes: int = Field(
        0, ge=0, description="Maximum number of bytes per second that clients publish to a topic."
    )
    dispatchThrottlingRatePerTopicInMsg: int = Field(
        0, ge=0, description="Maximum number of messages per second that all subscriptions of a topic send."
    )
    dispatchThrottlingRatePerTopicInByte: int = Field(
        0, ge=0, description="Maximum number of bytes per second that all subscriptions of a topic send."
    )
    dispatchThrottlingRatePerSubscriptionInMsg: int = Field(
        0, ge=0, description="Maximum number of messages per second that a subscription sends."
    )
    dispatchThrottlingRatePerSubscriptionInByte: int = Field(
        0, ge=0, description="Maximum number of bytes per second that a subscription sends."
    )
    dispatchThrottlingRatePerReplicatorInMsg: int = Field(
        0, ge=0, description="Maximum number of entries per second of a link."
    )
    dispatchThrottlingRatePerReplicatorInByte: int = Field(
        0, ge=0, description="Maximum number of bytes per second of a link."
    )
    dispatchThrottlingRateRelativeToPublishRate: bool = Field(
        default=False, description="Add the rate at which the topic is published to these rates of dispatch."
    )
    subscribeThrottlingRatePerConsumer: int = Field(
        0, ge=0, description="Maximum number of times that a consumer subscribes in each period."
    )
    subscribeRatePeriodPerConsumerInSecond: int = Field(30, gt=0, description="Length of that period in seconds.")
