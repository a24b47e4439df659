"""The verbs for policies, shared by namespaces and topics."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer

from magnetar.base.names import NamespaceName, TopicName
from magnetar.cli import creation_policies, plain_policies, rate_policies
from magnetar.cli.global_options import noun
from magnetar.cli.plain_policies import set_policy
from magnetar.cli.session import Session, Topic, change, command
from magnetar.cli.units import bounded_seconds, megabytes, minutes, seconds, size
from magnetar.metadata.policy.table import Policy

Owner = NamespaceName | TopicName
"""Owner of a policy; the noun of the command determines the type."""


class QuotaType(StrEnum):
    """Quantity that a backlog quota limits."""

    DESTINATION_STORAGE = "destination_storage"
    MESSAGE_AGE = "message_age"


class QuotaPolicy(StrEnum):
    """Action when a backlog quota is exceeded."""

    PRODUCER_REQUEST_HOLD = "producer_request_hold"
    PRODUCER_EXCEPTION = "producer_exception"
    CONSUMER_BACKLOG_EVICTION = "consumer_backlog_eviction"


class Truth(StrEnum):
    """A boolean option in the form of ``pulsar-admin``: ``true`` or ``false``."""

    TRUE = "true"
    FALSE = "false"


class Sync(StrEnum):
    """Mode of replicated subscriptions."""

    AUTO = "auto"
    EXACT = "exact"
    MARKERS = "markers"


class Strategy(StrEnum):
    """Compatibility strategy of schemas."""

    UNDEFINED = "UNDEFINED"
    FULL = "FULL"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    ALWAYS_COMPATIBLE = "ALWAYS_COMPATIBLE"
    ALWAYS_INCOMPATIBLE = "ALWAYS_INCOMPATIBLE"


Enabled = Annotated[bool, typer.Option("--enable/--disable", "-e/-d", help="Enable or disable it.")]
Applied = Annotated[bool, typer.Option("--applied", "-ap", help="The value in effect, including inherited ones.")]
Kind = Annotated[QuotaType, typer.Option("--type", "-t", help="Limited quantity: bytes, or seconds.")]
Minutes = Annotated[
    int, typer.Option("--time", "-t", parser=minutes, metavar="TIME", help="10m, 3h, 2d; -1: no limit.")
]
Megabytes = Annotated[
    int, typer.Option("--size", "-s", parser=megabytes, metavar="SIZE", help="100M, 16G, 3T; -1: no limit.")
]


def set_retention(session: Session, owner: Owner, time: Minutes, size: Megabytes) -> None:
    """Set for how long, and up to which size, acknowledged messages are kept; 0 for both keeps none."""
    _set(session, owner, Policy.RETENTION, {"retentionTimeInMinutes": time, "retentionSizeInMB": size})


def set_message_ttl(
    session: Session,
    owner: Owner,
    message_ttl: Annotated[
        int, typer.Option("--messageTTL", "-ttl", parser=seconds, metavar="TIME", help="90s, 10m, 3h; 0: for ever.")
    ],
) -> None:
    """Set the age at which messages expire in every subscription."""
    _set(session, owner, Policy.MESSAGE_TTL, message_ttl)


def set_deduplication(session: Session, owner: Owner, enabled: Enabled) -> None:
    """Enable or disable deduplication of the messages of named producers."""
    _set(session, owner, Policy.DEDUPLICATION, enabled)


def set_deduplication_snapshot_interval(
    session: Session,
    owner: Owner,
    interval: Annotated[int, typer.Option("--interval", "-i", parser=seconds, metavar="TIME", help="90s, 10m.")],
) -> None:
    """Set the time after which a snapshot of the producers' sequence ids is due."""
    _set(session, owner, Policy.DEDUPLICATION_SNAPSHOT_INTERVAL, interval)


