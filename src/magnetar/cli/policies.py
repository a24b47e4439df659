"""The verbs for policies, which namespaces and topics have alike."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer

from magnetar.admin.nouns import Policy
from magnetar.base.names import NamespaceName, TopicName
from magnetar.cli.output import say
from magnetar.cli.session import Session, Topic, command
from magnetar.cli.units import bounded_seconds, megabytes, minutes, seconds, size

Owner = NamespaceName | TopicName
"""Whose policy it is; the noun that a verb is added to says which of the two."""


class QuotaType(StrEnum):
    """What a backlog quota counts."""

    DESTINATION_STORAGE = "destination_storage"
    MESSAGE_AGE = "message_age"


class QuotaPolicy(StrEnum):
    """What happens beyond it."""

    PRODUCER_REQUEST_HOLD = "producer_request_hold"
    PRODUCER_EXCEPTION = "producer_exception"
    CONSUMER_BACKLOG_EVICTION = "consumer_backlog_eviction"


class Truth(StrEnum):
    """Yes or no, as ``pulsar-admin`` takes it for some policies."""

    TRUE = "true"
    FALSE = "false"


class Sync(StrEnum):
    """How replicated subscriptions reach the other clusters."""

    AUTO = "auto"
    EXACT = "exact"
    MARKERS = "markers"


Enabled = Annotated[bool, typer.Option("--enable/--disable", "-e/-d", help="Whether it is on.")]
Applied = Annotated[bool, typer.Option("--applied", "-ap", help="What holds, whoever set it.")]
Kind = Annotated[QuotaType, typer.Option("--type", "-t", help="What is counted: bytes, or seconds.")]
Minutes = Annotated[
    int, typer.Option("--time", "-t", parser=minutes, metavar="TIME", help="10m, 3h, 2d; -1: no limit.")
]
Megabytes = Annotated[
    int, typer.Option("--size", "-s", parser=megabytes, metavar="SIZE", help="100M, 16G, 3T; -1: no limit.")
]


def set_retention(session: Session, owner: Owner, time: Minutes, size: Megabytes) -> None:
    """Keep acknowledged messages up to a time and a size; 0 for both keeps none."""
    session.client.policies.set_retention(owner, minutes=time, megabytes=size)
    say(f"set the retention of {owner}")


def set_message_ttl(
    session: Session,
    owner: Owner,
    message_ttl: Annotated[
        int, typer.Option("--messageTTL", "-ttl", parser=seconds, metavar="TIME", help="90s, 10m, 3h; 0: for ever.")
    ],
) -> None:
    """Acknowledge messages of this age for every subscription."""
    session.client.policies.set(owner, Policy.MESSAGE_TTL, message_ttl)
    say(f"messages of {owner} live for {message_ttl} s")


def set_deduplication(session: Session, owner: Owner, enabled: Enabled) -> None:
    """Store each message of a named producer once, or as often as it is sent."""
    session.client.policies.set(owner, Policy.DEDUPLICATION, enabled)
    say(f"deduplication of {owner} is {'on' if enabled else 'off'}")


def set_deduplication_snapshot_interval(
    session: Session,
    owner: Owner,
    interval: Annotated[int, typer.Option("--interval", "-i", parser=seconds, metavar="TIME", help="90s, 10m.")],
) -> None:
    """Say after what time a snapshot of the producers' sequence ids is due."""
    session.client.policies.set(owner, Policy.DEDUPLICATION_SNAPSHOT_INTERVAL, interval)
    say(f"snapshots of {owner} are due after {interval} s")


def set_delayed_delivery(
    session: Session,
    owner: Owner,
    enabled: Enabled,
    time: Annotated[int, typer.Option("--time", "-t", min=0, help="Milliseconds between two looks.")] = 1000,
    max_delay: Annotated[int, typer.Option("--maxDelay", min=0, help="Milliseconds ahead; 0: any.")] = 0,
) -> None:
    """Say whether deliver_at_time is honoured, how exactly, and how far ahead it may lie."""
    wanted = {"active": enabled, "tickTime": time, "maxDeliveryDelayInMillis": max_delay}
    session.client.policies.set(owner, Policy.DELAYED_DELIVERY, wanted)
    say(f"delayed delivery of {owner} is {'on' if enabled else 'off'}")


