"""The protocols that all parts of a link share. Each part declares further attributes that it needs in its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.broker.log.interfaces import LoggedTopic

if TYPE_CHECKING:
    from magnetar.broker.dispatch.consumer import Consumer
    from magnetar.broker.environment import Environment


class NotifiedTopic(LoggedTopic, Protocol):
    """The topic of the link."""

    def notify(self) -> None:
        """Schedule dispatch."""
        ...


class Rest(Protocol):
    """The rest of a link."""

    def wake(self) -> None:
        """Request a holder, if the link rests."""
        ...


class SendingLink(Protocol):
    """A link that sends entries."""

    @property
    def environment(self) -> Environment:
        """Objects that all parts of the broker share."""
        ...

    @property
    def target(self) -> str:
        """Target cluster."""
        ...

    def dispatch(self) -> None:
        """Send as much as one turn allows."""
        ...


class RestingLink(SendingLink, Protocol):
    """A link that may rest, and that a part may give another holder."""

    @property
    def consumer(self) -> Consumer | None:
        """The holder of the link."""
        ...

    @property
    def rest(self) -> Rest:
        """Its rest."""
        ...