def set_delayed_delivery(
    session: Session,
    owner: Owner,
    enabled: Enabled,
    time: Annotated[int, typer.Option("--time", "-t", min=0, help="Precision in milliseconds.")] = 1000,
    max_delay: Annotated[int, typer.Option("--maxDelay", min=0, help="Longest delay, in milliseconds; 0: none.")] = 0,
) -> None:
    """Enable or disable delayed delivery, and set its precision and the longest delay."""
    wanted = {"active": enabled, "tickTime": time, "maxDeliveryDelayInMillis": max_delay}
    _set(session, owner, Policy.DELAYED_DELIVERY, wanted)


def set_pause(session: Session, owner: Owner) -> None:
    """Pause dispatch when acknowledgement state cannot be persisted (PIP-299)."""
    _set(session, owner, Policy.PAUSE_ON_ACK_STATE)


def set_replicate_subscription_state(
    session: Session,
    owner: Owner,
    enabled: Annotated[Truth, typer.Option("--enabled", help="true: replicate every durable subscription.")],
) -> None:
    """Replicate every durable subscription (PIP-398); with false, clients decide."""
    _set(session, owner, Policy.REPLICATE_SUBSCRIPTION_STATE, enabled is Truth.TRUE)


def set_replicated_subscriptions_allowed(
    session: Session,
    owner: Owner,
    allowed: Annotated[Truth, typer.Option("--allowed", help="false: replicate no subscription.")],
) -> None:
    """Allow or forbid replicated subscriptions; they keep their state while forbidden."""
    _set(session, owner, Policy.REPLICATED_SUBSCRIPTIONS_ALLOWED, allowed is Truth.TRUE)


def set_max_at_risk_messages(
    session: Session,
    owner: Owner,
    messages: Annotated[int, typer.Option("--messages", "-m", min=-1, help="0: synchronous, -1: no limit.")],
) -> None:
    """Limit the receipted messages that too few other clusters have; publishing slows down at the limit."""
    _set(session, owner, Policy.MAX_AT_RISK_MESSAGES, messages)


def set_max_at_risk_seconds(
    session: Session,
    owner: Owner,
    time: Annotated[
        int, typer.Option("--time", "-t", parser=bounded_seconds, metavar="TIME", help="5s, 1m; -1: none.")
    ],
) -> None:
    """Limit the age of receipted messages that too few other clusters have; publishing slows down at the limit."""
    _set(session, owner, Policy.MAX_AT_RISK_SECONDS, time)


def set_at_risk_copies(
    session: Session,
    owner: Owner,
    copies: Annotated[int, typer.Option("--copies", "-c", min=1, help="Number of other clusters.")],
) -> None:
    """Set the number of other clusters that must have a message for it to be safe."""
    _set(session, owner, Policy.AT_RISK_COPIES, copies)


def set_at_risk_absence(
    session: Session,
    owner: Owner,
    time: Annotated[
        int, typer.Option("--time", "-t", parser=bounded_seconds, metavar="TIME", help="90s, 10m; -1: for ever.")
    ],
) -> None:
    """Set the time after which a cluster that confirms nothing is not waited for."""
    _set(session, owner, Policy.AT_RISK_ABSENCE_SECONDS, time)


def set_replicated_subscription_sync(
    session: Session,
    owner: Owner,
    mode: Annotated[Sync, typer.Option("--mode", "-m", help="auto: exact where it is supported, else markers.")],
) -> None:
    """Set the mode of replicated subscriptions: exact, or by the snapshots of PIP-33 (markers)."""
    _set(session, owner, Policy.REPLICATED_SUBSCRIPTION_SYNC, mode.value)


def set_replicated_subscriptions_snapshot_frequency(
    session: Session,
    owner: Owner,
    time: Annotated[int, typer.Option("--time", "-t", min=1, help="Shortest interval in milliseconds.")],
) -> None:
    """Set the shortest interval between two snapshots for replicated subscriptions (PIP-33)."""
    _set(session, owner, Policy.REPLICATED_SUBSCRIPTIONS_SNAPSHOT_FREQUENCY, time)


