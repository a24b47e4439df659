"""Settings of replication."""

# ruff: noqa: N815 - the settings carry Pulsar's names

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from magnetar.metadata.policy.description import ReplicatedSubscriptionSync


class ReplicationSettings(BaseModel):
    """Replication."""

    replicationStartAt: Literal["earliest", "latest"] = Field(
        "earliest", description="Start position of a new link in a topic that already has messages."
    )
    enableReplicatedSubscriptions: bool = Field(
        default=True, description="Allow replicated subscriptions; false forbids them in all topics."
    )
    maxAtRiskMessages: int = Field(
        -1,
        ge=-1,
        description="Maximum number of messages of a topic that are in fewer than atRiskCopies other "
        "clusters. Beyond it, receipts are withheld. -1: no limit.",
    )
    maxAtRiskSeconds: int = Field(
        -1,
        ge=-1,
        description="Maximum age of such messages, in seconds. Beyond it, receipts are withheld. -1: no limit.",
    )
    atRiskCopies: int = Field(
        1, ge=1, description="Number of other clusters that must store a message before it is safe."
    )
    atRiskAbsenceSeconds: int = Field(
        -1, ge=-1, description="Seconds without a confirmation after which a cluster no longer counts; -1: no limit."
    )
    replicateSubscriptionState: bool = Field(
        default=False,
        description="Replicate every durable subscription, even if its clients do not ask for it (PIP-398).",
    )
    replicatedSubscriptionProgressIntervalMs: int = Field(
        50, gt=0, description="Minimum milliseconds between two progress messages of a topic to a cluster."
    )
    replicatedSubscriptionFullStateIntervalSeconds: int = Field(
        30, gt=0, description="Seconds between two full states of a topic to a cluster."
    )
    replicatedSubscriptionSync: ReplicatedSubscriptionSync = Field(
        "auto",
        description="Method of replicating progress: exact; markers (the snapshots of PIP-33); or auto: exact to "
        "clusters of Magnetar, markers to Apache Pulsar.",
    )
    replicatedSubscriptionsSnapshotFrequencyMillis: int = Field(
        1000, gt=0, description="Minimum milliseconds between two snapshots of a topic."
    )
    replicatedSubscriptionsSnapshotTimeoutSeconds: int = Field(
        30, gt=0, description="Maximum seconds that a snapshot waits for the answers of all clusters."
    )
    replicatedSubscriptionsSnapshotWithoutClusterAfterSeconds: float = Field(
        0,
        ge=0,
        description="Omit a cluster from snapshots after this many seconds without a holder of the link to it; 0: "
        "never. Only in mode markers, and only between clusters of Magnetar, because only they report their entries.",
    )
    replicatedSubscriptionsSnapshotMaxCachedPerSubscription: int = Field(
        30, ge=3, description="Maximum number of snapshots kept for a subscription that has not reached them yet."
    )
    replicationRestAfterMs: int = Field(
        5000,
        ge=0,
        description="Milliseconds without anything to carry after which a link has no holder until there is something "
        "(0: links do not rest).",
    )
    replicatedSubscriptionAtRiskAfterMs: int = Field(
        1000, gt=0, description="Milliseconds without a confirmation after which a subscription is at risk."
    )
