"""Verbs for the policies of rates."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from magnetar.cli.plain_policies import documented, set_policy
from magnetar.cli.session import Session
from magnetar.metadata.policy.table import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.names import NamespaceName, TopicName

_Messages = partial(typer.Option, help="Messages; -1: no limit.")
_Bytes = partial(typer.Option, help="Bytes; -1: no limit.")

_DISPATCH: dict[Policy, tuple[str, str]] = {
    Policy.DISPATCH_RATE: ("dispatch-rate", "Limit what all subscriptions of a topic send together."),
    Policy.SUBSCRIPTION_DISPATCH_RATE: ("subscription-dispatch-rate", "Limit what each subscription sends."),
    Policy.REPLICATOR_DISPATCH_RATE: (
        "replicator-dispatch-rate",
        "Limit what each link to another cluster sends; a message is an entry here.",
    ),
}


def setters() -> dict[Policy, tuple[str, Callable[..., None]]]:
    """Return the name and the setter of each of these policies."""
    dispatch = {policy: (name, _dispatch(policy, name, text)) for policy, (name, text) in _DISPATCH.items()}
    return {
        Policy.PUBLISH_RATE: ("publish-rate", _publish()),
        **dispatch,
        Policy.SUBSCRIBE_RATE: ("subscribe-rate", _subscribe()),
    }


def _publish() -> Callable[..., None]:
    def set_rate(session: Session, owner: NamespaceName | TopicName, messages: int = -1, size: int = -1) -> None:
        value = {"publishThrottlingRateInMsg": messages, "publishThrottlingRateInByte": size}
        set_policy(session, owner, (Policy.PUBLISH_RATE, "publish-rate"), value)

    return documented(
        set_rate,
        "Limit what clients publish to a topic per second.",
        messages=Annotated[int, _Messages("--msg-publish-rate", "-m")],
        size=Annotated[int, _Bytes("--byte-publish-rate", "-b")],
    )


def _dispatch(policy: Policy, name: str, text: str) -> Callable[..., None]:
    def set_rate(
        session: Session,
        owner: NamespaceName | TopicName,
        *,
        messages: int = -1,
        size: int = -1,
        period: int = 1,
        relative: bool = False,
    ) -> None:
        value = {
            "dispatchThrottlingRateInMsg": messages,
            "dispatchThrottlingRateInByte": size,
            "relativeToPublishRate": relative,
            "ratePeriodInSecond": period,
        }
        set_policy(session, owner, (policy, name), value)

    return documented(
        set_rate,
        text,
        messages=Annotated[int, _Messages("--msg-dispatch-rate", "-md")],
        size=Annotated[int, _Bytes("--byte-dispatch-rate", "-bd")],
        period=Annotated[int, typer.Option("--dispatch-rate-period", "-dt", min=1, help="Seconds.")],
        relative=Annotated[
            bool,
            typer.Option("--relative-to-publish-rate", "-rp", help="Add the rate at which the topic is published."),
        ],
    )


def _subscribe() -> Callable[..., None]:
    def set_rate(session: Session, owner: NamespaceName | TopicName, times: int = -1, period: int = 30) -> None:
        value = {"subscribeThrottlingRatePerConsumer": times, "ratePeriodInSecond": period}
        set_policy(session, owner, (Policy.SUBSCRIBE_RATE, "subscribe-rate"), value)

    return documented(
        set_rate,
        "Limit how often a consumer subscribes.",
        times=Annotated[int, typer.Option("--subscribe-rate", "-sr", help="Times per period; -1: no limit.")],
        period=Annotated[int, typer.Option("--subscribe-rate-period", "-st", min=1, help="Seconds.")],
    )