def set_replicated_subscription_active_cluster(
    session: Session,
    owner: Owner,
    cluster: Annotated[str, typer.Option("--active-cluster", help="Cluster that admits consumers; empty: all.")],
) -> None:
    """Admit consumers of replicated subscriptions in one cluster only; set it in every cluster, the old one first."""
    _set(session, owner, Policy.REPLICATED_SUBSCRIPTION_ACTIVE_CLUSTER, cluster)


def set_schema_compatibility_strategy(
    session: Session,
    owner: Owner,
    strategy: Annotated[
        Strategy, typer.Option("--compatibility", "-c", help="UNDEFINED: the value of the level above.")
    ],
) -> None:
    """Set how a new schema must fit the existing ones."""
    _set(session, owner, Policy.SCHEMA_COMPATIBILITY_STRATEGY, strategy.value)


def set_schema_validation_enforce(session: Session, owner: Owner, enabled: Enabled) -> None:
    """Refuse producers without a schema in topics that have one, or admit them."""
    _set(session, owner, Policy.SCHEMA_VALIDATION_ENFORCED, enabled)


def get_backlog_quotas(session: Session, owner: Owner) -> None:
    """Show the backlog quotas by type."""
    session.fields(session.client.policies.backlog_quotas(owner))


def set_backlog_quota(
    session: Session,
    owner: Owner,
    policy: Annotated[QuotaPolicy, typer.Option("--policy", "-p", help="Action at the limit.")],
    limit: Annotated[int | None, typer.Option("--limit", "-l", parser=size, metavar="SIZE", help="10M, 16G.")] = None,
    limit_time: Annotated[
        int | None, typer.Option("--limitTime", "-lt", parser=seconds, metavar="TIME", help="10m, 3h.")
    ] = None,
    kind: Kind = QuotaType.DESTINATION_STORAGE,
) -> None:
    """Limit the backlog of a topic's subscriptions and links, in bytes or by age."""
    wanted, option = (limit, "--limit") if kind is QuotaType.DESTINATION_STORAGE else (limit_time, "--limitTime")
    if wanted is None:
        message = f"a quota of {kind.value} needs {option}"
        raise typer.BadParameter(message)
    limits = {"limit_size": wanted} if kind is QuotaType.DESTINATION_STORAGE else {"limit_time": wanted}
    policies = session.client.policies
    before = policies.backlog_quotas(owner).get(kind.value)
    policies.set_backlog_quota(owner, kind.value, policy.value, **limits)
    session.changed(owner, f"backlog-quota {kind.value}", before, policies.backlog_quotas(owner).get(kind.value))


def remove_backlog_quota(session: Session, owner: Owner, kind: Kind = QuotaType.DESTINATION_STORAGE) -> None:
    """Remove the backlog quota of a type."""
    policies = session.client.policies
    before = policies.backlog_quotas(owner).get(kind.value)
    policies.remove_backlog_quota(owner, kind.value)
    session.changed(owner, f"backlog-quota {kind.value}", before, policies.backlog_quotas(owner).get(kind.value))


def set_custody(
    session: Session,
    owner: Owner,
    custody: Annotated[
        list[str],
        typer.Option("--custody", "-c", metavar="ORIGIN=CLUSTER", help="A cluster that has left, and its custodian."),
    ],
) -> None:
    """Let a cluster carry the messages of clusters that have left the namespace to others."""
    wanted = dict(each.partition("=")[::2] for each in custody)
    _set(session, owner, Policy.CUSTODY, wanted)


