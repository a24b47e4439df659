"""The form of a row of the table of policies, and the types of single values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from magnetar.metadata.policy.document import Int

ReplicatedSubscriptionSync = Literal["auto", "exact", "markers"]
"""Methods of replicating subscriptions: exact progress, PIP-33's snapshots, or the best one of each cluster."""

Limit = Annotated[int, Field(ge=-1, lt=2**31)]
"""A limit; -1: no limit."""

Copies = Annotated[int, Field(ge=1, lt=2**31)]
"""A number of clusters."""

Custody = dict[str, str]
"""By cluster that has left a namespace, the cluster that carries its entries to others."""

Milliseconds = Annotated[int, Field(ge=1, lt=2**31)]
"""A time between two events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A policy of a namespace, or of a topic."""

    path: str
    """Last part of the path."""
    field: str
    """Field of Policies, or of TopicPolicies."""
    method: str = "POST"
    """Method that sets the policy."""
    refusal: str = ""
    """Reason of the 412 for a negative number; empty: any number is valid."""
    is_nullable: bool = False
    """Whether null removes the policy, although the type does not allow it."""
    unset: Any = None
    """Answer of GET if the policy is not set; None: 204."""
    removal: str | None = None
    """Last part of the path of DELETE; None: that of the other methods."""
    applied: Any = None
    """Value in effect if no level sets a policy without effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A policy."""

    namespace: Level | None = None
    """None: a namespace cannot set it."""
    topic: Level | None = None
    """None: a topic cannot set it."""
    kind: Any
    """Type of the value. If null is valid, it removes the policy."""
    effective: str | None = None
    """Field of EffectivePolicies; None: there is none."""
    is_per_cluster: bool = False
    """Whether the namespace's field contains a value for each cluster."""
    is_of_authorization: bool = False
    """Whether authorization reads it, so that it has an effect although it is no field of EffectivePolicies."""
    about: str = ""
    """Meaning of a policy that is no field of EffectivePolicies, in Apache Pulsar if it has no effect."""

    @property
    def has_effect(self) -> bool:
        """Whether the policy changes anything."""
        return self.effective is not None or self.is_of_authorization

    def kind_at(self, level: Level) -> Any:  # noqa: ANN401 - any type
        """Return the type of the value in requests that set it."""
        return self.kind | None if level.is_nullable else self.kind


def same(
    effective: str, kind: object, path: str, field: str, topic_path: str = "", topic_field: str = ""
) -> Description:
    """Describe a policy of both levels."""
    return Description(
        effective=effective,
        kind=kind,
        namespace=Level(path=path, field=field),
        topic=Level(path=topic_path or path, field=topic_field or field),
    )


def maximum(
    effective: str,
    namespace: tuple[str, str],
    topic: tuple[str, str],
    topic_refusal: str = "",
    *,
    is_nullable: bool = False,
) -> Description:
    """Describe a maximum number of both levels, each with path and field; 0: no limit."""
    path, field = namespace
    topic_path, topic_field = topic
    return Description(
        effective=effective,
        kind=Int,
        namespace=Level(path=path, field=field, refusal=f"{path} must be 0 or more"),
        topic=Level(
            path=topic_path,
            field=topic_field,
            refusal=topic_refusal or f"{topic_path} must be 0 or more",
            is_nullable=is_nullable,
        ),
    )


def rate(effective: str, kind: object, path: str, field: str) -> Description:
    """Describe a rate of both levels; null removes it."""
    return Description(
        effective=effective,
        kind=kind,
        namespace=Level(path=path, field=field),
        topic=Level(path=path, field=path),
        is_per_cluster=True,
    )
