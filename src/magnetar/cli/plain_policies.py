"""Verbs for policies whose value is a single number, and for those without effect, whose value is given as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from magnetar.cli.session import Session
from magnetar.metadata.policy.table import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.names import NamespaceName, TopicName

NUMBERS: dict[Policy, tuple[str, tuple[str, ...], str]] = {
    Policy.MAX_PRODUCERS: (
        "max-producers-per-topic",
        ("--max-producers-per-topic", "-p"),
        "Maximum number of producers of a topic",
    ),
    Policy.MAX_CONSUMERS: (
        "max-consumers-per-topic",
        ("--max-consumers-per-topic", "-c"),
        "Maximum number of consumers of a topic",
    ),
    Policy.MAX_CONSUMERS_PER_SUBSCRIPTION: (
        "max-consumers-per-subscription",
        ("--max-consumers-per-subscription", "-c"),
        "Maximum number of consumers of a subscription",
    ),
    Policy.MAX_SUBSCRIPTIONS: (
        "max-subscriptions-per-topic",
        ("--max-subscriptions-per-topic", "-m"),
        "Maximum number of subscriptions of a topic",
    ),
    Policy.MAX_TOPICS: (
        "max-topics-per-namespace",
        ("--max-topics-per-namespace", "-t"),
        "Maximum number of topics of a namespace",
    ),
    Policy.MAX_MESSAGE_SIZE: ("max-message-size", ("--max-message-size", "-m"), "Maximum size of a message in bytes"),
    Policy.MAX_UNACKED_MESSAGES_PER_CONSUMER: (
        "max-unacked-messages-per-consumer",
        ("--max-messages", "-c"),
        "Maximum number of unacknowledged messages of a consumer",
    ),
    Policy.MAX_UNACKED_MESSAGES_PER_SUBSCRIPTION: (
        "max-unacked-messages-per-subscription",
        ("--max-messages", "-c"),
        "Maximum number of unacknowledged messages of a subscription",
    ),
}
"""Name, options and meaning of each limit; 0 is no limit."""

WITHOUT_EFFECT: dict[Policy, str] = {
    Policy.COMPACTION_THRESHOLD: "compaction-threshold",
    Policy.ENTRY_FILTERS: "entry-filters",
    Policy.PERSISTENCE: "persistence",
    Policy.OFFLOAD_POLICIES: "offload-policies",
    Policy.OFFLOAD_THRESHOLD: "offload-threshold",
    Policy.OFFLOAD_THRESHOLD_IN_SECONDS: "offload-threshold-in-seconds",
    Policy.OFFLOAD_DELETION_LAG: "offload-deletion-lag",
    Policy.SCHEMA_AUTO_UPDATE_COMPATIBILITY_STRATEGY: "schema-autoupdate-strategy",
    Policy.SUBSCRIPTION_AUTH_MODE: "subscription-auth-mode",
}
"""Names of the policies without effect."""


def setters() -> dict[Policy, tuple[str, Callable[..., None]]]:
    """Return the name and the setter of each of these policies."""
    numbers = {policy: (name, _number((policy, name), flags, text)) for policy, (name, flags, text) in NUMBERS.items()}
    return numbers | {policy: (name, _json((policy, name))) for policy, name in WITHOUT_EFFECT.items()}


def set_policy(
    session: Session, owner: NamespaceName | TopicName, named: tuple[Policy, str], value: object = None
) -> None:
    """Set a policy, given with its name, and report its values before and after."""
    policy, name = named
    before = session.client.policies.get(owner, policy)
    session.client.policies.set(owner, policy, value)
    session.changed(owner, name, before, session.client.policies.get(owner, policy))


def _number(named: tuple[Policy, str], flags: tuple[str, ...], text: str) -> Callable[..., None]:
    def set_number(session: Session, owner: NamespaceName | TopicName, number: int) -> None:
        set_policy(session, owner, named, number)

    return documented(set_number, f"{text}.", number=Annotated[int, typer.Option(*flags, min=0, help="0: no limit.")])


def _json(named: tuple[Policy, str]) -> Callable[..., None]:
    def set_value(session: Session, owner: NamespaceName | TopicName, value: Any) -> None:  # noqa: ANN401 - any JSON
        set_policy(session, owner, named, value)

    option = typer.Option("--value", parser=_parsed, metavar="JSON", help="Value as in the REST API.")
    text = f"Without effect. In Apache Pulsar: {named[0].value.about}"
    return documented(set_value, text, value=Annotated[Any, option])


def documented(function: Callable[..., None], text: str, **read_as: object) -> Callable[..., None]:
    """Return a setter with its help text and the annotations of its options."""
    function.__doc__ = text
    function.__annotations__ |= {"session": Session, "owner": object, **read_as}  # the noun replaces that of the owner
    return function


def _parsed(text: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        message = f"{text!r} is not JSON"
        raise typer.BadParameter(message) from None