_POLICIES: dict[Policy, tuple[str, Callable[..., None]]] = {
    Policy.RETENTION: ("retention", set_retention),
    Policy.MESSAGE_TTL: ("message-ttl", set_message_ttl),
    Policy.DEDUPLICATION: ("deduplication", set_deduplication),
    Policy.DEDUPLICATION_SNAPSHOT_INTERVAL: ("deduplication-snapshot-interval", set_deduplication_snapshot_interval),
    Policy.DELAYED_DELIVERY: ("delayed-delivery", set_delayed_delivery),
    Policy.PAUSE_ON_ACK_STATE: ("dispatcher-pause-on-ack-state-persistent", set_pause),
    Policy.MAX_AT_RISK_MESSAGES: ("max-at-risk-messages", set_max_at_risk_messages),
    Policy.MAX_AT_RISK_SECONDS: ("max-at-risk-seconds", set_max_at_risk_seconds),
    Policy.AT_RISK_COPIES: ("at-risk-copies", set_at_risk_copies),
    Policy.AT_RISK_ABSENCE_SECONDS: ("at-risk-absence", set_at_risk_absence),
    Policy.REPLICATE_SUBSCRIPTION_STATE: ("replicate-subscription-state", set_replicate_subscription_state),
    Policy.REPLICATED_SUBSCRIPTIONS_ALLOWED: (
        "replicated-subscriptions-allowed",
        set_replicated_subscriptions_allowed,
    ),
    Policy.REPLICATED_SUBSCRIPTION_SYNC: ("replicated-subscription-sync", set_replicated_subscription_sync),
    Policy.REPLICATED_SUBSCRIPTIONS_SNAPSHOT_FREQUENCY: (
        "replicated-subscriptions-snapshot-frequency",
        set_replicated_subscriptions_snapshot_frequency,
    ),
    Policy.REPLICATED_SUBSCRIPTION_ACTIVE_CLUSTER: (
        "replicated-subscription-active-cluster",
        set_replicated_subscription_active_cluster,
    ),
    Policy.CUSTODY: ("custody", set_custody),
    Policy.SCHEMA_COMPATIBILITY_STRATEGY: ("schema-compatibility-strategy", set_schema_compatibility_strategy),
    Policy.SCHEMA_VALIDATION_ENFORCED: ("schema-validation-enforce", set_schema_validation_enforce),
}


def _set(session: Session, owner: Owner, policy: Policy, value: object = None) -> None:
    set_policy(session, owner, (policy, _POLICIES[policy][0]), value)


def add_verbs(app: typer.Typer, owner: object) -> None:
    """Add the verbs to a noun; ``owner`` is the annotation of their first argument."""
    further = rate_policies.setters() | creation_policies.setters() | plain_policies.setters()
    for policy, (name, set_it) in (_POLICIES | further).items():
        if (policy.topic if owner is Topic else policy.namespace) is None:
            continue
        get = _topic_getter(policy, name) if owner is Topic else _getter(policy, name)
        command(app, f"get-{name}", owner=owner)(get)
        change(app, f"set-{name}", owner=owner)(set_it)
        change(app, f"remove-{name}", owner=owner)(_remover(policy, name))
    command(app, "get-backlog-quotas", owner=owner)(get_backlog_quotas)
    change(app, "set-backlog-quota", owner=owner)(set_backlog_quota)
    change(app, "remove-backlog-quota", owner=owner)(remove_backlog_quota)


def _getter(policy: Policy, name: str) -> Callable[..., None]:
    def get(session: Session, owner: Owner) -> None:
        session.value(session.client.policies.get(owner, policy))

    get.__doc__ = f"Show the {name.replace('-', ' ')} that is set."
    return get


def _topic_getter(policy: Policy, name: str) -> Callable[..., None]:
    def get(session: Session, owner: Owner, applied: Applied = False) -> None:
        session.value(session.client.policies.get(owner, policy, applied=applied))

    get.__doc__ = f"Show the {name.replace('-', ' ')} that is set."
    return get


def _remover(policy: Policy, name: str) -> Callable[..., None]:
    def remove(session: Session, owner: Owner) -> None:
        before = session.client.policies.get(owner, policy)
        session.client.policies.remove(owner, policy)
        session.changed(owner, name, before, session.client.policies.get(owner, policy))

    remove.__doc__ = f"Remove the {name.replace('-', ' ')}; the value of the level above applies."
    return remove


app = noun("Policies of a topic, which override those of its namespace.")
add_verbs(app, Topic)
