"""Verbs for the policies of what clients may create and use."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from magnetar.cli.consent import Force
from magnetar.cli.plain_policies import documented, set_policy
from magnetar.cli.session import Session, names
from magnetar.cli.units import minutes, seconds
from magnetar.metadata.policy.table import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.names import NamespaceName, TopicName


class TopicType(StrEnum):
    """Type of an automatically created topic."""

    NON_PARTITIONED = "non-partitioned"
    PARTITIONED = "partitioned"


class DeleteMode(StrEnum):
    """Topics that are deleted when they are inactive."""

    NO_SUBSCRIPTIONS = "delete_when_no_subscriptions"
    CAUGHT_UP = "delete_when_subscriptions_caught_up"


_Enabled = Annotated[bool, typer.Option("--enable/--disable", "-e/-d", help="Enable or disable it.")]


def setters() -> dict[Policy, tuple[str, Callable[..., None]]]:
    """Return the name and the setter of each of these policies."""
    return {
        Policy.AUTO_TOPIC_CREATION: ("auto-topic-creation", _auto_topic_creation()),
        Policy.AUTO_SUBSCRIPTION_CREATION: ("auto-subscription-creation", _auto_subscription_creation()),
        Policy.SUBSCRIPTION_TYPES_ENABLED: ("subscription-types-enabled", _subscription_types()),
        Policy.SUBSCRIPTION_EXPIRATION_TIME: ("subscription-expiration-time", _subscription_expiration()),
        Policy.INACTIVE_TOPICS: ("inactive-topic-policies", _inactive_topics()),
        Policy.ENCRYPTION_REQUIRED: ("encryption-required", _encryption_required()),
    }


def _auto_topic_creation() -> Callable[..., None]:
    def set_it(
        session: Session,
        owner: NamespaceName | TopicName,
        *,
        enabled: bool,
        kind: TopicType = TopicType.NON_PARTITIONED,
        partitions: int | None = None,
    ) -> None:
        value: dict[str, object] = {"allowAutoTopicCreation": enabled, "topicType": kind.value}
        if partitions is not None:
            value["defaultNumPartitions"] = partitions
        set_policy(session, owner, (Policy.AUTO_TOPIC_CREATION, "auto-topic-creation"), value)

    return documented(
        set_it,
        "Allow or forbid clients to create topics by using them.",
        enabled=_Enabled,
        kind=Annotated[TopicType, typer.Option("--type", "-t", help="Type of the topics.")],
        partitions=Annotated[int | None, typer.Option("--num-partitions", "-n", min=1, help="Only if partitioned.")],
    )


def _auto_subscription_creation() -> Callable[..., None]:
    def set_it(session: Session, owner: NamespaceName | TopicName, *, enabled: bool) -> None:
        value = {"allowAutoSubscriptionCreation": enabled}
        set_policy(session, owner, (Policy.AUTO_SUBSCRIPTION_CREATION, "auto-subscription-creation"), value)

    return documented(set_it, "Allow or forbid consumers to create subscriptions by using them.", enabled=_Enabled)


def _subscription_types() -> Callable[..., None]:
    def set_it(session: Session, owner: NamespaceName | TopicName, types: str) -> None:
        set_policy(session, owner, (Policy.SUBSCRIPTION_TYPES_ENABLED, "subscription-types-enabled"), names(types))

    option = typer.Option("--types", "-t", help="Exclusive, Shared, Failover, Key_Shared, separated by commas.")
    return documented(set_it, "Allow only some types of subscriptions.", types=Annotated[str, option])


def _inactive_topics() -> Callable[..., None]:
    def set_it(
        session: Session,
        owner: NamespaceName | TopicName,
        *,
        enabled: bool,
        time: int,
        mode: DeleteMode = DeleteMode.NO_SUBSCRIPTIONS,
        force: bool = False,
    ) -> None:
        if enabled and not force:
            effects = ["topics without clients are deleted after this time, with all their messages"]
            session.require_consent(f"delete inactive topics of {owner}", effects)
        value = {
            "inactiveTopicDeleteMode": mode.value,
            "maxInactiveDurationSeconds": time,
            "deleteWhileInactive": enabled,
        }
        set_policy(session, owner, (Policy.INACTIVE_TOPICS, "inactive-topic-policies"), value)

    flags = "--enable-delete-while-inactive/--disable-delete-while-inactive", "-e/-d"
    return documented(
        set_it,
        "Delete topics without clients after some time, with all their messages; never replicated ones.",
        enabled=Annotated[bool, typer.Option(*flags, help="Delete such topics or keep them.")],
        time=Annotated[
            int, typer.Option("--max-inactive-duration", "-t", parser=seconds, metavar="TIME", help="90s, 10m, 3h.")
        ],
        mode=Annotated[DeleteMode, typer.Option("--delete-mode", "-m", help="Topics that are deleted.")],
        force=Force,
    )


def _subscription_expiration() -> Callable[..., None]:
    def set_it(session: Session, owner: NamespaceName | TopicName, *, time: int, force: bool = False) -> None:
        if time and not force:
            effects = ["subscriptions without consumers are deleted after this time, with their backlogs"]
            session.require_consent(f"delete unused subscriptions of {owner}", effects)
        set_policy(session, owner, (Policy.SUBSCRIPTION_EXPIRATION_TIME, "subscription-expiration-time"), time)

    option = typer.Option("--time", "-t", parser=minutes, metavar="TIME", help="10m, 3h, 2d; 0: never.")
    return documented(
        set_it,
        "Delete subscriptions that have had no consumers for some time; never replicated ones.",
        time=Annotated[int, option],
        force=Force,
    )


def _encryption_required() -> Callable[..., None]:
    def set_it(session: Session, owner: NamespaceName | TopicName, *, enabled: bool) -> None:
        set_policy(session, owner, (Policy.ENCRYPTION_REQUIRED, "encryption-required"), enabled)

    return documented(set_it, "Refuse or accept messages that are not encrypted.", enabled=_Enabled)