def set_pause(session: Session, owner: Owner) -> None:
    """Pause dispatch rather than lose acknowledgement state (PIP-299)."""
    session.client.policies.set(owner, Policy.PAUSE_ON_ACK_STATE)
    say(f"dispatch of {owner} pauses when acknowledgement state cannot be kept")


def set_replicate_subscription_state(
    session: Session,
    owner: Owner,
    enabled: Annotated[Truth, typer.Option("--enabled", help="Whether every durable subscription is replicated.")],
) -> None:
    """Replicate every durable subscription, whatever its clients ask for; false leaves it to them."""
    session.client.policies.set(owner, Policy.REPLICATE_SUBSCRIPTION_STATE, enabled is Truth.TRUE)
    say(f"{'all' if enabled is Truth.TRUE else 'not all'} subscriptions of {owner} are replicated")


def set_replicated_subscriptions_allowed(
    session: Session,
    owner: Owner,
    allowed: Annotated[Truth, typer.Option("--allowed", help="Whether a subscription may be replicated.")],
) -> None:
    """Forbid replicated subscriptions, or allow them; what is forbidden goes on from where it is once allowed."""
    session.client.policies.set(owner, Policy.REPLICATED_SUBSCRIPTIONS_ALLOWED, allowed is Truth.TRUE)
    say(f"subscriptions of {owner} may {'' if allowed is Truth.TRUE else 'not '}be replicated")


def set_max_at_risk_messages(
    session: Session,
    owner: Owner,
    messages: Annotated[int, typer.Option("--messages", "-m", min=-1, help="0: none, -1: any number.")],
) -> None:
    """Slow publishing down rather than have more messages in too few other clusters."""
    session.client.policies.set(owner, Policy.MAX_AT_RISK_MESSAGES, messages)
    say(f"at most {messages} messages of {owner} are at risk" if messages >= 0 else f"no bound of {owner}")


def set_max_at_risk_seconds(
    session: Session,
    owner: Owner,
    time: Annotated[int, typer.Option("--time", "-t", parser=bounded_seconds, metavar="TIME", help="5s, 1m; -1: any.")],
) -> None:
    """Slow publishing down rather than have messages of a longer time in too few other clusters."""
    session.client.policies.set(owner, Policy.MAX_AT_RISK_SECONDS, time)
    say(f"messages of at most {time} s of {owner} are at risk" if time >= 0 else f"no bound of {owner}")


def set_at_risk_copies(
    session: Session,
    owner: Owner,
    copies: Annotated[int, typer.Option("--copies", "-c", min=1, help="Other clusters.")],
) -> None:
    """Say how many other clusters make a message safe."""
    session.client.policies.set(owner, Policy.AT_RISK_COPIES, copies)
    say(f"a message of {owner} is safe in {copies} other clusters")


def set_at_risk_absence(
    session: Session,
    owner: Owner,
    time: Annotated[
        int, typer.Option("--time", "-t", parser=bounded_seconds, metavar="TIME", help="90s, 10m; -1: for ever.")
    ],
) -> None:
    """Say after what time a cluster that confirms nothing counts no more."""
    session.client.policies.set(owner, Policy.AT_RISK_ABSENCE_SECONDS, time)
    until = f"until it has been absent for {time} s" if time >= 0 else "however long it is absent"
    say(f"a cluster counts for {owner} {until}")


def set_replicated_subscription_sync(
    session: Session,
    owner: Owner,
    mode: Annotated[Sync, typer.Option("--mode", "-m", help="auto: exact where the other cluster can.")],
) -> None:
    """Say how replicated subscriptions reach other clusters: exactly, or by PIP-33's snapshots (markers)."""
    session.client.policies.set(owner, Policy.REPLICATED_SUBSCRIPTION_SYNC, mode.value)
    say(f"replicated subscriptions of {owner} are carried in mode {mode.value}")


def set_replicated_subscriptions_snapshot_frequency(
    session: Session,
    owner: Owner,
    time: Annotated[int, typer.Option("--time", "-t", min=1, help="Milliseconds between two snapshots.")],
) -> None:
    """Say how often replicated subscriptions take snapshots (PIP-33), where they need any."""
    session.client.policies.set(owner, Policy.REPLICATED_SUBSCRIPTIONS_SNAPSHOT_FREQUENCY, time)
    say(f"{owner} takes a snapshot every {time} ms at most")


def set_replicated_subscription_active_cluster(
    session: Session,
    owner: Owner,
    cluster: Annotated[str, typer.Option("--cluster", help="The only one with consumers; empty: all of them.")],
) -> None:
    """Let replicated subscriptions have consumers in one cluster only; say so in each, the one they leave first."""
    session.client.policies.set(owner, Policy.REPLICATED_SUBSCRIPTION_ACTIVE_CLUSTER, cluster)
    say(f"replicated subscriptions of {owner} are consumed in {cluster or 'every cluster'}")


def get_backlog_quotas(session: Session, owner: Owner) -> None:
    """Show the backlog quotas by type."""
    session.fields(session.client.policies.backlog_quotas(owner))


def set_backlog_quota(
    session: Session,
    owner: Owner,
    policy: Annotated[QuotaPolicy, typer.Option("--policy", "-p", help="What happens beyond the limit.")],
    limit: Annotated[int | None, typer.Option("--limit", "-l", parser=size, metavar="SIZE", help="10M, 16G.")] = None,
    limit_time: Annotated[
        int | None, typer.Option("--limitTime", "-lt", parser=seconds, metavar="TIME", help="10m, 3h.")
    ] = None,
    kind: Kind = QuotaType.DESTINATION_STORAGE,
) -> None:
    """Limit what subscriptions and links may leave unacknowledged, in bytes or by its age."""
    wanted, option = (limit, "--limit") if kind is QuotaType.DESTINATION_STORAGE else (limit_time, "--limitTime")
    if wanted is None:
        message = f"a quota of {kind.value} needs {option}"
        raise typer.BadParameter(message)
    limits = {"limit_size": wanted} if kind is QuotaType.DESTINATION_STORAGE else {"limit_time": wanted}
    session.client.policies.set_backlog_quota(owner, kind.value, policy.value, **limits)
    say(f"set the backlog quota of {owner}")


def remove_backlog_quota(session: Session, owner: Owner, kind: Kind = QuotaType.DESTINATION_STORAGE) -> None:
    """Take the backlog quota of a type away."""
    session.client.policies.remove_backlog_quota(owner, kind.value)
    say(f"removed the backlog quota of {owner}")


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
}


def add_verbs(app: typer.Typer, owner: object) -> None:
    """Add the verbs to a noun; ``owner`` is how their first argument is read."""
    for policy, (name, set_it) in _POLICIES.items():
        get = _topic_getter(policy, name) if owner is Topic else _getter(policy, name)
        command(app, f"get-{name}", owner=owner)(get)
        command(app, f"set-{name}", owner=owner)(set_it)
        command(app, f"remove-{name}", owner=owner)(_remover(policy, name))
    command(app, "get-backlog-quotas", owner=owner)(get_backlog_quotas)
    command(app, "set-backlog-quota", owner=owner)(set_backlog_quota)
    command(app, "remove-backlog-quota", owner=owner)(remove_backlog_quota)


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
        session.client.policies.remove(owner, policy)
        say(f"removed the {name.replace('-', ' ')} of {owner}")

    remove.__doc__ = f"Go back to the {name.replace('-', ' ')} of the level above."
    return remove


topic_policies = typer.Typer(
    help="Policies that a topic sets for itself, before its namespace's.", no_args_is_help=True
)
add_verbs(topic_policies, Topic)
